"""Scaling, matrix, history, comparison."""
