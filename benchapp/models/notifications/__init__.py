"""Series that violate thresholds of subscriptions."""
