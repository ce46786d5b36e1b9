"""Configuration as code: hosts' pools, policies, planned events, subscriptions and studies as one YAML file."""
