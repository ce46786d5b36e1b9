"""Wanted schedules, and the schedules of hosts."""
