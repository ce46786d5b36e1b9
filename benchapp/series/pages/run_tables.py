"""Tables of the run page and of the list of runs; texts of badges, facts and conditions of a run."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from msgspec import Struct

from benchapp.catalog.dimensions import CONDITIONS, name_pattern
from benchapp.catalog.metrics import (
    CATALOG,
    KIND_NAMES,
    UNKNOWN,
    find_limit,
    format_count,
    format_integer,
    format_signed_percent,
    format_three_digits,
    format_value,
    format_with_unit,
)
from benchapp.framework.pages.number_columns import Column, NumberCell, make_cells, make_columns
from benchapp.models import Measurement
from benchapp.models.measurement import find_kind
from benchapp.series.read.runs import (
    LevelComparison,
    MeasurementSummary,
    RunDetail,
    RunRow,
    compare_to_levels,
    name_measurements,
)
from benchapp.series.read.shapes import BADGE_CODES, BadgeRow
from benchapp.series.read.titles import describe_block_size, describe_value, describe_workload

# The first that a series has is what it is about.
_MAIN_METRICS: Final = ("iops", "elapsed_s")
# Of the total latency wherever fio measured it, unlike percentiles.
_OF_TOTAL: Final = tuple(metric for metric in CATALOG.values() if metric.latency_field)
_NAMES_OF_TOTAL: Final = ", ".join(metric.short for metric in _OF_TOTAL)


@dataclass(frozen=True, slots=True)
class LatencyKinds:
    """lat or clat of mean and maximum, and of percentiles; empty if absent."""

    mean: str
    percentiles: str


def find_kinds(measurement: Measurement) -> LatencyKinds:
    """Return the latency kinds of a measurement."""
    has_mean = any(getattr(measurement, metric.name) is not None for metric in _OF_TOTAL)
    columns: Any = {"latency_kind": measurement.latency_kind, "missing": measurement.missing}
    return LatencyKinds(
        find_kind("latency_mean_ns", **columns) if has_mean else "",
        find_kind("latency_p99_ns", **columns) if measurement.percentiles else "",
    )


def choose_usual(kinds: Iterable[LatencyKinds]) -> LatencyKinds:
    """Return the most common kinds."""
    kept = list(kinds)
    return LatencyKinds(
        _find_commonest(one.mean for one in kept), _find_commonest(one.percentiles for one in kept)
    )


def describe_kinds(kinds: LatencyKinds) -> str:
    """Return a sentence with the latency kinds of the columns; empty without latencies."""
    if kinds.mean and kinds.mean == kinds.percentiles:
        return f"{_NAMES_OF_TOTAL.capitalize()}, percentiles: {KIND_NAMES[kinds.mean]}."
    parts = [(_NAMES_OF_TOTAL.capitalize(), kinds.mean), ("Percentiles", kinds.percentiles)]
    return " ".join(f"{columns}: {KIND_NAMES[kind]}." for columns, kind in parts if kind)


def describe_unusual_kinds(kinds: LatencyKinds, usual: LatencyKinds) -> str:
    """Return the latency kinds of a row that differ from the usual; empty if none."""
    parts = [
        (_NAMES_OF_TOTAL, kinds.mean, usual.mean),
        ("percentiles", kinds.percentiles, usual.percentiles),
    ]
    return "; ".join(f"{columns}: {kind}" for columns, kind, most in parts if kind and kind != most)


def _find_commonest(kinds: Iterable[str]) -> str:
    return next((kind for kind, _ in Counter(kind for kind in kinds if kind).most_common(1)), "")


LIST_METRICS: Final = ("iops", "bandwidth_bytes_per_s", "latency_mean_ns", "latency_p99_ns", "elapsed_s")
# Number of results in a title; the table has all.
_TITLE_MAXIMUM: Final = 2


# Not a dataclass, which takes five times as long to make: a page has hundreds.
class ResultLine(Struct, frozen=True):
    """One measurement in the list of runs."""

    series_id: int
    text: str
    direction: str
    error: int
    cells: tuple[NumberCell, ...]


@dataclass(frozen=True, slots=True)
class RunLines:
    """One run in the list, with one line per measurement. hidden_count: measurements not listed."""

    run: RunRow
    lines: tuple[ResultLine, ...]
    hidden_count: int

    @property
    def height(self) -> int:
        """Return the number of table rows of this run."""
        return max(1, len(self.lines)) + (1 if self.hidden_count else 0)


def make_run_lines(runs: Sequence[RunRow]) -> tuple[tuple[Column, ...], tuple[RunLines, ...]]:
    """Return the columns of the list of runs, and its rows."""
    columns = make_columns((line for run in runs for line in run.measurements), LIST_METRICS)
    return columns, tuple(
        RunLines(
            run=run,
            lines=tuple(
                ResultLine(line.series_id, text, line.direction, line.error, make_cells(line, columns))
                for line, text in zip(run.measurements, _name_summaries(run), strict=True)
            ),
            hidden_count=run.measurement_count - len(run.measurements),
        )
        for run in runs
    )


def _name_summaries(run: RunRow) -> list[str]:
    """Return the workloads of the measurements of a run, with their jobs where several have the same."""
    texts = [
        _add_target(_format_summary(line), run.target.target_name, line.target_name)
        for line in run.measurements
    ]
    counts = Counter(texts)
    return [
        f"{text} · {line.job_name}" if counts[text] > 1 and line.job_name else text
        for line, text in zip(run.measurements, texts, strict=True)
    ]


def make_measurement_lines(run: RunDetail) -> tuple[tuple[Column, ...], tuple[dict[str, Any], ...]]:
    """Return the columns of a run's table, and its rows; one query, for the levels."""
    columns = make_columns(run.measurements, tuple(CATALOG))
    names = name_measurements(run.measurements)
    usual = find_usual_kinds(run)
    levels = compare_to_levels(run)
    return columns, tuple(
        {
            "measurement": measurement,
            "name": name,
            "place": ", ".join(filter(None, (name, measurement.series.target_name))),
            "workload_title": _add_target(
                _describe_workload(measurement), run.row.target.target_name, measurement.series.target_name
            ),
            "cells": make_cells(measurement, columns),
            "codes": tuple(badge["code"] for badge in measurement.badges),
            "limit_result": _judge(run.row.profile, measurement),
            "kinds": describe_unusual_kinds(find_kinds(measurement), usual),
            "level": _describe_level(levels.get(measurement.id, ())),
        }
        for measurement, name in zip(run.measurements, names, strict=True)
    )


def _add_target(workload: str, of_run: str | None, target_name: str | None) -> str:
    """Return a workload, with the name of its target where the run measured several."""
    return f"{workload} · {target_name}" if target_name and target_name != of_run else workload


def _describe_level(levels: Sequence[LevelComparison]) -> dict[str, Any] | None:
    """Return how the main metric compares to its level, and the p99 latency where it is outside its usual range."""
    by_metric = {level.metric: level for level in levels}
    main = next((by_metric[metric] for metric in _MAIN_METRICS if metric in by_metric), None)
    if main is None:
        return None
    runs = "1 run" if main.n == 1 else f"{main.n} runs"
    if main.is_usual is None:
        text = f"of {runs}: too few for a usual range"
    else:
        text = f"{'within' if main.is_usual else 'outside'} the usual range of {runs}"
    tail = by_metric.get("latency_p99_ns")
    if tail is not None and tail.is_usual is False and tail.change is not None:
        text += f"; p99 {format_signed_percent(tail.change)}, outside"
    # No percentage of a level of 0, as of a device that answers nothing.
    change = "level 0:" if main.change is None else format_signed_percent(main.change)
    return {"change": change, "range": text, "is_usual": main.is_usual, "size": abs(main.change or 0.0)}


def describe_usual(lines: Sequence[dict[str, Any]]) -> str:
    """Return how many results are outside of their usual range: "2 of 9 results are outside their usual range, …"."""
    judged = [line for line in lines if line["level"] and line["level"]["is_usual"] is not None]
    outside = [line for line in judged if not line["level"]["is_usual"]]
    if not judged:
        return ""
    if not outside:
        return f"{format_count(len(judged), 'result')} within the usual range."
    largest = max(outside, key=lambda line: line["level"]["size"])
    where = f"{largest['workload_title'].split(' · ')[0]} {largest['level']['change'].rstrip(':')}"
    most = "the largest difference is " if len(outside) > 1 else ""
    return f"{len(outside)} of {format_count(len(judged), 'result')} outside the usual range: {most}{where}."


def find_usual_kinds(run: RunDetail) -> LatencyKinds:
    """Return the most common latency kinds of a run."""
    return choose_usual(map(find_kinds, run.measurements))


def format_results(run: RunDetail) -> str:
    """Return the file size of a run, and its first results with what differs, IOPS and p99, for its title."""
    known = [
        measurement
        for measurement in run.measurements
        if measurement.iops is not None or measurement.elapsed_s is not None
    ]
    workloads = [_describe_workload(measurement).split(" · ") for measurement in known]
    parts = [
        _format_result(measurement, _name_apart(workload, workloads))
        for measurement, workload in zip(known[:_TITLE_MAXIMUM], workloads, strict=False)
    ]
    hidden = len(known) - _TITLE_MAXIMUM + run.measurement_count - len(run.measurements)
    if hidden > 0:
        parts.append(f"and {hidden} more")
    sizes = {part for workload in workloads for part in workload if part.endswith(" file")}
    size = f"{sizes.pop()}, " if len(sizes) == 1 else ""
    return f"{size}{'; '.join(parts)}" if parts else "no values"


def _name_apart(workload: Sequence[str], workloads: Sequence[Sequence[str]]) -> str:
    """Return the pattern with what differs from other workloads of the same pattern: "4k random read 20 GiB file"."""
    others = [each for each in workloads if each[0] == workload[0]]
    return " ".join(
        (workload[0], *(part for part in workload[1:] if any(part not in each for each in others)))
    )


def list_missing_reasons(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence for each reason of missing values, with the rows concerned."""
    concerned: dict[str, list[str]] = {}
    for line in lines:
        for reason in dict.fromkeys(cell.reason for cell in line["cells"] if cell.reason):
            concerned.setdefault(reason, []).append(line["name"])
    return [
        f"{'All jobs' if len(names) == len(lines) > 1 else ', '.join(names)}: {reason}."
        for reason, names in concerned.items()
    ]


def _judge(profile: str, measurement: Measurement) -> dict[str, Any] | None:
    for metric in CATALOG:
        limit, value = find_limit(profile, metric), getattr(measurement, metric)
        if limit is not None and value is not None and not measurement.error:
            return {"is_good": limit.is_met(value), "limit": limit}
    return None


def _describe_workload(measurement: Measurement) -> str:
    return describe_workload(measurement.series, direction=measurement.series.direction)


def _format_result(measurement: Measurement, workload: str) -> str:
    if measurement.iops is None and measurement.elapsed_s is not None:
        return f"{workload} {format_value(measurement.elapsed_s, 's')}"
    result = f"{workload} {format_with_unit(measurement.iops, CATALOG['iops'])}"
    if measurement.latency_p99_ns is None:
        return result
    return f"{result}, p99 {format_value(measurement.latency_p99_ns, 'ns')}"


def _format_summary(line: MeasurementSummary) -> str:
    size = describe_block_size(cast(Any, line))  # needs the block size only
    return _describe_result(size, line.rw, line.direction, line.iodepth, line.numjobs)


@lru_cache(maxsize=4096)
def _describe_result(size: str, rw: str, direction: str, iodepth: int | None, numjobs: int | None) -> str:
    depth, jobs = (UNKNOWN if each is None else each for each in (iodepth, numjobs))
    return f"{size} {describe_value('pattern', name_pattern(rw, direction))} · QD {depth} × {jobs}".strip()


@dataclass(frozen=True, slots=True)
class Rule:
    """Meaning of a badge, and its remedy."""

    meaning: str
    advice: str


# Code → rule and remedy. docs/runs.md has the same with sources.
BADGES: Final[dict[str, Rule]] = {
    "failed-job": Rule(
        "fio or a job failed, was killed, or gave no complete result. No value of the run counts in medians.",
        "Read the error message of fio, fix the cause, run again.",
    ),
    "no-io": Rule(
        "The job asked for this direction and ran, but no I/O completed. IOPS and bandwidth are 0, latencies unknown.",
        "Check the device, its path and the kernel log of the host.",
    ),
    "inconsistent": Rule(
        "Values contradict each other: the mean latency does not fit minimum, maximum and percentiles. Or percentiles"
        " exceed fio's histogram, which ends at 17.1 s. Or the trace is more than 20 % above the report; with a log of"
        " each job, also below it.",
        "Update fio and run again. Beyond the histogram, use mean and maximum.",
    ),
    "several-targets": Rule(
        "One series has values of several targets. One job opened them, or the sender gave them one name. fio's text"
        " does not tell servers apart.",
        "Measure each target by a job without a target name, or map names in the settings of the host. Send JSON of"
        " fio's client. A job over several files counts as one target if you name it.",
    ),
    "littles-law": Rule(
        "IOPS × mean total latency is outside 0.85 to 1.02 of iodepth × numjobs. The engine is asynchronous, and no"
        " option limits its queue.",
        "Below: use direct I/O, more jobs, or a faster engine. Above: report a bug; a unit was misread.",
    ),
    "cached": Rule(
        "I/O was cached, with files smaller than twice the memory. ZFS before 2.3, FUSE, 9p, virtiofs and loop devices"
        " also cache direct I/O. Or reads were faster than storage: a mean below 5 µs (2 µs with polling), a median"
        " below 10 µs over a network.",
        "Use direct=1, or files of at least twice the memory. Disable caches on the host.",
    ),
    "memory-filesystem": Rule(
        "The files were on tmpfs, ramfs or a RAM disk, also below an overlay or a loop device.",
        "Set --directory to one on the storage under test.",
    ),
    "degraded-raid": Rule(
        "The array had missing members, was rebuilding or checking, or reported a degraded state.",
        "Wait for the rebuild or replace the disk, then run again.",
    ),
    "busy": Rule(
        "Before the run, the load exceeded the number of CPUs. Or other I/O kept the storage busy for 20 % of the"
        " time.",
        "Run when the host is idle, or set --max-load and --skip-if-busy.",
    ),
    "too-short": Rule(
        "The job ran for less than 30 s.",
        "Set runtime=60 or more and time_based.",
    ),
    "above-baseline": Rule(
        "The volumes or the instance exceeded what they sustain. They used burst credits of gp2, st1, sc1, t3, t3a or"
        " t4g.",
        "Measure until the credits are spent, or use types without credits.",
    ),
    "not-steady": Rule(
        "fio did not attain its steadystate criterion. Or the trace ranges over more than 20 % of its average, or"
        " drifts by more than 10 %.",
        "Precondition the device or run longer; check the trace.",
    ),
    "cpu-bound": Rule(
        "Each job used 95 % or more of a CPU, without polling.",
        "Use more jobs, larger blocks or a more efficient engine (io_uring), until the storage is the limit.",
    ),
    "stalls": Rule(
        "The maximum latency was 100 times p99.99 or more (at least 100\u202f000 samples). Or fio's bandwidth samples"
        " varied by more than 20 %.",
        "Check for throttling, burst credits, garbage collection, snapshots or resets at that time.",
    ),
    "few-samples": Rule(
        "Fewer than 10 samples are expected above a percentile. The percentile is hidden; other values are unaffected.",
        "Run longer: p99.9 needs 10\u202f000 I/Os. The percentile table keeps the value that fio printed.",
    ),
    "reported": Rule(
        "Published result, entered or imported; no fio output exists.",
        "Check the source on the run page. Measure the same workload yourself to compare.",
    ),
}


def list_quality_findings(rows: Sequence[tuple[str, Sequence[BadgeRow]]]) -> list[dict[str, Any]]:
    """Return the findings of measurements, given as name and badges: most severe first, each sentence once."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, badges in rows:
        for badge in badges:
            names.setdefault((badge.code, badge.sentence), []).append(name)
    findings = [
        {"codes": (code,), "names": tuple(of), "sentence": sentence} for (code, sentence), of in names.items()
    ]
    return sorted(findings, key=lambda finding: _rank(finding["codes"][0]))


def _rank(code: str) -> int:
    return BADGE_CODES.index(code) if code in BADGE_CODES else len(BADGE_CODES)


_LABELS: Final = {
    **{name: condition.label for name, condition in CONDITIONS.items()},
    **{f"dirty_{end}": f"vm.dirty_{end}" for end in ("background_ratio", "bytes", "ratio")},
    "swappiness": "vm.swappiness",
    "extent_largest_bytes": "Largest extent",
    "frequency_max_khz": "Maximum frequency",
    "cpu_quota_throttled_s": "Throttled by the CPU quota",
    "governor_change": "Change of the governor",
    "kernel_parameters": "Kernel parameters",
    "load_after": "Load after the run",
    "load_before": "Load before the run",
    "other_io_after": "Other I/O after the run",
    "other_io_before": "Other I/O before the run",
    "suspended_s": "Time in suspend",
    "transparent_hugepage": "Transparent huge pages",
}
_WORDS: Final = {
    **{word: word.upper() for word in ("bios", "cpu", "fua", "id", "iops", "numa", "smt", "wwn")},
    "cpus": "CPUs",
    "hw": "hardware",
    "io": "I/O",
    "lat": "latency",
    "nr": "number of",
}
# Of the end of a name: its unit, and how many of them one is. Without a unit in the name, the end stays in the label.
_UNITS: Final = (
    ("_bytes_per_s", "bytes/s", 1.0),
    ("_bytes", "bytes", 1.0),
    ("_kb", "bytes", 1024.0),
    ("_kib", "bytes", 1024.0),
    ("_percent", "percent", 1.0),
    ("_khz", "GHz", 1e-6),
    ("_per_s", "/s", 1.0),
    ("_ns", "ns", 1.0),
    ("_us", "ns", 1e3),
    ("_usec", "ns", 1e3),
    ("_ms", "ns", 1e6),
    ("_s", "ns", 1e9),
)
_UNITS_WITHOUT_END: Final = (
    ("_ratio", "percent", 1.0),
    ("block_size", "bytes", 1.0),
    ("io_size", "bytes", 1.0),
)
# Settings of the kernel that are 0 or 1.
_SWITCHES: Final = frozenset(
    ("add_random", "dax", "direct_io", "fua", "rotational", "smt_active", "stable_writes", "turbo_off")
)
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,9})?")


def list_facts(facts: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return facts in their order, with labels, and values with the unit that the end of the name states."""
    return [
        {"name": name, "label": label, "text": text, "raw": _write(value)}
        for name, value in facts.items()
        for label, text in [_describe(name, value)]
    ]


def _describe(name: str, value: Any) -> tuple[str, str]:
    """Return label and value."""
    for end, unit, factor in (*_UNITS, *_UNITS_WITHOUT_END):
        if name.endswith(end) and (numbers := _read_numbers(value)):
            stem = name.removesuffix(end) if (end, unit, factor) in _UNITS else name
            return _name(name, stem), ", ".join(_format(number * factor, unit) for number in numbers)
    return _name(name, name), _format_value(name, value)


def _name(name: str, stem: str) -> str:
    if name in _LABELS:
        return _LABELS[name]
    label = " ".join(_WORDS.get(word, word) for word in stem.split("_") if word)
    return f"{label[:1].upper()}{label[1:]}"


def _format(value: float, unit: str) -> str:
    if unit == "GHz":
        return f"{format_three_digits(value)} GHz"
    if unit == "/s":
        return f"{format_three_digits(value)}/s"
    return "0 s" if unit == "ns" and value == 0 else format_value(value, unit)


def _format_value(name: str, value: Any) -> str:
    """Format a value without unit, also a nested one: "vda, vdb", "rotational no · read ahead 128 KiB"."""
    if isinstance(value, Mapping):
        parts = ((inner, *_describe(inner, part)) for inner, part in value.items())
        return " · ".join(f"{_begin_lower(inner, label)} {text}" for inner, label, text in parts)
    if isinstance(value, list):
        return ", ".join(_format_value(name, part) for part in value)
    if isinstance(value, bool) or (name in _SWITCHES and value in ("0", "1", 0, 1)):
        return "yes" if value in (True, "1") else "no"
    if isinstance(value, int):
        return format_integer(value)
    return UNKNOWN if value is None or value == "" else str(value)


def _begin_lower(name: str, label: str) -> str:
    """Return the label within a line; abbreviations and names of devices keep their case."""
    return f"{name[:1]}{label[1:]}" if label[:1] == name[:1].upper() and not label[:2].isupper() else label


def _read_numbers(value: Any) -> list[float]:
    """Return a number, or several joined by commas, also as text; [] if it is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [float(value)]
    parts = value.split(",") if isinstance(value, str) else []
    return [float(part) for part in parts] if parts and all(map(_NUMBER.fullmatch, parts)) else []


def _write(value: Any) -> str:
    """Return a value as it was sent, for the title."""
    if isinstance(value, Mapping):
        return " · ".join(f"{name} {_write(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_write, value))
    return "" if value is None else str(value)
