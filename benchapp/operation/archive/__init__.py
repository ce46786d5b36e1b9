"""Archives: the history as a file that another instance imports."""
