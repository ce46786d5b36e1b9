"""Tests of the agent: plain pytest, a hostile server on loopback, no database."""
