"""The command `gate`: submit results, wait until they are stored, and end as the server's gate decides."""

from __future__ import annotations

import argparse
import gzip
import os
import time
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence
from urllib.parse import urlencode, urljoin

from agent.console import WaitProgress
from agent.delivery.client import (
    Client,
    DeliveryOutcome,
    Response,
    choose_delay,
    classify_response,
    read_retry_after,
)
from agent.delivery.envelope import check_labels, read_target
from agent.delivery.submission_status import wait_until_processed
from agent.exit_codes import (
    AgentError,
    CannotMeasure,
    ConfigurationError,
    ExitCode,
    ResultRejected,
    TryLater,
    worst,
)
from agent.gating import RUNS_MAXIMUM
from agent.gating.gate_report import format_annotations, format_markdown, format_table, summarize
from agent.gating.gate_request import OUTCOMES, read_gate_request, read_output_file
from agent.quantities import format_duration
from agent.running.measure import RunRequest, measure
from agent.running.run_command import read_pairs, read_run_request, read_time
from agent.running.session import Session

# Options of a measurement, by their values without them.
_MEASURING: dict[str, Any] = {
    **dict.fromkeys(("jobfile", "file", "file_size", "directory", "time_limit", "patience", "max_load")),
    **dict.fromkeys(("allow_outside", "trust_directory", "logs", "cloud", "serials"), False),
    "set": [],
    "repeat": 1,
}


@dataclass
class _Submitted:
    """Submissions that the server has acknowledged, and failures of fio."""

    ids: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Reports:
    """Files that the result is written to, as Markdown; None if not asked for. The step summary is appended to."""

    step_summary: str | None
    comment: str | None

    def check(self) -> None:
        """Raise ConfigurationError if a file cannot be written: before anything is measured."""
        for path in (self.step_summary, self.comment):
            if path:
                _write(path, "", mode="a")

    def write(self, markdown: str) -> None:
        """Write the files."""
        if self.step_summary:
            _write(self.step_summary, markdown, mode="a")
        if self.comment:
            _write(self.comment, markdown, mode="w")


def run_gate(arguments: argparse.Namespace, session: Session) -> ExitCode:
    """Submit files or runs, and compare them with the baseline on the server."""
    request = read_gate_request(arguments)
    reports = _choose_reports(arguments)
    reports.check()
    session.open_log(arguments.log)
    client = session.make_client()
    if arguments.outputs:
        _refuse_measuring(arguments)
        _check_number(arguments.outputs)
        query = _make_fio_query(arguments, session)
        # All before the first request: a file that cannot be read must not leave the others submitted.
        bodies = [read_output_file(path) for path in arguments.outputs]
        request.check(client)
        submitted = _post_outputs(bodies, query, client=client, session=session, budget_s=arguments.budget)
    else:
        run_request = read_run_request(arguments, session)
        request.check(client)
        submitted = _measure_and_deliver(arguments, run_request, client=client, session=session)
    run_ids = _wait_until_stored(submitted.ids, client=client, session=session, timeout_s=arguments.wait)
    gate = request.ask(client, run_ids)
    return _report(gate, submitted, session=session, reports=reports, is_annotated=arguments.github)


def _choose_reports(arguments: argparse.Namespace) -> _Reports:
    step_summary = os.environ.get("GITHUB_STEP_SUMMARY") if arguments.github else None
    if arguments.github and not step_summary:
        raise ConfigurationError("--github: GITHUB_STEP_SUMMARY is not set; it is set by GitHub Actions")
    return _Reports(step_summary, arguments.comment)


def _refuse_measuring(arguments: argparse.Namespace) -> None:
    """Refuse options that have no effect on a file; --profile is the name of the profile that made it."""
    for option, default in _MEASURING.items():
        if getattr(arguments, option) != default:
            name = option.replace("_", "-")
            raise ConfigurationError(f"--{name} cannot be used with FILE, which was measured before")


def _check_number(paths: Sequence[str]) -> None:
    if len(paths) > RUNS_MAXIMUM:
        raise ConfigurationError(
            f"{len(paths)} files: the gate compares at most {RUNS_MAXIMUM} runs; nothing was submitted"
        )


def _make_fio_query(arguments: argparse.Namespace, session: Session) -> str:
    """Return the query of POST /fio: layout, labels and profile, from options and configuration."""
    config = session.config
    target = {**read_target(config.target), **read_target(read_pairs(arguments.target, "--target"))}
    labels = check_labels({**config.labels, **read_pairs(arguments.label, "--label")})
    parameters = {
        **{name: value for name, value in target.items() if value is not None},
        **{f"label.{name}": value for name, value in labels.items()},
        **({"profile": arguments.profile} if arguments.profile else {}),
    }
    return urlencode(parameters)


def _post_outputs(
    bodies: Sequence[bytes], query: str, *, client: Client, session: Session, budget_s: float
) -> _Submitted:
    """Post fio's outputs; the same bytes with the same layout are stored once, however often they are posted."""
    deadline = time.monotonic() + budget_s
    ids = [_post_output(body, query, client=client, session=session, deadline=deadline) for body in bodies]
    return _Submitted(list(dict.fromkeys(ids)))


def _post_output(body: bytes, query: str, *, client: Client, session: Session, deadline: float) -> str:
    packed = gzip.compress(body, mtime=0)
    delay_s = 0.0
    while True:
        response = client.post_output(query, packed, limit_s=deadline - time.monotonic())
        submission_id = (response.body or {}).get("id")
        outcome = classify_response(response, submission_id=submission_id)
        if outcome == DeliveryOutcome.DELIVERED:
            return str(submission_id)
        if outcome != DeliveryOutcome.LATER:
            raise _describe_refusal(response, outcome)
        delay_s = choose_delay(delay_s, read_retry_after(response))
        if time.monotonic() + delay_s > deadline:
            raise TryLater(
                f"not submitted: {response.describe()}; repeat the command, nothing is stored twice"
            )
        session.console.note(f"{response.describe()}; retrying in {format_duration(delay_s)}")
        time.sleep(delay_s)


def _describe_refusal(response: Response, outcome: DeliveryOutcome) -> AgentError:
    if outcome == DeliveryOutcome.REJECTED:
        return ResultRejected(f"the server rejected the file: {response.describe()}")
    return ConfigurationError(f"not submitted: {response.describe()}")


def _measure_and_deliver(
    arguments: argparse.Namespace, request: RunRequest, *, client: Client, session: Session
) -> _Submitted:
    """Run the plan as often as asked for, delivering each result with all pending ones."""
    submitted = _Submitted()
    for _ in range(arguments.repeat):
        with session.spool.lock(patience_s=read_time(arguments.patience, "--patience")):
            run = measure(request, session)
            delivery = session.deliver(client, budget_s=arguments.budget, first_id=run.entry.id)
        if run.failure:
            session.console.warn(run.failure)
            submitted.failures.append(run.failure)
        if run.entry.id in delivery.rejected:
            raise ResultRejected(f"the server rejected the result: {delivery.rejected[run.entry.id]}")
        if run.entry.id not in delivery.urls:
            text = f"not delivered: {delivery.problem}; result {run.entry.id} is in the spool"
            is_temporary = delivery.exit_code == ExitCode.TRY_LATER
            raise TryLater(text) if is_temporary else ConfigurationError(text)
        submitted.ids.append(run.entry.id)
    return submitted


def _wait_until_stored(
    submission_ids: Sequence[str], *, client: Client, session: Session, timeout_s: float
) -> list[int]:
    """Return the runs of the submissions, each once; TryLater after timeout_s, ResultRejected if one is rejected."""
    deadline = time.monotonic() + timeout_s
    progress = WaitProgress("storing", total_s=timeout_s, is_quiet=session.console.is_quiet)
    run_ids: list[int] = []
    progress.start()
    try:
        for submission_id in submission_ids:
            remaining_s = max(deadline - time.monotonic(), 0.0)
            found = wait_until_processed(client, submission_id, timeout_s=remaining_s, tick=progress.tick)
            if found.state == "rejected":
                raise ResultRejected(f"the server rejected the result: {found.reason}")
            if found.state == "stored" and not found.run_ids:
                raise CannotMeasure(
                    f"submission {submission_id} is stored without a run: was the run deleted?"
                )
            if found.state != "stored":
                raise TryLater(
                    f"submission {submission_id} is not stored after {timeout_s:.0f} s; the server has it"
                )
            run_ids += found.run_ids
    finally:
        progress.finish()
    return list(dict.fromkeys(run_ids))


def _report(
    gate: Mapping[str, Any], submitted: _Submitted, *, session: Session, reports: _Reports, is_annotated: bool
) -> ExitCode:
    base = f"{session.config.url}/"
    for line in format_table(gate):
        session.console.report(line)
    page = urljoin(base, gate["page"])
    session.console.report(f"{summarize(gate)}; {page}")
    if is_annotated:
        session.console.annotate(format_annotations(gate))
    code = worst(OUTCOMES[gate["outcome"]], *(ExitCode.NOT_MEASURED for _ in submitted.failures))
    document = {
        "outcome": gate["outcome"],
        "submissions": submitted.ids,
        "failures": submitted.failures,
        "page": page,
        "gate": gate,
    }
    session.finish(code, document)
    # After the result is printed: a full disk must not hide it.
    reports.write(format_markdown(gate, base))
    return code


def _write(path: str, text: str, *, mode: str) -> None:
    try:
        with open(path, mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror or error}") from None
