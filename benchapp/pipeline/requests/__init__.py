"""Requests of runs: create, cancel, offer to hosts, settle."""
