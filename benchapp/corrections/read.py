"""Corrections, in pages, and one; values of runs that can be relabeled, and those that were."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from benchapp.catalog.dimensions import LABEL_PREFIX, find_filter_dimension
from benchapp.catalog.metrics import UNKNOWN
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.read.pagination import Page, match_times, read_page_by_time
from benchapp.intake.posts.envelope import RELABELED, locate_parameter
from benchapp.models import Correction, Run
from benchapp.series.read.titles import describe_value

# Of the runs that a form shows.
_LABEL_VALUES_MAXIMUM: Final = 1000
_COLUMNS: Final = ", ".join(".".join(locate_parameter(name)) for name in RELABELED)
_VALUES: Final = (
    f"SELECT {_COLUMNS}, count(*) FROM benchapp_run run JOIN benchapp_target target ON target.id = target_id"  # noqa: S608
    " JOIN benchapp_environment environment ON environment.id = environment_id WHERE run.id = ANY(%s)"
    f" GROUP BY {_COLUMNS}"
)
_LABELS: Final = (
    "SELECT name, value, count(*) FROM benchapp_run, jsonb_each_text(labels) AS label(name, value)"
    " WHERE id = ANY(%s) GROUP BY name, value ORDER BY count(*) DESC, name, value LIMIT %s"
)


def list_corrections(
    *,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    after: str | None = None,
    limit: int = 100,
    oldest_first: bool = False,
) -> Page[Correction]:
    """Return a page of the corrections that were made in a range, newest first; one query. Raises BadCursor."""
    rows = Correction.objects.filter(match_times("created_at", from_at, to_at))
    rows = rows.select_related("created_by", "canceled_by")
    return read_page_by_time(rows, "created_at", after=after, limit=limit, oldest_first=oldest_first)


def read_correction(correction_id: int) -> Correction | None:
    """Return one correction or None; one query."""
    return Correction.objects.select_related("created_by", "canceled_by").filter(pk=correction_id).first()


def count_values(ids: Sequence[int]) -> Mapping[str, Counter[Any]]:
    """Return how many of these runs have each value, by parameter of a post; two queries.

    Of labels, the 1000 most frequent values.
    """
    counts: dict[str, Counter[Any]] = defaultdict(Counter)
    for *values, count in fetch_rows(_VALUES, [list(ids)]):
        for name, value in zip(RELABELED, values, strict=True):
            counts[name][value] += count
    for name, value, count in fetch_rows(_LABELS, [list(ids), _LABEL_VALUES_MAXIMUM]):
        counts[f"{LABEL_PREFIX}{name}"][value] = count
    return counts


def name_parameter(name: str) -> str:
    """Return the label of a parameter of a post: "Volume type", "Label rack"."""
    dimension = find_filter_dimension(name)
    return dimension.label if dimension else f"Label {name.removeprefix(LABEL_PREFIX)}"


def format_parameter(name: str, value: Any) -> str:
    """Format a value of a parameter of a post for its label."""
    dimension = find_filter_dimension(name)
    return describe_value(dimension.name, value) if dimension else str(value or UNKNOWN)


@dataclass(frozen=True, slots=True)
class RelabeledValue:
    """A value of a run by a correction; stated: what its sender stated. None: not stated."""

    name: str
    value: Any
    stated: Any
    correction: Correction


def list_relabeled(run: Run) -> tuple[RelabeledValue, ...]:
    """Return the values of a run that are not its sender's; one query if there are any."""
    if not run.stated:
        return ()
    rows = Correction.objects.filter(
        relabeled_runs__submission=run.submission_id, relabeled_runs__document=run.document, canceled_at=None
    )
    latest = {
        name: (value, row)
        for row in rows.select_related("created_by").order_by("pk")
        for name, value in row.changes.items()
    }
    return tuple(
        RelabeledValue(name, value, run.stated[name], row)
        for name, (value, row) in latest.items()
        if name in run.stated
    )
