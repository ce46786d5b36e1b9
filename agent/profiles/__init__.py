"""The shipped profiles and their parameters."""
