"""Runs, badges, provenance."""
