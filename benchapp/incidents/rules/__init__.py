"""Significance, grouping, severity, common factors, suspects."""
