"""Notices by e-mail."""
