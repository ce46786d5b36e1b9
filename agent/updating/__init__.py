"""Replacing the agent by the version that its server ships."""
