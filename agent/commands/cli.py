"""The commands of the agent, their arguments and exit codes."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Sequence

from agent import __version__
from agent.running import AUTO_RUNS_MAXIMUM, PAIRS_MAXIMUM, RUNS_MAXIMUM

if TYPE_CHECKING:
    from agent.console import Console

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOGUE = """\
exit codes:
  0    success: measured, delivered, or nothing to do
  1    temporary: results remain in the spool, or another bench-agent is running
  2    invalid credentials, configuration or arguments; results stay in the spool
  3    gate: regressed
  4    gate: undecided
  5    fio failed, or nothing could be measured; a failed run with a report is still delivered
  6    the server rejected a result: this one, which stays in the spool, or one that it received before
  70   internal error of bench-agent
  130  stopped by SIGINT; 143 by SIGTERM, 129 by SIGHUP
If several apply, the first of 2, 3, 5, 6, 4, 1 is returned.

environment:
  BENCH_AGENT_CONFIG        configuration file (default: /etc/bench-agent.ini, ~/.config/bench-agent/agent.ini)
  BENCH_AGENT_URL           server URL, overrides the configuration
  BENCH_AGENT_TOKEN         token of this host, overrides the token file
  BENCH_AGENT_SPOOL         spool directory, overrides the configuration
  BENCH_AGENT_ENROLL_TOKEN  enrollment token for `enroll`
  http_proxy, https_proxy, no_proxy as usual

configuration (INI, all keys optional):
  [server]  url, token_file (mode 0600), ca_file, proxy, timeout = 30s
  [spool]   directory, max_bytes = 256m
  [run]     directory, profile, fio (path), reserve (free space to keep), log (file),
            max_load = 4.0, skip_if_busy = 20, cloud = yes, serials = yes,
            trust_directory = yes
  [requests] allow = quick; saturation runtime=5..30, directories, per_day = 4,
            quiet_hours = 08:00-18:00
  [schedule] from_server = yes, allow = quick, directories, per_day = 24,
            quiet_hours = 08:00-18:00
  [target]  volume_type = gp3, volume_count = 4, provisioned_iops = 16000, ...
  [labels]  anything = text
"""

_SECONDS_MAXIMUM = 7 * 86400


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    if sys.platform == "win32":
        # Windows has none of the locks, users and process groups that the agent needs.
        print("bench-agent: not supported by Python for Windows; use Cygwin's Python", file=sys.stderr)
        return 2
    given = sys.argv[1:] if argv is None else argv
    arguments = build_parser(only=given[0] if given else "").parse_args(given)
    for stream in (sys.stdout, sys.stderr):
        # A path that the locale cannot encode must not end the run.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    from agent.console import Console

    console = Console(is_quiet=arguments.quiet, is_json=arguments.json, is_terminal=sys.stderr.isatty())
    return _run_command(arguments, console)


def _run_command(arguments: argparse.Namespace, console: Console) -> int:
    from agent.commands import handlers
    from agent.exit_codes import AgentError, ExitCode, Interrupted

    try:
        handler = getattr(handlers, f"run_{arguments.command}".replace("-", "_"))
        return int(handler(arguments, console))
    except AgentError as error:
        status = 128 + error.signal_number if isinstance(error, Interrupted) else int(error.exit_code)
        return _end(arguments, console, status=status, reason=str(error))
    except KeyboardInterrupt:
        return _end(arguments, console, status=130, reason="interrupted; measured results are in the spool")
    except BrokenPipeError:
        # The reader of the output is gone; Python would report it again at shutdown.
        sys.stdout = None
        return int(ExitCode.OK)
    except Exception:
        import traceback

        from agent.console import write_text

        write_text(traceback.format_exc(), sys.stderr)
        reason = "internal error of bench-agent; measured results are in the spool"
        return _end(arguments, console, status=int(ExitCode.FAULT), reason=reason)


def _end(arguments: argparse.Namespace, console: Console, *, status: int, reason: str) -> int:
    console.warn(reason)
    console.emit({"command": arguments.command, "exit_code": status, "error": reason})
    return status


def list_commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command, in the order of the help."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands.choices)


def build_parser(*, only: str = "") -> argparse.ArgumentParser:
    """Return the parser of all commands; only: of this one, if there is one of this name, in a tenth of the time."""
    parser = argparse.ArgumentParser(
        prog="bench-agent",
        description="Run storage benchmarks on this host and send the fio output to the server.",
        epilog=_EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bench-agent {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", metavar="FILE", help="configuration file")
    common.add_argument("--json", action="store_true", help="print the result as one JSON object")
    common.add_argument("--quiet", action="store_true", help="print errors only")
    additions: dict[str, Callable[[Commands, argparse.ArgumentParser], None]] = {
        "run": _add_run,
        "gate": _add_gate,
        "sweep": _add_sweep,
        "experiment": _add_experiment,
        "poll": _add_poll,
        "schedule": _add_schedule,
        "enroll": _add_enroll,
        "flush": _add_flush,
        "check": _add_check,
        "profiles": partial(_add_plain, name="profiles", purpose="list the profiles and their parameters"),
        "status": partial(_add_plain, name="status", purpose="show pending, rejected and dropped results"),
        "uninstall": _add_uninstall,
        "version": partial(_add_plain, name="version", purpose="print the version"),
    }
    for add in [additions[only]] if only in additions else additions.values():
        add(commands, common)
    return parser


def _add_run(commands: Commands, common: argparse.ArgumentParser) -> None:
    run = commands.add_parser(
        "run",
        parents=[common],
        help="measure, store and deliver the result",
        epilog="exit codes: bench-agent --help",
    )
    _add_measured(run)
    _add_pairs(run)
    _add_flags(run, no_send="store the result in the spool without sending it")
    _add_sent(run)
    _add_wait(run, default=None)
    run.add_argument(
        "--splay",
        metavar="TIME",
        help="random delay before the start, at most TIME; constant per host and day",
    )
    run.add_argument(
        "--skip-if-busy",
        metavar="PERCENT",
        nargs="?",
        # A device that is busy 20 % of the time delays every fifth I/O.
        const="20",
        help="skip the run, with exit code 0, if other I/O keeps the storage busier (default: 20)",
    )
    _add_unattended(run)
    _add_budget(run)


def _add_gate(commands: Commands, common: argparse.ArgumentParser) -> None:
    gate = commands.add_parser(
        "gate",
        parents=[common],
        help="submit results, and fail if they are a regression",
        description="Submits files with fio's output, or runs a profile as `run` does, waits until the server has "
        "stored the results, and compares them with a baseline of the same series. Exit code: 0 passed, 3 regressed, "
        "4 undecided.",
        epilog="example: bench-agent gate fio.json --baseline label.branch:main --max-regression 5% --github",
    )
    gate.add_argument(
        "outputs",
        metavar="FILE",
        nargs="*",
        help="fio's output; several files are runs of one build, "
        f"at most {RUNS_MAXIMUM} runs. Without a file the profile is run",
    )
    for option, placeholder, purpose in (
        (
            "--baseline",
            "SPEC",
            "accepted (default), 2026-11-01..2026-11-15, or label.branch:main; see docs/api.md",
        ),
        ("--metric", "NAME,…", "metrics to compare (default: iops,latency_p99_ns)"),
        (
            "--max-regression",
            "SHARE",
            "loss that must be found: 5%% or 0.05 (default: the threshold of each series)",
        ),
        ("--error-rate", "SHARE", "probability that a build without a loss fails (default: 1%%)"),
        ("--branch", "NAME", "same as --label branch=NAME; runs of other branches than main are in no level"),
        ("--comment", "FILE", "write the result as Markdown, for a comment on a change"),
    ):
        gate.add_argument(option, metavar=placeholder, help=purpose)
    _add_flags(
        gate, github="append the result to $GITHUB_STEP_SUMMARY and print annotations for GitHub Actions"
    )
    gate.add_argument(
        "--repeat",
        metavar="N",
        type=_read_repeat,
        default=1,
        help=f"run the profile N times, at most {RUNS_MAXIMUM} (default: 1); auto: until the gate is decided, at most "
        f"{AUTO_RUNS_MAXIMUM} times",
    )
    gate.add_argument(
        "--undecided", choices=("pass", "fail"), default="fail", help="pass: exit code 0 instead of 4"
    )
    _add_measured(gate)
    _add_pairs(gate)
    _add_sent(gate)
    _add_wait(gate, default=120.0)
    # A build that is not measured has not passed: only the configuration's limit applies, with exit code 1.
    gate.set_defaults(skip_if_busy=None)
    _add_unattended(gate)
    _add_budget(gate)


def _add_sent(parser: argparse.ArgumentParser) -> None:
    _add_flags(
        parser,
        logs="send fio's bandwidth, IOPS and latency logs, one value per second",
        cloud="query the metadata service of EC2, Google Cloud or Azure for instance type and zone",
        serials="send serial numbers and ids of disks and machine without hashing",
    )
    _add_destructive(parser)


def _add_destructive(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--destructive",
        metavar="DEV",
        help="allow writes to the device that --device names; destroys its data",
    )


def _add_wait(parser: argparse.ArgumentParser, *, default: float | None) -> None:
    usual = "30 on a terminal, otherwise 0" if default is None else f"{default:.0f}"
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=_read_seconds,
        default=default,
        help=f"wait up to this long until the server has stored the result (default: {usual})",
    )


class _Once(argparse.Action):
    """Refuses a second value, so that nobody takes one of several devices for all."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        if getattr(namespace, self.dest, None) is not None:
            parser.error(f"{option} is given twice: a run takes one")
        setattr(namespace, self.dest, values)


def _add_measured(parser: argparse.ArgumentParser) -> None:
    for option, placeholder, purpose in (
        ("--profile", "NAME", "profile to run; see `bench-agent profiles`"),
        ("--jobfile", "FILE", "custom fio job file; --profile sets its name"),
        ("--file", "FILE", "file that seqread-fragmentation reads (never written)"),
        ("--file-size", "SIZE", "size of the test file, same as --set size=: 5G, 15G"),
        ("--directory", "DIR", "directory on the storage under test"),
        ("--device", "DEV", "block device to measure without a filesystem, by reads: /dev/disk/by-id/…"),
        ("--target-name", "NAME", "name of the storage under test (default: mount point, device or export)"),
        ("--time-limit", "TIME", "maximum run time of fio: 90s, 15m, 2h"),
    ):
        action = _Once if option == "--device" else "store"
        parser.add_argument(option, metavar=placeholder, help=purpose, action=action)
    _add_flags(parser, allow_outside="allow a job file to use paths outside the directory, or start programs")
    _add_trust(parser)


def _add_trust(parser: argparse.ArgumentParser) -> None:
    _add_flags(
        parser, trust_directory="allow root to measure in a directory that another user can rename or write"
    )


def _add_unattended(run: argparse.ArgumentParser) -> None:
    for option, placeholder, purpose in (
        ("--patience", "TIME", "maximum wait for another bench-agent to finish"),
        ("--max-load", "LOAD", "do not run if the 1-minute load average is higher"),
        ("--log", "FILE", "append all output to this file (rotated at 1 MiB)"),
    ):
        run.add_argument(option, metavar=placeholder, help=purpose)


def _add_sweep(commands: Commands, common: argparse.ArgumentParser) -> None:
    sweep = commands.add_parser(
        "sweep",
        parents=[common],
        help="vary stripes, file sizes or parameters step by step",
        description="Destroys all data on --devices. Any byte other than zero in the first and last 4 MiB of a device "
        "and in 64 samples of 64 KiB between them counts as data, as does every known signature. A device with data is "
        "refused unless --wipe names it, or its content is unchanged since a sweep of this spool. Without --yes the "
        "plan is shown and must be confirmed.",
        epilog="Comma-separated values are varied: --set iodepth=1,4,16. Exit codes: bench-agent --help",
    )
    for option, placeholder, purpose in (
        ("--devices", "DEV,…", "block devices to build stripes over"),
        ("--directories", "DIR,…", "directories to measure in; nothing is built"),
        ("--stripes", "N,…", "numbers of devices to stripe over (default: 1,2,4,… and all)"),
        ("--file-sizes", "SIZE,…", "sizes of the test file: 5G,15G"),
        ("--profile", "NAME", "profile to run; see `bench-agent profiles`"),
        ("--chunk", "SIZE", "chunk size of the stripe (default: 512k)"),
        ("--wipe", "DEV,…", "devices whose data may be destroyed; required for each device with data"),
    ):
        sweep.add_argument(option, metavar=placeholder, help=purpose)
    _add_continuation(
        sweep,
        resume="continue a sweep that was stopped or killed; `last` for the latest",
        abandon="end a sweep that was stopped or killed, and remove its stripe",
    )
    sweep.add_argument("--raid", choices=("mdadm", "lvm", "btrfs"), help="striping method (default: mdadm)")
    sweep.add_argument("--fs", choices=("xfs", "ext4", "btrfs"), help="filesystem (default: xfs)")
    _add_pairs(sweep)
    _add_flags(
        sweep,
        yes="do not ask for confirmation",
        dry_run="print the exact commands without running them",
        stop_on_error="stop after the first failed step",
        no_send="store the results in the spool without sending them",
    )
    _add_trust(sweep)
    _add_budget(sweep)


def _add_experiment(commands: Commands, common: argparse.ArgumentParser) -> None:
    experiment = commands.add_parser(
        "experiment",
        parents=[common],
        help="measure two arms in alternation: kernels, mount options, firmware",
        description="Measures the arms in ABBA order and labels each run with its arm. Between two arms the host is "
        "set up by --switch-command, or by a person who confirms it. Both commands are those of this command line: "
        "none comes from the server, and of a plan only the order is read.",
        epilog="example: bench-agent experiment --pairs 10 --profile quick --directory /data --switch-command "
        "'mount -o remount,$(test $BENCH_AGENT_ARM = a && echo relatime || echo noatime) /data'",
    )
    experiment.add_argument(
        "--pairs",
        metavar="N",
        type=partial(_read_count, noun="pairs", maximum=PAIRS_MAXIMUM),
        help="number of pairs of runs; the page A/B experiment states how many are needed",
    )
    for option, placeholder, purpose in (
        ("--plan", "FILE", "answer of GET /api/v1/experiment, instead of --pairs"),
        ("--switch-command", "COMMAND", "shell command that makes this host the arm $BENCH_AGENT_ARM"),
        (
            "--check-command",
            "COMMAND",
            "shell command that succeeds if this host is the arm $BENCH_AGENT_ARM",
        ),
    ):
        experiment.add_argument(option, metavar=placeholder, help=purpose)
    _add_continuation(
        experiment,
        resume="continue an experiment that was stopped, or after a reboot; `last` for the latest",
        abandon="end an experiment that is not finished: it is never continued, its results stay",
    )
    _add_flags(
        experiment,
        reboots="the host is the arm after the reboot that --switch-command starts: end, and continue by --resume",
        dry_run="print the order without running it",
        no_send="store the results in the spool without sending them",
    )
    experiment.add_argument("--arms", metavar="A,B", default="a,b", help="names of the arms (default: a,b)")
    experiment.add_argument(
        "--arm-label", metavar="KEY", default="arm", help="label with the arm of a run (default: arm)"
    )
    _add_measured(experiment)
    _add_pairs(experiment)
    _add_sent(experiment)
    experiment.add_argument("--log", metavar="FILE", help="append all output to this file (rotated at 1 MiB)")
    _add_budget(experiment)


def _add_continuation(parser: argparse.ArgumentParser, *, resume: str, abandon: str) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--resume", metavar="ID", help=resume)
    which.add_argument("--abandon", metavar="ID", help=abandon)


def _add_pairs(parser: argparse.ArgumentParser) -> None:
    _add_set(parser)
    for option, purpose in (
        ("--target", "set a target field that cannot be detected: volume_type=gp3"),
        ("--label", "add a label"),
    ):
        parser.add_argument(option, metavar="KEY=VALUE", action="append", default=[], help=purpose)


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="set a parameter of the profile"
    )


def _add_poll(commands: Commands, common: argparse.ArgumentParser) -> None:
    poll = commands.add_parser(
        "poll",
        parents=[common],
        help="run what the server requests and [requests] allows, adopt its schedule",
        description="Adopts the schedule that the server wants, as far as [schedule] of the configuration allows it. "
        "Then asks the server for requested runs, and runs at most three that [requests] allows. Scheduled runs do the "
        "same afterwards. By default nothing is adopted or run.",
        epilog="exit codes: bench-agent --help",
    )
    poll.add_argument("--log", metavar="FILE", help="append all output to this file (rotated at 1 MiB)")
    _add_budget(poll)


def _add_schedule(commands: Commands, common: argparse.ArgumentParser) -> None:
    schedule = commands.add_parser("schedule", help="schedule runs: install, remove, show, report")
    actions = schedule.add_subparsers(dest="action", metavar="ACTION", required=True)
    install = actions.add_parser(
        "install",
        parents=[common],
        help="install a crontab entry or systemd timer; replaces one of the same profile and directory",
        description="Installs the entry of a profile and directory or device, or with --poll the one that polls.",
        epilog="example: bench-agent schedule install --cron --every 6h --splay 10m --profile quick --directory /data",
    )
    kind = install.add_mutually_exclusive_group(required=True)
    kind.add_argument("--cron", action="store_true", help="use the crontab")
    kind.add_argument("--systemd", action="store_true", help="use a systemd timer and service")
    for option, placeholder, purpose in (
        ("--every", "TIME", "interval: 15m, 6h, 24h, 7d"),
        ("--at", "HH:MM", "first start of a day, local time (default: 00:00)"),
        ("--splay", "TIME", "random delay before the start, at most TIME"),
    ):
        install.add_argument(option, metavar=placeholder, help=purpose)
    _add_flags(
        install,
        poll="schedule `bench-agent poll` (every 10m) instead of a profile",
        dry_run="print what would be written without writing it",
    )
    _add_measured(install)
    _add_set(install)
    remove = actions.add_parser("remove", parents=[common], help="remove one or all schedules")
    remove.add_argument("--profile", metavar="NAME", help="remove only schedules of this profile")
    place = remove.add_mutually_exclusive_group()
    place.add_argument("--directory", metavar="DIR", help="remove only schedules of this directory")
    place.add_argument(
        "--device", metavar="DEV", dest="directory", help="remove only schedules of this device"
    )
    show = actions.add_parser("show", parents=[common], help="show schedules and their next run")
    actions.add_parser("report", parents=[common], help="send the installed schedules to the server again")
    for action in (install, remove, show):
        action.add_argument("--user", metavar="USER", help="user whose schedules are managed (root only)")


def _add_enroll(commands: Commands, common: argparse.ArgumentParser) -> None:
    enroll = commands.add_parser(
        "enroll",
        parents=[common],
        help="register this machine as a host with the server",
        epilog="The enrollment token is read from --token-file, BENCH_AGENT_ENROLL_TOKEN, or standard input.",
    )
    enroll.add_argument("url", metavar="URL", help="server URL: https://bench.example.com")
    enroll.add_argument(
        "--token-file", metavar="FILE", help='file with the enrollment token; "-" is standard input'
    )
    enroll.add_argument("--name", help="name of this host (default: its host name)")
    enroll.add_argument("--force", action="store_true", help="enroll again although a token exists")


def _add_flush(commands: Commands, common: argparse.ArgumentParser) -> None:
    flush = commands.add_parser("flush", parents=[common], help="deliver pending results from the spool")
    _add_flags(flush, retry_rejected="also retry results that were rejected")
    _add_budget(flush)


def _add_check(commands: Commands, common: argparse.ArgumentParser) -> None:
    check = commands.add_parser(
        "check",
        parents=[common],
        help="check configuration, spool, fio and server, and a run without running it",
        description="With --directory or --device it also makes the checks of a run with the same options.",
        epilog="example: bench-agent check --device /dev/disk/by-id/nvme-… --profile netapp-iops",
    )
    _add_measured(check)
    _add_set(check)
    _add_destructive(check)


def _add_flags(parser: argparse.ArgumentParser, **purposes: str) -> None:
    for name, purpose in purposes.items():
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=purpose)


def _add_plain(commands: Commands, common: argparse.ArgumentParser, *, name: str, purpose: str) -> None:
    commands.add_parser(name, parents=[common], help=purpose)


def _add_uninstall(commands: Commands, common: argparse.ArgumentParser) -> None:
    uninstall = commands.add_parser(
        "uninstall", parents=[common], help="remove schedules, configuration and token from this machine"
    )
    _add_flags(
        uninstall,
        spool="also remove the spool; refused if results are pending",
        dry_run="print what would be removed",
    )


def _add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--budget",
        metavar="SECONDS",
        type=_read_seconds,
        default=60.0,
        help="maximum time for delivery (default: 60)",
    )


def _read_count(text: str, *, noun: str, maximum: int) -> int:
    """Return a number of runs, or of pairs of runs, from 1 to the maximum of the server."""
    if not (text.isascii() and text.isdigit() and len(text) < 4 and 1 <= int(text) <= maximum):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of {noun} from 1 to {maximum}")
    return int(text)


def _read_repeat(text: str) -> int | str:
    return text if text == "auto" else _read_count(text, noun="runs", maximum=RUNS_MAXIMUM)


def _read_seconds(text: str) -> float:
    """Return seconds, 0 or more; rejects "nan", which would never expire."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _SECONDS_MAXIMUM:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to {_SECONDS_MAXIMUM}")
    return seconds
