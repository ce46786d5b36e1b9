"""Measurements across series, with the facts of their run, series and environment: any number, in constant memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from operator import itemgetter
from typing import Any, Final, Literal
from uuid import UUID

from django.db import connection, models, transaction
from psycopg import ServerCursor

from benchapp.catalog.dimensions import name_pattern
from benchapp.catalog.grammar import Filter
from benchapp.models import METRIC_FIELDS, Environment, Host, Measurement, Series
from benchapp.models.filtering import match_measurements
from benchapp.series.read.shapes import EnvironmentRow, TargetRow, WorkloadRow, names_of

MeasurementOrder = Literal["series", "started_at", "-started_at"]

# Rows per fetch: more take memory and bring no speed.
_BATCH_ROWS: Final = 1000
# Series, hosts and environments that an export remembers, each: an environment may have 64 KiB of facts.
_KNOWN_MAXIMUM: Final = 2000
_ORDERS: Final[dict[MeasurementOrder, tuple[str, ...]]] = {
    # That of the index measurement_by_series: the first rows come before the last ones are read.
    "series": ("series_id", "started_at", "id"),
    "started_at": ("started_at", "id"),
    "-started_at": ("-started_at", "-id"),
}
_NAMES: Final = count(1)


@dataclass(frozen=True, slots=True)
class MeasurementFilter:
    """Which measurements; None leaves out nothing.

    series: ids. match: workload and layout are those of the series; host, pool and environment those of the run.
    from_at is inclusive, to_at exclusive. is_valid: not failed, not excluded.
    """

    match: Filter = field(default_factory=Filter)
    from_at: datetime | None = None
    to_at: datetime | None = None
    is_valid: bool | None = None
    series: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What a row has of its run; the host is the one that measured, also in series of a pool."""

    host: str
    pool: str | None
    profile: str
    sweep: UUID | None
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MeasurementFacts:
    """What a row has of its measurement. badges: codes of what speaks against it."""

    series: int
    run: int
    started_at: datetime
    error: int
    is_excluded: bool
    badges: Sequence[str]
    direction: str
    pattern: str


MEASUREMENT_COLUMNS: Final[tuple[str, ...]] = (
    *names_of(MeasurementFacts),
    *names_of(MeasuredRun),
    *METRIC_FIELDS,
    *names_of(WorkloadRow),
    *names_of(TargetRow),
    *names_of(EnvironmentRow),
)
"""All columns of a row, in order."""

_SERIES_COLUMNS: Final = ("direction", *names_of(WorkloadRow), *names_of(TargetRow))


def stream_measurements(
    wanted: MeasurementFilter,
    columns: Sequence[str],
    *,
    order: MeasurementOrder = "series",
    limit: int | None = None,
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield rows of these columns in batches, of one snapshot; label.NAME is the label of the run, or None.

    columns: of MEASUREMENT_COLUMNS, or label.NAME; at least one. The transaction lasts until the iterator ends or is
    closed.
    """
    choose = _choose_columns(columns)
    with transaction.atomic():
        connection.ensure_connection()
        query, values = _select(wanted, order, limit).query.sql_with_params()
        facts = _KnownFacts()
        name = f"measurements_{next(_NAMES)}"
        with connection.wrap_database_errors, ServerCursor(connection.connection, name) as cursor:
            # Binary: text costs three times as much, as decimal numbers and times are parsed in Python.
            cursor.execute(query, values, binary=True)
            while batch := cursor.fetchmany(_BATCH_ROWS):
                facts.read(batch)
                yield [choose(facts.join(row)) for row in batch]


def _select(wanted: MeasurementFilter, order: MeasurementOrder, limit: int | None) -> models.QuerySet[Any]:
    found = Measurement.objects.filter(match_measurements(wanted.match))
    if wanted.series is not None:
        found = found.filter(series__in=wanted.series)
    if wanted.from_at is not None:
        found = found.filter(started_at__gte=wanted.from_at)
    if wanted.to_at is not None:
        found = found.filter(started_at__lt=wanted.to_at)
    if wanted.is_valid is not None:
        valid = models.Q(error=0, is_excluded=False)
        found = found.filter(valid if wanted.is_valid else ~valid)
    codes = models.Func(
        models.F("badges"),
        function="jsonb_path_query_array",
        template="%(function)s(%(expressions)s, '$[*].code')",
        output_field=models.JSONField(),
    )
    return found.order_by(*_ORDERS[order]).values_list(
        "series_id",
        "run_id",
        "started_at",
        "error",
        "is_excluded",
        # Null of the many without badges and labels, which costs nothing.
        models.Case(models.When(~models.Q(badges=[]), then=codes), default=None),
        "run__host_id",
        "run__environment_id",
        "run__profile",
        "run__sweep_id",
        models.Case(models.When(~models.Q(run__labels={}), then=models.F("run__labels")), default=None),
        *METRIC_FIELDS,
    )[:limit]


class _KnownFacts:
    """What many rows share, read once for neighbors: series, hosts and environments by id."""

    def __init__(self) -> None:
        self.series: dict[int, tuple[Any, ...]] = {}
        self.hosts: dict[int, tuple[str, str | None]] = {}
        self.environments: dict[int, tuple[Any, ...]] = {}

    def read(self, batch: Sequence[tuple[Any, ...]]) -> None:
        """Read those that a batch names and that are not known; of too many known ones all are forgotten first."""
        for known, at, model, columns in (
            (self.series, 0, Series, _SERIES_COLUMNS),
            (self.hosts, 6, Host, ("name", "pool")),
            (self.environments, 7, Environment, names_of(EnvironmentRow)),
        ):
            if len(known) > _KNOWN_MAXIMUM:
                known.clear()
            new = {row[at] for row in batch} - known.keys()
            if new:
                found = model.objects.filter(pk__in=new).values_list("pk", *columns)
                known.update((key, tuple(rest)) for key, *rest in found)

    def join(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row of MEASUREMENT_COLUMNS."""
        series_id, run_id, started_at, error, is_excluded, badges, host_id, environment_id, *rest = row
        profile, sweep_id, labels, *metrics = rest
        direction, *workload_and_target = self.series[series_id]
        host, pool = self.hosts[host_id]
        return (
            series_id,
            run_id,
            started_at,
            error,
            is_excluded,
            badges or (),
            direction,
            name_pattern(workload_and_target[0], direction),
            host,
            pool or None,
            profile,
            sweep_id,
            labels or {},
            *metrics,
            *workload_and_target,
            *self.environments[environment_id],
        )


def _choose_columns(columns: Sequence[str]) -> Any:
    """Return a function that selects the columns of a row."""
    at = {name: index for index, name in enumerate(MEASUREMENT_COLUMNS)}
    labels = [name.removeprefix("label.") for name in columns if name.startswith("label.")]
    if not labels:
        if len(columns) == 1:
            index = at[columns[0]]
            return lambda row: (row[index],)
        return itemgetter(*(at[name] for name in columns))
    labels_at, width = at["labels"], len(MEASUREMENT_COLUMNS)
    with_labels = at | {f"label.{name}": width + index for index, name in enumerate(labels)}
    indexes = [with_labels[name] for name in columns]

    def choose(row: tuple[Any, ...]) -> tuple[Any, ...]:
        extended = (*row, *(row[labels_at].get(name) for name in labels))
        return tuple(extended[index] for index in indexes)

    return choose
