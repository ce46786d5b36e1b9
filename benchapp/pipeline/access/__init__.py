"""Accounts, tokens, rate limits."""
