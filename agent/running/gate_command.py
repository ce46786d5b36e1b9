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
from agent.delivery.deliver import wait_until_processed
from agent.delivery.envelope import check_labels, read_target
from agent.exit_codes import (
    AgentError,
    CannotMeasure,
    ConfigurationError,
    ExitCode,
    ResultRejected,
    TryLater,
    worst,
)
from agent.quantities import format_duration
from agent.running import RUNS_MAXIMUM
from agent.running.gate_report import format_annotations, format_markdown, format_table, summarize
from agent.running.measure import RunRequest, measure
from agent.running.run_command import read_pairs, read_run_request, read_target_pairs, read_time
from agent.running.session import Session

# Options of a measurement, by their values without them.
_MEASURING: dict[str, Any] = {
    **dict.fromkeys(("jobfile", "file", "file_size", "directory", "time_limit", "patience", "max_load")),
    **dict.fromkeys(("allow_outside", "trust_directory", "logs", "cloud", "serials"), False),
    "set": [],
    "repeat": 1,
}
OUTCOMES: Mapping[str, ExitCode] = {
    "passed": ExitCode.OK,
    "regressed": ExitCode.REGRESSED,
    "undecided": ExitCode.UNDECIDED,
}
# The largest BENCHAPP_UNPACKED_LIMIT_MIB of a server.
_OUTPUT_MAXIMUM_BYTES = 512 * 2**20


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


@dataclass(frozen=True)
class GateRequest:
    """The parameters of the server's gate, as text; those that are not given have the server's defaults."""

    parameters: Mapping[str, str]

    def check(self, client: Client) -> None:
        """Ask for the gate of no run: finds a wrong parameter, address or token before anything is measured."""
        response = client.request("GET", self._make_path(0, ()))
        if response.status != 404 or (response.body or {}).get("code") != "not-found":
            raise _describe_gate_refusal(response)

    def ask(self, client: Client, run_ids: Sequence[int]) -> Mapping[str, Any]:
        """Return the server's answer about runs that it has stored; ConfigurationError if they are too many."""
        # A file can hold several runs: their number is known only now.
        if len(run_ids) > RUNS_MAXIMUM:
            raise ConfigurationError(
                f"{len(run_ids)} runs are stored, but the gate compares at most {RUNS_MAXIMUM}: submit fewer per build"
            )
        path: str | None = self._make_path(run_ids[0], run_ids[1:])
        gate: dict[str, Any] = {}
        # A run with many series has several pages of rows.
        while path:
            response = client.request("GET", path)
            body = response.body or {}
            if response.status != 200 or body.get("outcome") not in OUTCOMES:
                raise _describe_gate_refusal(response)
            gate = {**body, "rows": [*gate.get("rows", ()), *body.get("rows", ())]}
            path = body.get("next")
        return gate

    def _make_path(self, run_id: int, further_ids: Sequence[int]) -> str:
        further = {"runs": ",".join(map(str, further_ids))} if further_ids else {}
        query = urlencode({**self.parameters, **further})
        return f"/api/v1/runs/{run_id}/gate" + (f"?{query}" if query else "")


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
    target = {**read_target(config.target), **read_target(read_target_pairs(arguments))}
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


def read_gate_request(arguments: argparse.Namespace) -> GateRequest:
    """Return the request that the options describe; the server checks baseline and metrics."""
    parameters = {
        "baseline": arguments.baseline,
        "metric": arguments.metric,
        "max_regression": _read_share(arguments.max_regression, "--max-regression"),
        "error_rate": _read_share(arguments.error_rate, "--error-rate"),
    }
    return GateRequest({name: text for name, text in parameters.items() if text is not None})


def _read_share(text: str | None, option: str) -> str | None:
    """Return 0.05 for 5% and for 0.05."""
    if text is None:
        return None
    number = text.strip()
    try:
        share = float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 10:
        raise ConfigurationError(f"{option} {text}: expected a share from 0 to 10, as 5% or 0.05")
    return repr(share)


def _describe_gate_refusal(response: Response) -> AgentError:
    text = f"the server did not answer about the gate: {response.describe()}"
    status = response.status
    is_lost = status in (None, 200) and response.problem is not None and not response.is_permanent
    if is_lost or status in (408, 429) or (status or 0) >= 500:
        return TryLater(text)
    return ConfigurationError(text)


def read_output_file(path: str) -> bytes:
    """Return a file of fio's output; CannotMeasure if it is empty, ConfigurationError if it cannot be read or sent."""
    try:
        with open(path, "rb") as file:
            content = file.read(_OUTPUT_MAXIMUM_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > _OUTPUT_MAXIMUM_BYTES:
        raise ConfigurationError(
            f"{path} has more than {_OUTPUT_MAXIMUM_BYTES} bytes, which no server accepts"
        )
    if not content.strip():
        raise CannotMeasure(f"{path} is empty: did fio print anything?")
    return content
