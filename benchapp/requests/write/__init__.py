"""Wanted schedules: store them, take the reports of hosts."""
