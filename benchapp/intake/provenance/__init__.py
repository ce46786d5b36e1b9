"""How each number of a run was derived."""
