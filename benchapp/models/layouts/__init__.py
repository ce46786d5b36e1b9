"""Choosing a layout: prices."""
