"""A/B experiments: form, result, plan."""
