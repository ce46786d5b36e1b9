"""Maintenance windows and expected changes."""
