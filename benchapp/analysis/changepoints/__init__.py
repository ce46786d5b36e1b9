"""Change points of one history, version 1."""
