"""Runs that the server requests: what this host allows, and `bench-agent poll`."""
