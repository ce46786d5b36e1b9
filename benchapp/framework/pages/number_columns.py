"""Number columns of tables: the unit in the header, significant digits, the raw value in the title."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any, Final

from msgspec import Struct

from benchapp.catalog.metrics import (
    CATALOG,
    PERCENTILES,
    UNKNOWN,
    find_step,
    format_three_digits,
    group_thousands,
)
from benchapp.intake.normalize.measurement import describe_missing

# A column without values has the unit that it usually has.
_USUAL_VALUES: Final = {"bytes/s": 1e8, "ns": 1e6}


@dataclass(frozen=True, slots=True)
class Scale:
    """A display unit: 1 unit = divisor base units; the name is empty for IOPS."""

    divisor: float
    name: str


@dataclass(frozen=True, slots=True)
class Column:
    """One metric of a table."""

    metric: str
    label: str
    scale: Scale
    is_latency: bool


# Not a dataclass, which takes five times as long to make: a list has thousands.
class NumberCell(Struct, frozen=True):
    """One formatted number. raw: in the base unit, None if unknown; reason: why it is unknown."""

    text: str
    raw: float | None
    reason: str
    metric: str


def make_columns(rows: Iterable[Any], metrics: Sequence[str]) -> tuple[Column, ...]:
    """Choose a unit for each base unit over all rows (objects with the metrics as attributes).

    All latencies share one unit, to be comparable within a row. Elapsed time is a column if some row has it, and the
    only one if no row has another metric.
    """
    kept = list(rows)
    metrics = _choose_metrics(kept, metrics)
    values: dict[str, list[float | None]] = defaultdict(list)
    for name in metrics:
        values[CATALOG[name].unit] += [getattr(row, name) for row in kept]
    return tuple(
        Column(
            metric=name,
            label=CATALOG[name].short,
            scale=choose_scale(values[CATALOG[name].unit], CATALOG[name].unit),
            is_latency=name.startswith("latency_"),
        )
        for name in metrics
    )


def _choose_metrics(rows: Sequence[Any], metrics: Sequence[str]) -> Sequence[str]:
    others = [name for name in metrics if name != "elapsed_s"]
    if "elapsed_s" not in metrics or all(row.elapsed_s is None for row in rows):
        return others
    has_others = any(getattr(row, name) is not None for row in rows for name in others)
    return metrics if has_others else ["elapsed_s"]


def make_cells(row: Any, columns: Iterable[Column]) -> tuple[NumberCell, ...]:
    """Format a row's values in the columns' units; unknown ones with their reason from the row's `missing`."""
    cells = []
    for column in columns:
        metric = column.metric
        value = getattr(row, metric)
        reason = find_reason(getattr(row, "missing", {}), metric) if value is None else ""
        # As make_cell: a list has thousands.
        cells.append(NumberCell(format_scaled(value, column.scale), value, reason, metric))
    return tuple(cells)


def make_cell(value: float | None, scale: Scale, metric: str, *, reason: str) -> NumberCell:
    """Format one value in a unit."""
    return NumberCell(format_scaled(value, scale), value, reason if value is None else "", metric)


def choose_scale(values: Iterable[float | None], unit: str) -> Scale:
    """Choose one unit for many values, by the middle of their range on a log axis."""
    known = [value for value in values if value is not None and value > 0]
    middle = sqrt(min(known)) * sqrt(max(known)) if known else _USUAL_VALUES.get(unit, 0.0)
    return Scale(*find_step(middle, unit))


def format_scaled(value: float | None, scale: Scale) -> str:
    """Format a value without its unit; whole numbers from 1000 are grouped."""
    if value is None or not isfinite(value):
        return UNKNOWN
    shown = value / scale.divisor
    magnitude = abs(shown)
    if not scale.name or magnitude >= 999.5:
        return group_thousands(shown)
    if 0 < magnitude < 0.9995:
        # Under one column 0.240 and 0.241 have the same digits.
        return f"{shown:#.3g}"
    return format_three_digits(shown)


def find_reason(missing: Mapping[str, str], metric: str) -> str:
    """Return why a metric has no value: the reason of the metric, its group, or the whole measurement."""
    groups = ["percentiles"] if metric in PERCENTILES else []
    for name in (metric, *groups, "latency" if metric.startswith("latency_") else metric, "all"):
        if name in missing:
            return describe_missing(missing[name])
    return "fio printed no value"


REJECTED: Final = {
    "attempts-exhausted": "Processing failed five times; see the worker log. Retry after the cause is fixed.",
    "database-refused": "PostgreSQL rejected a value. This is a bug in benchapp; report it with the raw body.",
    "empty-output": "fio printed nothing: it was killed or could not start. Check its standard error.",
    "envelope-invalid": "A field of the envelope is not valid.",
    "envelope-kind": "The kind of the envelope is unknown. Update the server.",
    "envelope-not-json": "The envelope is not valid JSON.",
    "envelope-schema": "The schema of the envelope is unknown. Update the server or the agent.",
    "file-unknown": "The name of the file does not match the pattern, or the table of parameters does not list it.",
    "format-not-supported-yet": "The format was not supported when this was received. It is supported now: retry.",
    "invalid-json": "The report is not valid JSON: a program or a person changed what fio printed.",
    "log-alone": "A fio log without the output it belongs to. Upload both together.",
    "no-jobs": "The report has no jobs.",
    "document": "The file is a document of an agent or of published numbers, not fio output: post it to the API.",
    "no-report": "The output contains no fio report: fio may have failed before the job started.",
    "reader-fault": "The parser failed. This is a bug in benchapp; report it with the raw body.",
    "reported-invalid": "A member of a document of published numbers is not valid.",
    "took-too-long": "Processing exceeded the time limit of a document twice. Split the result, then send the parts.",
    "too-many-jobs": "The report has more jobs than allowed.",
    "too-many-measurements": "The result has more measurements than allowed. Run fewer jobs at a time.",
    "too-many-reports": "The body has more reports than allowed. Send each report separately.",
    "too-many-series": "The host added as many new series today as allowed. Retry after midnight UTC.",
    "too-many-timings": "The body has more shell timings than one run has. Send the timings of each run separately.",
    "unreadable-terse": "The output looks like fio's terse format, but no line has the fields of its version.",
    "truncated-report": "The report ends before any result: fio was killed or the output was truncated.",
}
# Codes of rejections that are also codes of answers of the API: links lead to those on the page of error codes.
ALSO_ANSWERED: Final = frozenset(
    ("envelope-invalid", "envelope-kind", "envelope-not-json", "envelope-schema", "reported-invalid")
)
