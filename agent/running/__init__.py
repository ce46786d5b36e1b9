"""`bench-agent run`: lock, checks, measure, store, deliver."""
