"""The command line of `up`: options and exit status."""

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchapp.operation.embedded.child import PROJECT, NoAccount, ServerFailed
from benchapp.operation.embedded.home import AlreadyRunning, Home
from benchapp.operation.embedded.preflight import PreflightFailed
from benchapp.operation.embedded.servers import NoBinaries, WrongVersion
from benchapp.operation.embedded.supervisor import Supervisor
from benchapp.operation.embedded.up import Options, Up

EXIT_FAILED: Final = 1


def print_line(line: str) -> None:
    """Print a line; a closed terminal is ignored."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def default_data_directory(environ: Mapping[str, str]) -> Path:
    """Return the default data directory."""
    return Path(environ.get("BENCHAPP_DATA_DIR") or PROJECT / "var").expanduser().absolute()


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str] = os.environ) -> None:
    """Add the options of `manage.py up` and `python -m benchapp.operation.embedded`."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default: first free port from 8000)")
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=default_data_directory(environ),
        help="data directory (default: var)",
    )
    parser.add_argument("--profile", default="quick", help="profile of the first run (default: quick)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="set a profile parameter: runtime=1"
    )
    parser.add_argument(
        "--as-root",
        action="store_true",
        help="run web and worker as root if the servers' account cannot read the checkout or its Python",
    )
    parser.add_argument("--no-run", action="store_true", help="start without running a benchmark")
    parser.add_argument(
        "--sample",
        action="store_true",
        help="load the sample: published results of EBS volumes (2013) with studies",
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        help="restart web and worker when their code changes (needs the development packages)",
    )
    parser.add_argument("--exit-after-run", action="store_true", help="stop after the result is stored")


def run_up(arguments: argparse.Namespace) -> int:
    """Run the stack until it is stopped; return the exit status."""
    directory = arguments.data_dir.expanduser().absolute()
    options = Options(
        data_directory=directory,
        host=arguments.host,
        port=arguments.port,
        is_run_wanted=not arguments.no_run,
        is_exit_wanted=arguments.exit_after_run,
        profile=arguments.profile,
        adjustments=tuple(arguments.set),
        is_sample_wanted=arguments.sample,
        is_root_allowed=arguments.as_root,
        is_reloading=arguments.reload,
    )
    up = Up(options, os.environ, Supervisor(print_line), Home(directory))
    try:
        return up.run()
    except (PreflightFailed, AlreadyRunning, ServerFailed, NoAccount, NoBinaries, WrongVersion) as error:
        print(f"up: {error}", file=sys.stderr, flush=True)
        return EXIT_FAILED
