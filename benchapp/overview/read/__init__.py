"""The overview: hosts, what needs attention, recent series, charts of the fleet."""
