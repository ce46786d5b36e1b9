"""What runs on hosts: runs fio, keeps the result on disk, posts it until it is acknowledged.

Standard library only, CPython 3.8 or later. Imports nothing of the server.
"""

__version__ = "0.1.0"
