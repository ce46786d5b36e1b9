"""Saved views."""
