"""Detection policies: their tables, and the thresholds of series."""
