"""Violated thresholds of subscriptions."""
