"""Charts as rows: parameters, types of answers, views."""
