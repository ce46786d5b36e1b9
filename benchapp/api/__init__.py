"""URLs, health checks."""
