"""The gate: submit results, and compare them with a baseline on the server."""
