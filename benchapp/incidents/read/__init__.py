"""Incidents, affected matrix, detection status."""
