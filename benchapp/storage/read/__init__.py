"""Hosts: the list, schedules, levels compared with peers, environment changes."""
