"""The gate: submit results, and compare them with a baseline on the server."""

# The server compares a run and at most 50 further ones: FURTHER_RUNS_MAXIMUM of benchapp's queries.
RUNS_MAXIMUM = 51
