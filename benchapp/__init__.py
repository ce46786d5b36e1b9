"""The history of storage benchmarks, in a browser."""

__version__ = "0.1.0"
