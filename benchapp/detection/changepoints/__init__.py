"""Change points of one history."""
