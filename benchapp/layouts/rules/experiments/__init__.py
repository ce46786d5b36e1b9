"""A/B experiments: pairs of runs, an interval that holds at every look, drift. Pure."""
