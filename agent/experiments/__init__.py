"""A/B experiments: two arms measured in alternation, with resume after a reboot."""

# More pairs have no plan on the server: docs/deciding.md.
PAIRS_MAXIMUM = 300
