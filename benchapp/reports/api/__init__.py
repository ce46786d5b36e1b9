"""What other sites embed: status badges, feeds, images of charts, and the signed links to them."""
