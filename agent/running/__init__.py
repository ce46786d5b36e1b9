"""`bench-agent run`, `gate` and `experiment`: lock, checks, measure, store, deliver."""

# More pairs have no plan on the server: docs/deciding.md.
PAIRS_MAXIMUM = 300
# The server compares a run and at most 50 further ones: FURTHER_RUNS_MAXIMUM of benchapp's queries.
RUNS_MAXIMUM = 51
# Of `gate --repeat auto`.
AUTO_RUNS_MAXIMUM = 5
