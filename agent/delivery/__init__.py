"""Envelope, spool on disk, HTTP client, retries."""
