"""Results on the terminal and in --json: of the server, compared with the level of each series, or of fio."""
