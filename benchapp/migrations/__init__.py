"""Migrations; never edited once they landed."""
