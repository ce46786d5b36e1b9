"""Profiles with more than one execution of fio: saturation, steady state, small files, sequential read."""
