"""`make up`: PostgreSQL, Valkey, web, worker and beat under one supervisor. Standard library only."""
