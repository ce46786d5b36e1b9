"""The commands of the agent, their arguments, and how they end."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Sequence

from agent import __version__

if TYPE_CHECKING:
    from agent.console import Console

_EPILOGUE = """\
exit codes:
  0    done: measured, delivered, nothing to do
  1    try later: results remain in the spool, or another bench-agent is at work
  2    credentials, configuration or arguments are wrong; results are kept, a person must act
  3    fio failed, or nothing could be measured; a failed run that printed a report is delivered all the same
  4    the server rejected a result and said why; what it did not take is kept under rejected/ in the spool
  70   a fault of bench-agent itself
  130  stopped by SIGINT; 143 by SIGTERM, 129 by SIGHUP
If several are true, the first of 2, 3, 4, 1 is told.

environment:
  BENCH_AGENT_CONFIG        configuration file (else /etc/bench-agent.ini, ~/.config/bench-agent/agent.ini)
  BENCH_AGENT_URL           address of the server, before the one that is configured
  BENCH_AGENT_TOKEN         this host's token, before the token file
  BENCH_AGENT_SPOOL         spool directory, before the one that is configured
  BENCH_AGENT_ENROLL_TOKEN  enrolment token for `enroll`
  http_proxy, https_proxy, no_proxy as usual

configuration (INI; all of it is optional):
  [server]  url, token_file (mode 0600), ca_file, timeout = 30s
  [spool]   directory, max_bytes = 256m, max_age = 90d
  [run]     directory, profile, fio (path), reserve (space to leave free)
  [target]  volume_type = gp3, volume_count = 4, provisioned_iops = 16000, ...
  [labels]  anything = text
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    arguments = _build_parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        # A path that the locale cannot show must not end the run that it names.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    from agent.console import Console

    console = Console(is_quiet=arguments.quiet, is_json=arguments.json)
    return _run_command(arguments, console)


def _run_command(arguments: argparse.Namespace, console: Console) -> int:
    from agent import commands
    from agent.outcome import AgentError, ExitCode, Interrupted

    try:
        return int(getattr(commands, f"run_{arguments.command}")(arguments, console))
    except AgentError as error:
        status = 128 + error.signal_number if isinstance(error, Interrupted) else int(error.exit_code)
        console.warn(str(error))
        console.emit({"command": arguments.command, "exit_code": status, "error": str(error)})
        return status
    except KeyboardInterrupt:
        console.warn("stopped; what was measured is in the spool")
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain once more while it shuts down.
        sys.stdout = None
        return int(ExitCode.OK)
    except Exception:
        import traceback

        traceback.print_exc()
        console.warn("this is a fault of bench-agent; what was measured before it is in the spool")
        return int(ExitCode.FAULT)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench-agent",
        description="Runs storage benchmarks on this host and brings what fio printed to the server.",
        epilog=_EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bench-agent {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", metavar="FILE", help="configuration file")
    common.add_argument("--json", action="store_true", help="print the outcome as one JSON object")
    common.add_argument("--quiet", action="store_true", help="say only what is wrong")
    for add in (_add_run, _add_enroll, _add_flush, _add_check):
        add(commands, common)
    commands.add_parser("profiles", parents=[common], help="list the profiles and what can be adjusted")
    commands.add_parser("status", parents=[common], help="show what waits, what was rejected or dropped")
    commands.add_parser("version", parents=[common], help="print the version")
    return parser


def _add_run(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    run = commands.add_parser(
        "run",
        parents=[common],
        help="measure, keep the result, deliver it",
        epilog="exit codes: bench-agent --help",
    )
    run.add_argument("--profile", metavar="NAME", help="what to measure: see `bench-agent profiles`")
    run.add_argument("--directory", metavar="DIR", help="where: a directory on the storage under test")
    for option, purpose in (
        ("--set", "adjust a parameter of the profile"),
        ("--target", "say what cannot be found out: volume_type=gp3"),
        ("--label", "add words of your own"),
    ):
        run.add_argument(option, metavar="KEY=VALUE", action="append", default=[], help=purpose)
    run.add_argument(
        "--time-limit", metavar="TIME", help="end fio after this time at the latest: 90s, 15m, 2h"
    )
    run.add_argument("--no-send", action="store_true", help="only keep the result in the spool")
    run.add_argument(
        "--wait", metavar="SECONDS", type=float, default=0.0, help="wait until the result is stored"
    )
    _add_budget(run)


def _add_enroll(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    enroll = commands.add_parser(
        "enroll",
        parents=[common],
        help="make this machine a host of the server",
        epilog="The enrolment token comes from --token-file, BENCH_AGENT_ENROLL_TOKEN, or standard input.",
    )
    enroll.add_argument("url", metavar="URL", help="address of the server: https://bench.example.com")
    enroll.add_argument(
        "--token-file", metavar="FILE", help='file with the enrolment token; "-" is standard input'
    )
    enroll.add_argument("--name", help="name of this host; its host name by default")
    enroll.add_argument("--force", action="store_true", help="enrol anew although there is a token")


def _add_flush(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    flush = commands.add_parser("flush", parents=[common], help="deliver what waits in the spool")
    flush.add_argument("--retry-rejected", action="store_true", help="deliver also what was rejected before")
    _add_budget(flush)


def _add_check(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    check = commands.add_parser("check", parents=[common], help="say what is missing, in words")
    check.add_argument("--directory", metavar="DIR", help="look also whether a run could be made here")


def _add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--budget",
        metavar="SECONDS",
        type=float,
        default=60.0,
        help="try to deliver for so long (default: 60)",
    )
