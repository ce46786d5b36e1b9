"""Run the agent as `python3 -m agent`, or by the path of this file, as a crontab does."""

import os
import sys

if not __package__:
    # Started by its path: what holds the package takes the place of the package's own directory.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from agent.commands.cli import main

sys.exit(main())
