"""Crontab entries and systemd timers."""
