"""Pure calculations."""
