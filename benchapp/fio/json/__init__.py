"""JSON and JSON+."""
