"""A/B experiments."""
