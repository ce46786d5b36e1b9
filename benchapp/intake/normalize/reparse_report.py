"""Differences between the stored rows of a submission before and after parsing it again."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from benchapp.catalog.metrics import CATALOG, cut_text
from benchapp.models import Measurement, Run, Trace

# Relative difference of floating-point sums in another order.
_TOLERANCE: Final = 1e-12
_NUMBERS: Final = (*CATALOG, "latency_stddev_ns", "total_ios", "io_bytes", "runtime_s", "clones")
_OF_MEASUREMENT: Final = (
    "error",
    "job_name",
    "latency_kind",
    "missing",
    "percentiles",
    "badges",
    "latency_bins",
)
_OF_RUN: Final = (
    "started_at",
    "finished_at",
    "format",
    "fio_version",
    "profile",
    "error",
    "is_partial",
    "warnings",
)
# Characters of a value in the report.
_TEXT_MAXIMUM: Final = 80


@dataclass(frozen=True, slots=True)
class ReparseDifference:
    """One value before and after; None if absent. name: a column; metrics and counts are numbers, other values text."""

    submission_id: UUID
    where: str
    name: str
    before: float | str | None
    after: float | str | None


# Document, id of the series, ordinal.
_Key = tuple[int, int, int]


@dataclass(slots=True)
class Rows:
    """The rows of one submission: runs by document, measurements by document, series and ordinal."""

    runs: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    measurements: dict[_Key, Mapping[str, Any]] = field(default_factory=dict)

    def count_points(self) -> Counter[int]:
        """Return the number of points in each series, by id."""
        return Counter(row["series_id"] for row in self.measurements.values())


def read_rows(ids: Sequence[UUID]) -> dict[UUID, Rows]:
    """Return the stored rows of these submissions; three queries."""
    rows = {submission_id: Rows() for submission_id in ids}
    traces = _read_traces(ids)
    runs = Run.objects.filter(submission_id__in=ids)
    for run in runs.values("id", "submission_id", "document", *_OF_RUN):
        rows[run["submission_id"]].runs[run["document"]] = {**run, "traces": traces.get(run["id"], [])}
    measurements = (
        Measurement.objects.filter(run__submission_id__in=ids)
        .order_by("run", "position")
        .values(
            "run",
            "run__submission_id",
            "run__document",
            "series_id",
            "series__direction",
            "series__target_name",
            "ordinal",
            *_NUMBERS,
            *_OF_MEASUREMENT,
        )
    )
    for row in measurements:
        key = (row["run__document"], row["series_id"], row["ordinal"])
        rows[row["run__submission_id"]].measurements[key] = row
    return rows


def compare_rows(submission_id: UUID, before: Rows, after: Rows) -> Iterator[ReparseDifference]:
    """Yield the differences of each run, then of each measurement."""
    for document in sorted({*before.runs, *after.runs}):
        old, new = before.runs.get(document, {}), after.runs.get(document, {})
        where = f"document {document}"
        for name in (*_OF_RUN, "traces"):
            if old.get(name) != new.get(name):
                yield ReparseDifference(submission_id, where, name, *_describe_both(name, old, new))
    for old, new in pair_rows(before, after):
        yield from _compare_measurements(submission_id, old, new)


def list_new_names(before: Rows, after: Rows) -> Iterator[tuple[int, str]]:
    """Yield the series that measurements had, and the name of their target, for each whose name is another one now."""
    for old, new in pair_rows(before, after):
        name = new.get("series__target_name")
        if old and name and name != old["series__target_name"]:
            yield old["series_id"], name


def pair_rows(before: Rows, after: Rows) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each measurement before and after, empty where there is none; of other series by their job."""
    moved: dict[object, list[Mapping[str, Any]]] = defaultdict(list)
    for key, old in before.measurements.items():
        if key in after.measurements:
            yield old, after.measurements[key]
        else:
            moved[_name_job(key, old)].append(old)
    for key, new in after.measurements.items():
        if key not in before.measurements:
            candidates = moved[_name_job(key, new)]
            yield candidates.pop(0) if candidates else {}, new
    for rest in moved.values():
        yield from ((old, {}) for old in rest)


def _name_job(key: _Key, row: Mapping[str, Any]) -> object:
    return key[0], row["job_name"], row["series__direction"]


def _compare_measurements(
    submission_id: UUID, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[ReparseDifference]:
    row = new or old
    where = f"document {row['run__document']}, {row['job_name']}, {row['series__direction']}"
    if old and new and old["series_id"] != new["series_id"]:
        names = (str(each["series_id"]) for each in (old, new))
        yield ReparseDifference(submission_id, where, "series", *names)
    for name in _NUMBERS:
        if not _is_same(old.get(name), new.get(name)):
            yield ReparseDifference(submission_id, where, name, old.get(name), new.get(name))
    for name in _OF_MEASUREMENT:
        if old.get(name) != new.get(name):
            both = _describe_both(name, old, new)
            # The text of a badge may change without its code: not a difference.
            if name != "badges" or both[0] != both[1]:
                yield ReparseDifference(submission_id, where, name, *both)


def _read_traces(ids: Sequence[UUID]) -> dict[int, list[str]]:
    traces: dict[int, list[str]] = {}
    rows = Trace.objects.filter(run__submission_id__in=ids).order_by("kind", "direction")
    for run_id, kind, direction, entries in rows.values_list("run_id", "kind", "direction", "entries"):
        traces.setdefault(run_id, []).append(f"{kind} {direction} of {entries}")
    return traces


def _describe_both(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    before, after = _describe_value(name, old.get(name)), _describe_value(name, new.get(name))
    if name != "badges" and before is not None and before == after:
        # Truncated or only counted: the difference is in the omitted part.
        return before, f"{after}, others"
    return before, after


def _describe_value(name: str, value: Any) -> str | None:
    """Describe a value briefly; None if it is absent."""
    if value is None or value in ("", [], {}):
        return None
    if name in ("warnings", "badges"):
        text = ", ".join(dict.fromkeys(entry["code"] for entry in value))
    elif name == "missing":
        text = ", ".join(f"{absent}: {code}" for absent, code in sorted(value.items()))
    elif name == "percentiles":
        text = "1 percentile" if len(value) == 1 else f"{len(value)} percentiles"
    elif name == "latency_bins":
        text = f"{sum(value[1:])} samples in {len(value) - 1} buckets"
    elif name == "traces":
        text = ", ".join(value)
    else:
        text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return cut_text(text, _TEXT_MAXIMUM)


def _is_same(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is new
    return abs(old - new) <= _TOLERANCE * max(abs(old), abs(new))
