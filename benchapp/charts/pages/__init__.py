"""Chart pages."""
