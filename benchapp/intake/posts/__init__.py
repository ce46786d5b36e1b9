"""Submissions, envelope, metadata, format check."""
