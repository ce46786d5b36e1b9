"""Notices to chat and paging services."""
