"""Run the agent as `python3 -m agent`, or by the path of this file, as from a crontab."""

import os
import sys

if not __package__:
    # Started by path: replace the package's own directory by its parent.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from agent.commands.cli import main

sys.exit(main())
