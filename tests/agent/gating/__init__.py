"""The gate command."""
