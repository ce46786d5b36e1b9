"""Sign-in, people, tokens."""
