"""Terse versions 2 to 5."""
