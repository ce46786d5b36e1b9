"""Requested runs: the section of pages, and its buttons."""
