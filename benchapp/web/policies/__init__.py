"""Detection policies."""
