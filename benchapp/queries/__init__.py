"""Hosts, studies, titles, pagination."""
