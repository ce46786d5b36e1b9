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
  [run]     directory, profile, fio (path), reserve (space to leave free), log (file),
            max_load = 4.0, skip_if_busy = 20, cloud = yes, serials = yes,
            trust_directory = yes
  [target]  volume_type = gp3, volume_count = 4, provisioned_iops = 16000, ...
  [labels]  anything = text
"""

_SECONDS_MAXIMUM = 7 * 86400


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    if sys.platform == "win32":
        # No locks, users or process groups as they are needed here.
        print(
            "bench-agent: this Python of Windows lacks what it takes: run it with Cygwin's", file=sys.stderr
        )
        return 2
    arguments = _build_parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        # A path that the locale cannot show must not end the run that it names.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    from agent.console import Console

    console = Console(is_quiet=arguments.quiet, is_json=arguments.json)
    return _run_command(arguments, console)


def _run_command(arguments: argparse.Namespace, console: Console) -> int:
    from agent.commands import commands
    from agent.exit_codes import AgentError, ExitCode, Interrupted

    try:
        return int(getattr(commands, f"run_{arguments.command}")(arguments, console))
    except AgentError as error:
        status = 128 + error.signal_number if isinstance(error, Interrupted) else int(error.exit_code)
        return _end(arguments, console, status=status, why=str(error))
    except KeyboardInterrupt:
        return _end(arguments, console, status=130, why="stopped; what was measured is in the spool")
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain once more while it shuts down.
        sys.stdout = None
        return int(ExitCode.OK)
    except Exception:
        import traceback

        traceback.print_exc()
        why = "this is a fault of bench-agent; what was measured before it is in the spool"
        return _end(arguments, console, status=int(ExitCode.FAULT), why=why)


def _end(arguments: argparse.Namespace, console: Console, *, status: int, why: str) -> int:
    console.warn(why)
    console.emit({"command": arguments.command, "exit_code": status, "error": why})
    return status


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
    for add in (_add_run, _add_sweep, _add_schedule, _add_enroll, _add_flush, _add_check):
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
    _add_measured(run)
    _add_pairs(run)
    run.add_argument("--no-send", action="store_true", help="only keep the result in the spool")
    run.add_argument(
        "--logs", action="store_true", help="keep also how it went within the run, second by second"
    )
    for option, purpose in (
        ("--cloud", "ask the metadata service of EC2, Google Cloud or Azure for instance type and zone"),
        ("--serials", "send serial numbers and ids of disks and machine as they are, not hashed"),
    ):
        run.add_argument(option, action="store_true", help=purpose)
    run.add_argument(
        "--wait", metavar="SECONDS", type=_read_seconds, default=0.0, help="wait until the result is stored"
    )
    _add_unattended(run)
    _add_budget(run)


def _add_measured(parser: argparse.ArgumentParser) -> None:
    for option, placeholder, purpose in (
        ("--profile", "NAME", "what to measure: see `bench-agent profiles`"),
        ("--jobfile", "FILE", "or a job file of your own; --profile names what it measures"),
        ("--file", "FILE", "what seqread-fragmentation reads; it is never written to"),
        ("--file-size", "SIZE", "size of the test file, as --set size= says it: 5G, 15G"),
        ("--directory", "DIR", "where: a directory on the storage under test"),
        ("--time-limit", "TIME", "end fio after this time at the latest: 90s, 15m, 2h"),
    ):
        parser.add_argument(option, metavar=placeholder, help=purpose)
    parser.add_argument(
        "--allow-outside", action="store_true", help="let a job file leave the directory, or start programs"
    )
    _add_trust(parser)


def _add_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust-directory",
        action="store_true",
        help="let root measure also where another user can rename or write the directory",
    )


def _add_unattended(run: argparse.ArgumentParser) -> None:
    for option, placeholder, purpose in (
        ("--splay", "TIME", "start up to so much later, the same on one day of one host"),
        ("--patience", "TIME", "wait so long for another bench-agent to end"),
        ("--max-load", "LOAD", "try later where the load of the last minute is higher"),
        ("--log", "FILE", "append what is said to this file, too, which stays below 1 MiB"),
    ):
        run.add_argument(option, metavar=placeholder, help=purpose)
    run.add_argument(
        "--skip-if-busy",
        metavar="PERCENT",
        nargs="?",
        # A device that is busy a fifth of the time delays every fifth I/O.
        const="20",
        help="quietly leave it to the next time where others keep the storage busier (default: 20)",
    )


def _add_sweep(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    sweep = commands.add_parser(
        "sweep",
        parents=[common],
        help="measure over stripes, file sizes or parameters, step by step",
        description="With --devices it destroys what is on them. Anything but zeros in the first and last 4 MiB of "
        "a device and in 64 samples of 64 KiB between them counts as data, as does every known signature. A device "
        "with data is refused unless --wipe names it, or a sweep of this spool left it exactly as it is. Without "
        "--yes the plan is shown and confirmed first.",
        epilog="Values between commas vary: --set iodepth=1,4,16. Exit codes: bench-agent --help",
    )
    for option, placeholder, purpose in (
        ("--devices", "DEV,…", "block devices to build stripes over"),
        ("--directories", "DIR,…", "or directories, where nothing is built"),
        ("--stripes", "N,…", "how many of the devices (default: 1,2,4,… and all)"),
        ("--file-sizes", "SIZE,…", "sizes of the test file: 5G,15G"),
        ("--profile", "NAME", "what to measure: see `bench-agent profiles`"),
        ("--chunk", "SIZE", "what goes to one device before the next (default: 512k)"),
        ("--wipe", "DEV,…", "devices whose contents may be lost; each that holds data must be named"),
        ("--resume", "ID", "go on with a sweep that was stopped or killed, or with the last"),
    ):
        sweep.add_argument(option, metavar=placeholder, help=purpose)
    sweep.add_argument("--raid", choices=("mdadm", "lvm", "btrfs"), help="what stripes (default: mdadm)")
    sweep.add_argument("--fs", choices=("xfs", "ext4", "btrfs"), help="the filesystem (default: xfs)")
    _add_pairs(sweep)
    for option, purpose in (
        ("--yes", "do not ask"),
        ("--dry-run", "print the exact commands and do nothing"),
        ("--stop-on-error", "end after the first step that failed"),
        ("--no-send", "only keep the results in the spool"),
    ):
        sweep.add_argument(option, action="store_true", help=purpose)
    _add_trust(sweep)
    _add_budget(sweep)


def _add_pairs(parser: argparse.ArgumentParser) -> None:
    for option, purpose in (
        ("--set", "adjust a parameter of the profile"),
        ("--target", "say what cannot be found out: volume_type=gp3"),
        ("--label", "add words of your own"),
    ):
        parser.add_argument(option, metavar="KEY=VALUE", action="append", default=[], help=purpose)


def _add_schedule(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    schedule = commands.add_parser("schedule", help="let profiles run by themselves: install, remove, show")
    actions = schedule.add_subparsers(dest="action", metavar="ACTION", required=True)
    install = actions.add_parser(
        "install",
        parents=[common],
        help="write a crontab entry or a timer, in place of the profile's last",
        epilog="example: bench-agent schedule install --cron --every 6h --splay 10m --profile quick --directory /data",
    )
    kind = install.add_mutually_exclusive_group(required=True)
    kind.add_argument("--cron", action="store_true", help="in the crontab")
    kind.add_argument("--systemd", action="store_true", help="as a timer and a service")
    for option, placeholder, purpose in (
        ("--every", "TIME", "how often: 15m, 6h, 24h, 7d"),
        ("--at", "HH:MM", "when the first of a day starts, local time (default: 00:00)"),
        ("--splay", "TIME", "start up to so much later, by chance"),
    ):
        install.add_argument(option, metavar=placeholder, required=option == "--every", help=purpose)
    _add_measured(install)
    install.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="adjust a parameter of the profile"
    )
    install.add_argument(
        "--dry-run", action="store_true", help="show what would be written, and write nothing"
    )
    remove = actions.add_parser("remove", parents=[common], help="let a profile, or all, no longer run")
    remove.add_argument("--profile", metavar="NAME", help="only this one")
    show = actions.add_parser("show", parents=[common], help="show what runs by itself, and when next")
    actions.add_parser("report", parents=[common], help="tell the server what runs by itself, once more")
    for action in (install, remove, show):
        action.add_argument("--user", metavar="USER", help="whose runs, for root")


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
    _add_trust(check)


def _add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--budget",
        metavar="SECONDS",
        type=_read_seconds,
        default=60.0,
        help="try to deliver for so long (default: 60)",
    )


def _read_seconds(text: str) -> float:
    """Return seconds from 0 on; "nan" would never be over."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _SECONDS_MAXIMUM:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0 to {_SECONDS_MAXIMUM}")
    return seconds
