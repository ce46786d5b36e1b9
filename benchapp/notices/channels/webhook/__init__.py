"""Notices to programs."""
