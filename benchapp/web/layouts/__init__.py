"""Choose a layout; prices."""
