"""Kernel, CPU, memory, cloud instance, control groups, time zone."""
