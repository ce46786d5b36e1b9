"""Choosing a layout: prices, the ranking of measured layouts."""
