"""Subscriptions, outbox, messages, silent hosts."""
