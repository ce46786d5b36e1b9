"""Charts that users keep for themselves: pinned charts, saved views."""
