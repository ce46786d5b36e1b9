"""One module per resource: parameters, response types, view."""
