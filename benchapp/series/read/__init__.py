"""Series, points, current levels."""
