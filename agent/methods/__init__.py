"""Profiles that are more than one execution of fio: saturation, steady state, small files, sequential read."""
