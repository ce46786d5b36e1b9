"""The command `run`: measure, store the result, deliver it, and report its location."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import select
import signal
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Sequence
from urllib.parse import urljoin

from agent.console import WaitProgress
from agent.delivery.deliver import Delivery, SubmissionStatus, wait_until_processed
from agent.delivery.envelope import make_attempt, pack_envelope
from agent.exit_codes import AgentError, CannotMeasure, ConfigurationError, ExitCode, Interrupted, worst
from agent.measuring.fio import StopSignals
from agent.measuring.load import BusyLimits, TooBusy
from agent.profiles.profile import Plan, load_profile, make_plan
from agent.quantities import LOAD_MAXIMUM, format_duration, format_time, parse_duration, parse_limit
from agent.results import METRICS, LevelComparison, ResultRow, format_results
from agent.running.measure import RunRequest, SpooledRun, measure
from agent.storage.layout import describe_storage
from agent.storage.sysfs import read_line

if TYPE_CHECKING:
    from agent.delivery.client import Client, Response
    from agent.running.session import Session

# Workers store a result within seconds; a person does not wait longer.
_WAIT_ON_TERMINAL_S = 30.0
# Minimum time to read the results of a run that is stored.
_READ_MINIMUM_S = 10.0


def run_profile(arguments: argparse.Namespace, session: Session) -> ExitCode:
    """Measure, store the result, and deliver it with all pending results."""
    session.open_log(arguments.log)
    request = read_run_request(arguments, session)
    patience_s = read_time(arguments.patience, "--patience")
    _wait_for_start(arguments, request, session=session)
    client = None if arguments.no_send else find_client(session)
    if patience_s and session.spool.find_holder() is not None:
        session.console.note(f"waiting up to {format_duration(patience_s)} for another bench-agent")
    with session.spool.lock(patience_s=patience_s):
        started_at = time.time()
        try:
            run = measure(request, session)
        except (CannotMeasure, TooBusy) as error:
            code = ExitCode.OK
            if client is not None and not session.console.is_terminal:
                _report_attempt(request, error, session, started_at=started_at)
                code = session.deliver(client, budget_s=arguments.budget).exit_code
            if isinstance(error, TooBusy):
                return _skip_run(error, request, session=session, code=code)
            raise
        if client is None:
            session.trim()
            code = ExitCode.OK if arguments.no_send else ExitCode.CONFIGURATION
            delivery = Delivery(remaining=len(session.spool.pending()), exit_code=code)
        else:
            delivery = session.deliver(client, budget_s=arguments.budget, first_id=run.entry.id)
    wait_s = _choose_wait(arguments, session)
    submission_status = None
    if client is not None and wait_s > 0 and run.entry.id in delivery.urls:
        submission_status = _wait_until_stored(client, run, delivery=delivery, session=session, wait_s=wait_s)
    shown = (
        _read_results(client, run, delivery=delivery, submission_status=submission_status, wait_s=wait_s)
        if session.console.is_terminal or session.console.is_json
        else None
    )
    return _report(session, run, delivery=delivery, submission_status=submission_status, shown=shown)


def _report_attempt(request: RunRequest, error: AgentError, session: Session, *, started_at: float) -> None:
    """Store why an unattended run has no result; on a full disk it is reported by nothing but the exit code."""
    attempt_id = str(uuid.uuid4())
    # As runs name it: the server finds the drive of a path, and none for a device node.
    path, config = os.path.realpath(request.directory), session.config
    sends_serials = request.sends_serials or config.sends_serials
    storage = describe_storage(path, sends_serials=sends_serials) if request.plan.device else None
    device = (storage.describe_opened(path, {})["device"] if storage else None) or {}
    given = request.target.get("name") or config.target.get("name")
    kernel_name = "" if given else device.get("kernel_name") or ""
    name = given or device.get("identifier") or kernel_name or path
    names = {"target_name": name[:200], "kernel_name": kernel_name[:200]}
    profile = request.plan.profile.name
    document = make_attempt(attempt_id, error, started_at=started_at, profile=profile, **names)
    with contextlib.suppress(OSError):
        session.spool.add(attempt_id, pack_envelope(document))


@dataclass(frozen=True)
class _ShownResults:
    """The rows to show. problem: why they are not compared with levels, None if they are."""

    rows: Sequence[ResultRow]
    problem: str | None


def _choose_wait(arguments: argparse.Namespace, session: Session) -> float:
    """Return how long to wait for the server: by default only if a person reads the result."""
    if arguments.wait is not None:
        return float(arguments.wait)
    return _WAIT_ON_TERMINAL_S if session.console.is_terminal and not session.console.is_quiet else 0.0


def _wait_until_stored(
    client: Client, run: SpooledRun, *, delivery: Delivery, session: Session, wait_s: float
) -> SubmissionStatus | None:
    progress = WaitProgress(
        "storing", total_s=wait_s, is_quiet=session.console.is_quiet or session.console.is_unattended
    )
    progress.start()
    try:
        found = wait_until_processed(client, run.entry.id, timeout_s=wait_s, tick=progress.tick)
    except ConfigurationError as error:
        # The result is delivered: report where it is, too.
        session.console.warn(str(error))
        delivery.exit_code = worst(delivery.exit_code, error.exit_code)
        return None
    finally:
        progress.finish()
    if found.state == "received":
        session.console.note(f"not stored yet after {wait_s:.0f} s")
    return found


def _read_results(
    client: Client | None,
    run: SpooledRun,
    *,
    delivery: Delivery,
    submission_status: SubmissionStatus | None,
    wait_s: float,
) -> _ShownResults:
    """Return the server's results if it has stored the run, otherwise fio's."""
    if client is not None and submission_status is not None and submission_status.state == "stored":
        try:
            rows = read_run_results(client, submission_status.run_ids, timeout_s=max(wait_s, _READ_MINIMUM_S))
        except ResultsUnavailable as unavailable:
            return _ShownResults(run.results, str(unavailable))
        return _ShownResults(rows, None)
    return _ShownResults(run.results, _explain_missing(run, delivery, submission_status, wait_s=wait_s))


def _explain_missing(
    run: SpooledRun, delivery: Delivery, submission_status: SubmissionStatus | None, *, wait_s: float
) -> str:
    """Return why the server has no results of the run to show."""
    state = _name_state(run, delivery=delivery, submission_status=submission_status)
    if state == "rejected":
        return "the server rejected the result"
    if state == "pending":
        return "the result is not delivered yet"
    if not wait_s:
        return "--wait is 0"
    if submission_status is None:
        return "the server does not report the state of the result"
    return f"the server has not stored the run within {wait_s:.0f} s"


def read_run_request(arguments: argparse.Namespace, session: Session) -> RunRequest:
    """Return the parameters of a run; ConfigurationError if they are not valid."""
    plan = read_plan(arguments, session)
    if arguments.logs and plan.profile.method != "jobs":
        raise ConfigurationError(
            f"--logs: not supported by profile {plan.profile.name}, which is not a single execution of fio"
        )
    return RunRequest(
        plan=plan,
        directory=choose_directory(arguments, session, plan=plan),
        target=read_target_pairs(arguments),
        labels=read_pairs(arguments.label, "--label"),
        time_limit_s=read_time(arguments.time_limit, "--time-limit") or None,
        has_logs=arguments.logs,
        uses_cloud_metadata=arguments.cloud,
        sends_serials=arguments.serials,
        trusts_directory=arguments.trust_directory,
        limits=_read_limits(arguments, session),
    )


def read_plan(arguments: argparse.Namespace, session: Session) -> Plan:
    """Return the plan: of a job file or a profile, by default the configured one."""
    if arguments.jobfile:
        return _read_own_plan(arguments)
    if arguments.allow_outside:
        raise ConfigurationError("--allow-outside requires --jobfile")
    profile = arguments.profile or session.config.profile
    if not profile:
        raise ConfigurationError("no profile given; set --profile (see `bench-agent profiles`)")
    adjustments = read_pairs(arguments.set, "--set")
    for option, name in (("file", "file"), ("file_size", "size")):
        if getattr(arguments, option):
            adjustments[name] = getattr(arguments, option)
    plan = make_plan(load_profile(profile), adjustments)
    destructive = getattr(arguments, "destructive", None)
    if not arguments.device:
        if destructive:
            raise ConfigurationError("--destructive requires --device")
        return plan
    if plan.profile.method in ("smallfiles", "seqread"):
        raise ConfigurationError(f"--device: profile {profile} measures files")
    plan = replace(plan, device=os.path.abspath(arguments.device), is_destructive=bool(destructive))
    if destructive and destructive != arguments.device:
        raise ConfigurationError(
            f"--destructive {destructive}: not the device of --device, {arguments.device}"
        )
    if plan.writes and not destructive:
        remedy = (
            "add --set rw=randread" if "rw" in plan.values else "choose netapp-iops or saturation, which read"
        )
        raise ConfigurationError(
            f"profile {profile} would write to {arguments.device}; {remedy}, or add --destructive {arguments.device} "
            "to destroy the data there"
        )
    return plan


def _read_own_plan(arguments: argparse.Namespace) -> Plan:
    from agent.measuring.jobfile import plan_jobfile, read_jobfile

    for option in ("set", "file", "file_size", "device"):
        if getattr(arguments, option):
            name = option.replace("_", "-")
            raise ConfigurationError(f"--{name} cannot be used with --jobfile")
    return plan_jobfile(
        arguments.jobfile,
        read_jobfile(arguments.jobfile),
        name=arguments.profile,
        time_limit_s=read_time(arguments.time_limit, "--time-limit") or None,
        allows_outside=arguments.allow_outside,
    )


def choose_directory(arguments: argparse.Namespace, session: Session, *, plan: Plan) -> str:
    """Return the directory to measure; for a profile that reads a file, the file's directory; else the device."""
    if plan.device:
        if arguments.directory:
            raise ConfigurationError("--directory cannot be used with --device")
        return plan.device
    file: str | None = plan.values.get("file")
    if file:
        if arguments.directory:
            raise ConfigurationError("--directory cannot be used with --file, whose directory is measured")
        return os.path.dirname(os.path.realpath(file))
    directory = arguments.directory or session.config.directory
    if not directory:
        raise ConfigurationError("no directory given; set --directory to one on the storage under test")
    return str(directory)


def _read_limits(arguments: argparse.Namespace, session: Session) -> BusyLimits:
    config = session.config
    load, busy = config.max_load, config.busy_percent
    try:
        if arguments.max_load is not None:
            load = parse_limit(arguments.max_load, maximum=LOAD_MAXIMUM)
        if arguments.skip_if_busy is not None:
            busy = parse_limit(arguments.skip_if_busy.rstrip("%"), maximum=100)
    except ValueError as error:
        raise ConfigurationError(f"--max-load, --skip-if-busy: {error}") from None
    return BusyLimits(load=load, busy_percent=busy, is_quiet=busy is not None)


def read_time(text: str | None, option: str) -> int:
    """Return the seconds of an option, 0 if it is not given; ConfigurationError if it is not a duration."""
    try:
        return parse_duration(text) if text else 0
    except ValueError as error:
        raise ConfigurationError(f"{option}: {error}") from None


def _wait_for_start(arguments: argparse.Namespace, request: RunRequest, *, session: Session) -> None:
    """Wait for the splay before taking the lock, so that other agents can run meanwhile."""
    splay_s = read_time(arguments.splay, "--splay")
    if not splay_s:
        return
    seed = make_seed(request.plan.profile.name, os.path.realpath(request.directory))
    delay_s = choose_splay(splay_s, seed=seed, day=format_time(time.time())[:10])
    wait_splay(delay_s, lambda: session.console.note(f"starting in {format_duration(delay_s)}"))


def _skip_run(busy: TooBusy, request: RunRequest, *, session: Session, code: ExitCode) -> ExitCode:
    """Skip the run under --skip-if-busy, else raise TooBusy. code: exit code of the delivery; only REJECTED counts."""
    if not request.limits.is_quiet:
        raise busy
    session.console.note(f"skipped: {busy}")
    code = code if code == ExitCode.REJECTED else ExitCode.OK
    return session.finish(code, {"id": None, "state": "skipped", "reason": str(busy)})


def read_target_pairs(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the target fields that were given as options."""
    named = {"name": arguments.target_name} if arguments.target_name else {}
    return {**read_pairs(arguments.target, "--target"), **named}


def read_pairs(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Return key=value pairs as a dictionary; ConfigurationError for other text."""
    found = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise ConfigurationError(f"{option} {pair}: expected KEY=VALUE")
        found[name.strip()] = value.strip()
    return found


def find_client(session: Session) -> Client | None:
    """Return the client, or None after a warning: a bad token must not prevent the measurement."""
    try:
        return session.make_client()
    except ConfigurationError as error:
        session.console.warn(f"{error}; the result stays in the spool")
        return None


def _report(
    session: Session,
    run: SpooledRun,
    *,
    delivery: Delivery,
    submission_status: SubmissionStatus | None,
    shown: _ShownResults | None,
) -> ExitCode:
    base = f"{session.config.url}/"
    url = urljoin(base, delivery.urls[run.entry.id]) if run.entry.id in delivery.urls else None
    pages = [urljoin(base, page) for page in (submission_status.pages if submission_status else ())]
    state = _name_state(run, delivery=delivery, submission_status=submission_status)
    codes = [delivery.exit_code]
    if run.failure:
        session.console.warn(run.failure)
        codes.append(ExitCode.NOT_MEASURED)
    if submission_status and submission_status.state == "rejected":
        session.console.warn(f"the server rejected the result: {submission_status.reason}")
        codes.append(ExitCode.REJECTED)
    if shown and session.console.is_terminal:
        _show_results(shown, session)
    if run.finding:
        session.console.report(run.finding)
    for line in pages or [url or f"{state}: {run.entry.id}"]:
        session.console.report(line)
    document = {
        "id": run.entry.id,
        "state": state,
        "url": url,
        "pages": pages,
        "fio_exit_status": run.exit_status,
        "failure": run.failure,
        "finding": run.finding or None,
        "facts": dict(run.facts),
        "results": [row.dump() for row in shown.rows] if shown else [],
        "comparison_problem": shown.problem if shown else None,
        "remaining": delivery.remaining,
        "problem": delivery.problem if delivery.remaining else None,
        "rejected_after_receipt": delivery.rejections,
    }
    return session.finish(worst(*codes), document)


def _show_results(shown: _ShownResults, session: Session) -> None:
    for line in format_results(shown.rows):
        session.console.report(line)
    if shown.problem and shown.rows:
        session.console.report(f"values of fio, not compared with earlier runs: {shown.problem}")


def _name_state(run: SpooledRun, *, delivery: Delivery, submission_status: SubmissionStatus | None) -> str:
    if run.entry.id in delivery.rejected:
        return "rejected"
    if run.entry.id not in delivery.urls:
        return "pending"
    return submission_status.state if submission_status else "received"


def choose_splay(splay_s: float, *, seed: str, day: str) -> float:
    """Return seconds from 0 to splay_s, right exclusive: the same for the same seed and day.

    Constant within a day, so that a host's interval is exact; different every day, so that periodic work of another
    host does not coincide with every run.
    """
    digest = hashlib.sha256(f"{seed}\n{day}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:7], "big") / 2**56 * splay_s


def make_seed(profile: str, directory: str, *, root: str = "/") -> str:
    """Return a seed that differs between hosts, profiles and directories."""
    host = read_line(root, "etc/machine-id") or os.uname().nodename
    return f"{host}\n{profile}\n{directory}"


def wait_splay(delay_s: float, announce: Callable[[], None]) -> None:
    """Call announce and sleep; a stop signal raises Interrupted."""
    with StopSignals() as stop:
        announce()
        _sleep(delay_s, stop)
        if stop.received is not None:
            raise Interrupted("stopped before the run started: nothing was measured", stop.received)


def _sleep(delay_s: float, stop: StopSignals) -> None:
    """Sleep until the time has passed or a signal arrives; time.sleep would continue (PEP 475)."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    previous: int | None = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        deadline = time.monotonic() + delay_s
        while stop.received is None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return
            if select.select([reader], [], [], left_s)[0]:
                os.read(reader, 64)
    finally:
        signal.set_wakeup_fd(previous if previous is not None else -1)
        os.close(reader)
        os.close(writer)


class ResultsUnavailable(Exception):
    """The server did not return the results; the message says why."""


def read_run_results(client: Client, run_ids: Sequence[int], *, timeout_s: float) -> tuple[ResultRow, ...]:
    """Return the rows of all runs of a submission; ResultsUnavailable after timeout_s."""
    deadline = time.monotonic() + timeout_s
    rows: list[ResultRow] = []
    for run_id in run_ids:
        # A run with many measurements has several pages.
        address: str | None = f"/api/v1/runs/{run_id}"
        while address:
            limit_s = deadline - time.monotonic()
            if limit_s <= 0:
                raise ResultsUnavailable(f"the server did not return the results within {timeout_s:.0f} s")
            response = client.request("GET", address, limit_s=limit_s)
            rows += _read_rows(response)
            address = (response.body or {}).get("next")
    return tuple(rows)


def _read_rows(response: Response) -> Iterator[ResultRow]:
    body = response.body or {}
    if response.status != 200 or not isinstance(body.get("measurements"), list):
        raise ResultsUnavailable(f"the server did not return the results: {response.describe()}")
    try:
        for measurement in body["measurements"]:
            yield _read_row(measurement)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ResultsUnavailable(f"the server returned results of another version: {error!r}") from None


def _read_row(measurement: Mapping[str, Any]) -> ResultRow:
    return ResultRow(
        workload=str(measurement["workload_title"]),
        direction=str(measurement["direction"]),
        error=int(measurement["error"]),
        values={metric: float(measurement[metric]) for metric in METRICS if measurement[metric] is not None},
        badges={str(badge["code"]): str(badge["sentence"]) for badge in measurement["badges"]},
        levels={
            str(level["metric"]): LevelComparison(int(level["n"]), level["change"], level["is_usual"])
            for level in measurement["levels"]
        },
    )
