"""The agent: runs fio on a host, stores the result on disk, and posts it until the server acknowledges it.

Standard library only, CPython 3.8 or later. Imports nothing from the server.
"""

__version__ = "0.1.0"
