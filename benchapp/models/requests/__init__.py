"""Runs that the server requests of hosts, and what hosts allow."""
