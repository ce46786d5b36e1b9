"""Access: the audit record."""
