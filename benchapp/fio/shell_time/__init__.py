"""The shell's time of the small-files test."""
