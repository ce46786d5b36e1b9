"""E-mail, webhook, address guard."""
