"""Files, published numbers, the sample."""
