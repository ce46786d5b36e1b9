"""Archives: what is exported, what an import adds, and what it refuses."""
