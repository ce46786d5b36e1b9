"""Run `up` without loading Django: `python -m benchapp.operation.embedded`, same as `manage.py up`."""

import argparse
import sys

from benchapp.operation.embedded.command import add_arguments, run_up

parser = argparse.ArgumentParser(
    prog="up", description="Start all services on this machine and run one benchmark."
)
add_arguments(parser)
sys.exit(run_up(parser.parse_args()))
