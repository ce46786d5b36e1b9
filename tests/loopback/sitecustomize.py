"""Loaded by every Python that finds this folder in PYTHONPATH."""

import os
import sys

import loopback_only

loopback_only.install(os.environ.get(loopback_only.RECORD, ""))
# No installation has it; structlog imports it where it finds it, in a tenth of the start of a command.
sys.modules["rich"] = None
