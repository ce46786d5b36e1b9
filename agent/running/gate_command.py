"""The command `gate`: submit results, wait until they are stored, and end as the server's gate decides."""

from __future__ import annotations

import argparse
import gzip
import os
import re
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
from agent.results import align
from agent.running import AUTO_RUNS_MAXIMUM, RUNS_MAXIMUM
from agent.running.measure import RunRequest, measure
from agent.running.run_command import read_pairs, read_run_request, read_target_pairs, read_time
from agent.running.session import Session

# GitHub shows ten annotations of each kind for a step.
_ANNOTATIONS_MAXIMUM = 10
# GitHub's limit for a comment is 65 536 characters; GitLab's is higher.
_COMMENT_MAXIMUM = 60_000
_ORDER = ("regressed", "undecided", "passed")
_REASONS = {"no-value": "no valid value", "no-baseline": "no baseline", "too-noisy": "too noisy"}
_KINDS = {"lat": "total", "clat": "completion"}
_COLUMNS = ("series", "metric", "value", "baseline", "ratio", "limit", "verdict")

Row = Mapping[str, Any]
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


def sort_rows(gate: Mapping[str, Any]) -> list[Row]:
    """Return the rows, regressed first, then undecided."""
    return sorted(gate["rows"], key=lambda row: _ORDER.index(row["outcome"]))


def summarize(gate: Mapping[str, Any]) -> str:
    """Return one line: what the gate says, and of how many rows."""
    counts = [(sum(row["outcome"] == outcome for row in gate["rows"]), outcome) for outcome in _ORDER]
    found = ", ".join(f"{count} {outcome}" for count, outcome in counts if count)
    return f"{gate['outcome']}: {found or 'no series has a value of these metrics'}"


def format_table(gate: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table for a terminal."""
    return align([_COLUMNS, *(_list_cells(row) for row in sort_rows(gate))])


def format_markdown(gate: Mapping[str, Any], base_url: str) -> str:
    """Return the table as Markdown with links; rows beyond the length of a comment are counted, passed ones first."""
    page = urljoin(base_url, gate["page"])
    lines = [
        f"### Storage benchmark: {gate['outcome']}",
        "",
        (
            f"{summarize(gate)}. [Run {gate['run']}]({_escape_url(page)}), "
            f"error rate {_format_percent(gate['error_rate'])} of all rows."
        ),
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|" + "---|" * len(_COLUMNS),
    ]
    size = sum(len(line) + 1 for line in lines)
    rows = sort_rows(gate)
    for number, row in enumerate(rows):
        series, *others = _list_cells(row)
        # Series together have no page.
        link = _escape_url(urljoin(base_url, row["series_page"] or gate["page"]))
        line = "| " + " | ".join([f"[{_quote(series)}]({link})", *map(_quote, others)]) + " |"
        size += len(line) + 1
        if size > _COMMENT_MAXIMUM:
            left_out = len(rows) - number
            lines += ["", f"{left_out} more rows: [run {gate['run']}]({_escape_url(page)})"]
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def format_annotations(gate: Mapping[str, Any]) -> list[str]:
    """Return workflow commands: an error per regressed row, a warning per undecided one, at most ten of each."""
    lines = []
    for outcome, command, title in (
        ("regressed", "error", "Benchmark regressed"),
        ("undecided", "warning", "Benchmark undecided"),
    ):
        rows = [row for row in sort_rows(gate) if row["outcome"] == outcome]
        shown = len(rows) if len(rows) <= _ANNOTATIONS_MAXIMUM else _ANNOTATIONS_MAXIMUM - 1
        texts = [_describe_row(row) for row in rows[:shown]]
        if rows[shown:]:
            texts.append(f"{len(rows) - shown} more series; the step summary lists all")
        lines += [f"::{command} title={_escape_property(title)}::{_escape_message(text)}" for text in texts]
    return lines


def _describe_row(row: Row) -> str:
    series, metric, value, baseline, ratio, limit, verdict = _list_cells(row)
    if not value:
        return f"{series}, {metric}: {verdict}"
    named = (("baseline", baseline), ("ratio", ratio), ("limit", limit))
    compared = ", ".join([value, *(f"{name} {text}" for name, text in named if text)])
    return f"{series}, {metric}: {compared}: {verdict}"


def _list_cells(row: Row) -> Sequence[str]:
    """Return the cells of a row as plain text, in the order of the columns."""
    has_value, has_baseline = row["value"] is not None, row["baseline_median"] is not None
    return (
        " · ".join(filter(None, (row["host"], row["workload_title"], row["target_title"]))),
        row["metric_label"],
        row["value_text"] + (f" (mean of {row['n']} runs)" if row["n"] > 1 else "") if has_value else "",
        _format_baseline(row) if has_baseline else "",
        _format_ratio(row),
        _format_percent(row["max_regression"]),
        _format_verdict(row),
    )


def _format_baseline(row: Row) -> str:
    deviation = row["baseline_deviation"]
    spread = f" ± {_format_percent(deviation)}" if deviation is not None else ""
    return f"{row['baseline_median_text']}{spread} ({_count(row['baseline_n'], 'run')})"


def _format_ratio(row: Row) -> str:
    """Return the ratio of value and baseline with the bounds of the gate, the lower one first."""
    if row["change"] is None:
        return ""
    low, high = sorted((1 + row["best"], 1 + row["worst"]))
    return f"{1 + row['change']:.3f} ({low:.3f} to {high:.3f})"


def _format_verdict(row: Row) -> str:
    if row["outcome"] != "undecided":
        return str(row["outcome"])
    reason: str = _REASONS.get(row["reason"]) or row["reason"]
    if row["reason"] == "too-noisy":
        needed = row["runs_needed"]
        reason += f", needs {_count(needed, 'more run')}" if needed else ", 100 more runs do not suffice"
    elif row["reason"] == "other-kind":
        kinds = [
            _KINDS.get(row[name]) or str(row[name]) for name in ("latency_kind", "baseline_latency_kind")
        ]
        reason = f"not compared: {' against '.join(kinds)} latency"
    return f"undecided: {reason}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _format_percent(share: float) -> str:
    return f"{share * 100:.3g} %"


def _quote(text: str) -> str:
    """Return text as a code span: names of hosts and jobs are not Markdown, HTML or mentions."""
    if not text:
        return ""
    # A line break would end the row.
    line = " ".join(text.split()).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{padding}{line}{padding}{fence}"


def _escape_url(url: str) -> str:
    return "".join(f"%{ord(letter):02X}" if letter in '()<>|" ' else letter for letter in url)


def _escape_message(text: str) -> str:
    """Escape the message of a workflow command, as actions/toolkit does."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")


@dataclass
class _Submitted:
    """Submissions that the server has acknowledged, and failures of fio."""

    ids: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def check_gate(client: Client, parameters: Mapping[str, str]) -> None:
    """Ask for the gate of no run: finds a wrong parameter, address or token before anything is measured."""
    response = client.request("GET", _make_path(parameters, 0, ()))
    if response.status != 404 or (response.body or {}).get("code") != "not-found":
        raise _describe_gate_refusal(response)


def ask_gate(client: Client, parameters: Mapping[str, str], run_ids: Sequence[int]) -> Mapping[str, Any]:
    """Return the server's answer about runs that it has stored; ConfigurationError if they are too many."""
    # A file can hold several runs: their number is known only now.
    if len(run_ids) > RUNS_MAXIMUM:
        raise ConfigurationError(
            f"{len(run_ids)} runs are stored, but the gate compares at most {RUNS_MAXIMUM}: submit fewer per build"
        )
    path: str | None = _make_path(parameters, run_ids[0], run_ids[1:])
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


def _make_path(parameters: Mapping[str, str], run_id: int, further_ids: Sequence[int]) -> str:
    further = {"runs": ",".join(map(str, further_ids))} if further_ids else {}
    query = urlencode({**parameters, **further})
    return f"/api/v1/runs/{run_id}/gate" + (f"?{query}" if query else "")


def run_gate(arguments: argparse.Namespace, session: Session) -> ExitCode:
    """Submit files or runs, and compare them with the baseline on the server."""
    parameters = read_gate_parameters(arguments)
    if arguments.repeat == "auto":
        parameters["asks"] = str(AUTO_RUNS_MAXIMUM)
    if arguments.branch:
        arguments.label.append(f"branch={arguments.branch}")
    reports = _choose_reports(arguments)
    for path, _ in reports:
        # Before anything is measured.
        _write(path, "", mode="a")
    session.open_log(arguments.log)
    client = session.make_client()
    if arguments.outputs:
        _refuse_measuring(arguments)
        if len(arguments.outputs) > RUNS_MAXIMUM:
            text = f"{len(arguments.outputs)} files: the gate compares at most {RUNS_MAXIMUM} runs"
            raise ConfigurationError(f"{text}; nothing was submitted")
        query = _make_fio_query(arguments, session)
        # All before the first request: a file that cannot be read must not leave the others submitted.
        bodies = [read_output_file(path) for path in arguments.outputs]
        check_gate(client, parameters)
        submitted = _post_outputs(bodies, query, client=client, session=session, budget_s=arguments.budget)
        run_ids = _wait_until_stored(submitted.ids, client=client, session=session, timeout_s=arguments.wait)
        gate = ask_gate(client, parameters, run_ids)
    else:
        run_request = read_run_request(arguments, session)
        check_gate(client, parameters)
        submitted = _Submitted()
        run_ids = []
        most = AUTO_RUNS_MAXIMUM if arguments.repeat == "auto" else arguments.repeat
        for number in range(1, most + 1):
            submission_id = _measure_and_deliver(
                arguments, run_request, submitted, client=client, session=session
            )
            run_ids += _wait_until_stored(
                [submission_id], client=client, session=session, timeout_s=arguments.wait
            )
            if arguments.repeat == "auto" or number == most:
                gate = ask_gate(client, parameters, run_ids)
                if not _can_decide(gate, most - number):
                    break
    return _report(gate, submitted, arguments, session=session, reports=reports)


def _choose_reports(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the files that the result is written to, as Markdown, with their modes: the summary is appended to."""
    step_summary = os.environ.get("GITHUB_STEP_SUMMARY") if arguments.github else None
    if arguments.github and not step_summary:
        raise ConfigurationError("--github: GITHUB_STEP_SUMMARY is not set; it is set by GitHub Actions")
    return [(path, mode) for path, mode in ((step_summary, "a"), (arguments.comment, "w")) if path]


def _refuse_measuring(arguments: argparse.Namespace) -> None:
    """Refuse options that have no effect on a file; --profile is the name of the profile that made it."""
    for option, default in _MEASURING.items():
        if getattr(arguments, option) != default:
            name = option.replace("_", "-")
            raise ConfigurationError(f"--{name} cannot be used with FILE, which was measured before")


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
            if outcome == DeliveryOutcome.REJECTED:
                raise ResultRejected(f"the server rejected the file: {response.describe()}")
            raise ConfigurationError(f"not submitted: {response.describe()}")
        delay_s = choose_delay(delay_s, read_retry_after(response))
        if time.monotonic() + delay_s > deadline:
            raise TryLater(
                f"not submitted: {response.describe()}; repeat the command, nothing is stored twice"
            )
        session.console.note(f"{response.describe()}; retrying in {format_duration(delay_s)}")
        time.sleep(delay_s)


def _measure_and_deliver(
    arguments: argparse.Namespace,
    request: RunRequest,
    submitted: _Submitted,
    *,
    client: Client,
    session: Session,
) -> str:
    """Run the plan, deliver its result with all pending ones, and return the id of its submission."""
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
    return run.entry.id


def _can_decide(gate: Mapping[str, Any], runs: int) -> bool:
    """Return whether so many further runs are expected to decide a row of an undecided gate."""
    needed = [row["runs_needed"] for row in gate["rows"] if row["runs_needed"]]
    return gate["outcome"] == "undecided" and min(needed, default=runs + 1) <= runs


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
    gate: Mapping[str, Any],
    submitted: _Submitted,
    arguments: argparse.Namespace,
    *,
    session: Session,
    reports: Sequence[tuple[str, str]],
) -> ExitCode:
    base = f"{session.config.url}/"
    for line in format_table(gate):
        session.console.report(line)
    page = urljoin(base, gate["page"])
    session.console.report(f"{summarize(gate)}; {page}")
    passes = gate["outcome"] == "undecided" and arguments.undecided == "pass"
    if passes:
        session.console.report("passes by --undecided pass")
    if arguments.github:
        session.console.annotate(format_annotations(gate))
    code = worst(
        ExitCode.OK if passes else OUTCOMES[gate["outcome"]],
        *(ExitCode.NOT_MEASURED for _ in submitted.failures),
    )
    document = {
        "outcome": gate["outcome"],
        "submissions": submitted.ids,
        "failures": submitted.failures,
        "page": page,
        "gate": gate,
    }
    session.finish(code, document)
    # After the result is printed: a full disk must not hide it.
    for path, mode in reports:
        _write(path, format_markdown(gate, base), mode=mode)
    return code


def _write(path: str, text: str, *, mode: str) -> None:
    try:
        with open(path, mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror or error}") from None


def read_gate_parameters(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the given parameters of the server's gate as text; the server checks baseline and metrics."""
    parameters = {
        "baseline": arguments.baseline,
        "metric": arguments.metric,
        "max_regression": _read_share(arguments.max_regression, "--max-regression"),
        "error_rate": _read_share(arguments.error_rate, "--error-rate"),
    }
    return {name: text for name, text in parameters.items() if text is not None}


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
