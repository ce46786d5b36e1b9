"""Scaling findings, comparison, downsampling, heat map."""
