"""Incidents, detection status."""
