"""Detection policies and dry runs."""
