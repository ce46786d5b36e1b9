"""Views, parameters, permissions, problems, OpenAPI."""
