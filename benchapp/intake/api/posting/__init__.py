"""POST of results: its operations in the OpenAPI document, and the answer to `validate=1`."""
