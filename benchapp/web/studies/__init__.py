"""Studies, shared links."""
