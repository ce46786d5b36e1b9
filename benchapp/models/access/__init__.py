"""Access: audit records, identities at a provider."""
