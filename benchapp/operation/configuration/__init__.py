"""Configuration as code: what people configure as one YAML file."""
