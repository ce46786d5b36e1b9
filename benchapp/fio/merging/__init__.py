"""Directions and jobs that are reported as one; duplicates of one execution."""
