"""Requested runs: for people and programs, and for agents."""
