"""Running fio: job file, working directory, limits, orphaned processes."""
