"""The result of a gate for people: a table, Markdown, and annotations of GitHub Actions."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence
from urllib.parse import urljoin

from agent.results import align

# GitHub shows ten annotations of each kind for a step.
_ANNOTATIONS_MAXIMUM = 10
# GitHub's limit for a comment is 65 536 characters; GitLab's is higher.
_COMMENT_MAXIMUM = 60_000
_ORDER = ("regressed", "undecided", "passed")
_REASONS = {"no-value": "no valid value", "no-baseline": "no baseline", "too-noisy": "too noisy"}
_KINDS = {"lat": "total", "clat": "completion"}
_COLUMNS = ("series", "metric", "value", "baseline", "ratio", "limit", "verdict")

Row = Mapping[str, Any]


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
            f"error rate {_format_percent(gate['error_rate'])} over {gate['tests']} tests."
        ),
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|" + "---|" * len(_COLUMNS),
    ]
    size = sum(len(line) + 1 for line in lines)
    rows = sort_rows(gate)
    for number, row in enumerate(rows):
        series, *others = _list_cells(row)
        link = _escape_url(urljoin(base_url, row["series_page"]))
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
        f"{row['host']} · {row['workload_title']} · {row['target_title']}",
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
