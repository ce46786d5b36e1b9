"""Baselines, noise profiles, recovery, silent hosts."""
