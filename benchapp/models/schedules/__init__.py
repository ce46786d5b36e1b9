"""Schedules that the server wants of pools and hosts, and what hosts adopted."""
