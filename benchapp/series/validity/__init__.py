"""Badges and the rules behind them."""
