"""Changes → incidents; triage, suspects, counter-evidence, undo."""
