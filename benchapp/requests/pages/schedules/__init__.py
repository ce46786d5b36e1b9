"""Schedules of pools and hosts: wanted, installed, edited."""
