"""Channels of notices: a folder for each member of models.Channel, and what they share."""
