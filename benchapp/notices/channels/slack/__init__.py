"""Notices to a Slack-compatible webhook."""
