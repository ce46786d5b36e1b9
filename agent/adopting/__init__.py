"""Schedules from the server: what this host adopts of them."""
