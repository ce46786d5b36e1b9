"""Detection policies, and dry runs of other thresholds."""
