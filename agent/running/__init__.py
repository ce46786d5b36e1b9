"""Bench-agent run: lock, checks, measure, store, deliver."""
