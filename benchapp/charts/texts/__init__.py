"""Titles and sentences of charts."""
