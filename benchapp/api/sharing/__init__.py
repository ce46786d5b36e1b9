"""What other sites embed: status badges, feeds, and the signed links to them."""
