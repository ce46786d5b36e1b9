"""Run `up` without Django around it: `python -m benchapp.embedded`, the same as `manage.py up`."""

import argparse
import sys

from benchapp.embedded.command import add_arguments, run_up

parser = argparse.ArgumentParser(
    prog="up", description="Start everything on this machine and benchmark it once."
)
add_arguments(parser)
sys.exit(run_up(parser.parse_args()))
