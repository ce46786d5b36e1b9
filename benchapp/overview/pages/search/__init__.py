"""Search over hosts, series, runs, incidents, studies, pages and documentation."""
