"""Configuration as code: what a file may say, what it changes, and that an export changes nothing."""
