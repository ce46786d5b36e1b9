"""Django's backend for PostgreSQL, of web processes, whose requests end while the database hangs."""
