"""The laptop stack: PostgreSQL, Valkey, web, worker and beat under one supervisor. Standard library only."""
