"""Choosing a layout: its price, and which layouts meet a requirement."""
