"""What all pages share: access, errors, filter bar, security headers, value texts."""
