"""Runs, traces, submissions."""
