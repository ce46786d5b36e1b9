"""Stripes over devices, step by step, with resume."""
