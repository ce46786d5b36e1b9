"""A/B experiments: the runs of two arms."""
