"""Fio's normal text output."""
