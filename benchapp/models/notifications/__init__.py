"""Stored thresholds and the series that violate them; remembered answers to layout questions."""
