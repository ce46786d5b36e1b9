"""Histories → changes, reconciled with stored changes."""
