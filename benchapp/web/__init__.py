"""URLs, overview, help."""
