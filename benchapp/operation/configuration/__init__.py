"""Configuration as code: hosts' pools, policies, planned events, prices, subscriptions and studies as one YAML file."""
