"""The agent: runs fio on a host, stores the result on disk, and posts it until the server acknowledges it.

Standard library only, CPython 3.8 or later. Imports nothing from the server.
"""

import sys

__version__ = "0.1.0"

# Every entry point imports this module first. It must parse with CPython 3.6, the python3 of RHEL 8, which cannot read
# the others.
if sys.version_info < (3, 8):
    sys.stderr.write(
        "bench-agent: CPython 3.8 or later is required, this is %d.%d at %s; install a later one, for example with "
        "dnf install python39, and run it with that: python3.9 bench-agent.pyz\n"
        % (sys.version_info[0], sys.version_info[1], sys.executable)
    )
    sys.exit(2)
