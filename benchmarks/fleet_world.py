"""The rows of a fleet: hosts, layouts, workloads, series; and its runs, written in bulk as the pipeline stores them.

Every host measures every layout four times a day, one run after the other; a run has a measurement of each workload,
with the metrics of a real run: IOPS, bandwidth, mean latency and percentiles.
"""

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Max

from benchapp.models import TARGET_FIELDS, WORKLOAD_FIELDS, Environment, Host, Series, Target, Workload
from benchmarks.fleet_noise import BLOCK_SIZE_BYTES, METRICS, Array, Planted, find_iodepth, make_metrics

VOLUME_TYPES: Final = ("gp3", "io2", "st1", "standard")
STRIPE_COUNTS: Final = (1, 2, 4, 8, 16)
RUNS_A_DAY: Final = 4
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
STEP: Final = timedelta(hours=24 // RUNS_A_DAY)
# Runs of a sweep follow each other; hosts start their sweeps a little apart, as cron's splay has it.
_LAYOUT_APART: Final = timedelta(minutes=4)
_HOST_APART: Final = timedelta(minutes=7)
# 20 hosts and 20 layouts begin within 209 minutes.
_SWEEPS_TAKE: Final = timedelta(hours=4)
# Additional runs follow the sweeps.
ADDITIONAL_APART: Final = timedelta(minutes=30)
_ADDITIONAL_FROM: Final = 1_000_000_000
_PATTERNS: Final = ("randread", "randwrite", "read", "write")

_SUBMISSIONS: Final = (
    "COPY benchapp_submission (id, host_id, scope, kind, parameters, body_bytes, digest, received_at, state, attempts,"
    " settled_at, reason_code, reason, parser_version) FROM STDIN"
)
_RUNS: Final = (
    "COPY benchapp_run (id, submission_id, document, host_id, target_id, environment_id, profile, labels, started_at,"
    " started_at_is_known, format, fio_version, command, error, is_partial, warnings, badges, parser_version,"
    " excluded_reason) FROM STDIN"
)
_MEASUREMENTS: Final = (
    "COPY benchapp_measurement (series_id, run_id, ordinal, position, job_name, started_at, error, latency_kind,"
    f" clones, percentiles, missing, badges, is_excluded, {', '.join(METRICS)}) FROM STDIN"
)
_MARK: Final = (
    "UPDATE benchapp_series AS series SET judging_is_due = TRUE, measurement_count = %s,"
    " first_at = coalesce(series.first_at, written.first_at), last_at = written.last_at"
    " FROM (SELECT series_id, min(started_at) AS first_at, max(started_at) AS last_at FROM benchapp_measurement"
    " WHERE run_id >= %s AND run_id < %s GROUP BY series_id) AS written WHERE series.id = written.series_id"
)
# The count stays that of scheduled runs, by which a fleet continues.
_MARK_ADDITIONAL: Final = "UPDATE benchapp_series SET judging_is_due = TRUE, last_at = %s WHERE id = ANY(%s)"
# What the pipeline counts and records beside the runs.
_COUNT_RUNS: Final = "UPDATE benchapp_host SET run_count = run_count + %s WHERE id = ANY(%s)"
_EXTEND_ENVIRONMENTS: Final = (
    "INSERT INTO benchapp_seriesenvironment (series_id, environment_id, first_at, last_at)"
    " SELECT m.series_id, run.environment_id, min(m.started_at), max(m.started_at)"
    " FROM benchapp_measurement m JOIN benchapp_run run ON run.id = m.run_id WHERE run.id >= %s AND run.id < %s"
    " GROUP BY m.series_id, run.environment_id"
    " ON CONFLICT (series_id, environment_id) DO UPDATE SET last_at = excluded.last_at"
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Volume type and stripe count; the volume count is that of the stripes."""

    volume_type: str
    stripe_count: int


# The layouts of the year; the two months have fewer.
YEAR_LAYOUTS: Final = tuple(itertools.starmap(Layout, itertools.product(VOLUME_TYPES, STRIPE_COUNTS)))


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The environment of a host from a run on, as fields of `Environment`."""

    run: int
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class World:
    """The fleet as it is in the tables. series_ids: of each cell in the order of the rows of `values`.

    values: by metric, a row for each cell, a column for each run. additional: of each further run within the step of a
    run, by metric in the same shape. environments: of each host, (first run, id). first_run: earlier ones are not
    written.
    """

    host_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    series_ids: tuple[int, ...]
    environments: tuple[tuple[tuple[int, int], ...], ...]
    values: Mapping[str, Array] = field(repr=False)
    additional: Sequence[Mapping[str, Array]] = field(default=(), repr=False)
    first_run: int = 0

    @property
    def cells(self) -> int:
        """Return the number of cells of a host."""
        return len(self.series_ids) // len(self.host_ids)

    @property
    def layouts(self) -> int:
        """Return the number of layouts."""
        return len(self.target_ids)

    @property
    def runs(self) -> int:
        """Return how many times each cell is measured."""
        return int(self.values["iops"].shape[1])


def list_cells(
    hosts: int, cells: int, *, host: int | None, layouts: Sequence[int], of: int
) -> frozenset[int]:
    """Return the numbers in the fleet of the cells with these of `of` layouts, of one host or of all."""
    works = cells // of
    return frozenset(
        number * cells + layout * works + work
        for number in (range(hosts) if host is None else [host])
        for layout in layouts
        for work in range(works)
    )


def find_layouts(
    layouts: Sequence[Layout] = YEAR_LAYOUTS,
    *,
    volume_type: str | None = None,
    stripe_count: int | None = None,
) -> list[int]:
    """Return the numbers of the layouts with this volume type or stripe width; of all where neither is given."""
    return [
        number
        for number, layout in enumerate(layouts)
        if volume_type in (None, layout.volume_type) and stripe_count in (None, layout.stripe_count)
    ]


def make_world(
    values: Array, *, hosts: int, planted: Sequence[Planted], seed: int, first_run: int = 0
) -> World:
    """Write the fleet of a year without runs: a new kernel on each host that becomes slower.

    values: IOPS; the cells of a host are a multiple of 20. No other regression has a recorded cause.
    """
    upgrades = [
        [
            Upgrade(run, {"kernel": f"6.{number + 1}.0"})
            for number, run in enumerate(
                [0, *(one.run for one in planted if one.host == host and one.kind == "host")]
            )
        ]
        for host in range(hosts)
    ]
    works = len(values) // hosts // len(YEAR_LAYOUTS)
    metrics = make_metrics(values, works=works, seed=seed)
    return replace(write_world(metrics, upgrades=upgrades, layouts=YEAR_LAYOUTS), first_run=first_run)


def write_world(
    values: Mapping[str, Array],
    *,
    upgrades: Sequence[Sequence[Upgrade]],
    layouts: Sequence[Layout],
    additional: Sequence[Mapping[str, Array]] = (),
) -> World:
    """Write hosts, layouts, workloads and series, without runs; read them if they are written.

    upgrades: of each host, the first of run 0.
    """
    if Host.objects.exists():
        return _read_world(values, upgrades)
    hosts = len(upgrades)
    cells = len(values["iops"]) // hosts
    named = [Host(name=f"host-{number + 1:02}") for number in range(hosts)]
    Host.objects.bulk_create(named)
    targets = Target.objects.bulk_create(
        Target(
            key=_make_key("target", layout.volume_type, layout.stripe_count),
            volume_type=layout.volume_type,
            stripe_count=layout.stripe_count,
            volume_count=layout.stripe_count,
        )
        for layout in layouts
    )
    workloads = Workload.objects.bulk_create(map(_make_workload, range(cells // len(layouts))))
    series = Series.objects.bulk_create(
        _make_series(host, target, workload) for host in named for target in targets for workload in workloads
    )
    environments = tuple(_make_environments(number, of) for number, of in enumerate(upgrades))
    return World(_list_ids(named), _list_ids(targets), _list_ids(series), environments, values, additional)


def _read_world(values: Mapping[str, Array], upgrades: Sequence[Sequence[Upgrade]]) -> World:
    environment_ids = iter(Environment.objects.order_by("id").values_list("id", flat=True))
    return World(
        host_ids=tuple(Host.objects.order_by("id").values_list("id", flat=True)),
        target_ids=tuple(Target.objects.order_by("id").values_list("id", flat=True)),
        series_ids=tuple(Series.objects.order_by("id").values_list("id", flat=True)),
        environments=tuple(tuple((upgrade.run, next(environment_ids)) for upgrade in of) for of in upgrades),
        values=values,
    )


def find_next_run(world: World) -> int:
    """Return the first run that is not written yet."""
    return world.first_run + (Series.objects.aggregate(runs=Max("measurement_count"))["runs"] or 0)


@transaction.atomic
def write_runs(world: World, first: int, end: int) -> None:
    """Write all runs of the fleet from `first` up to before `end`, and mark their series as intake.normalize does."""
    keys = [
        (run, host, layout)
        for run in range(first, end)
        for host in range(len(world.host_ids))
        for layout in range(world.layouts)
    ]
    _copy(
        _SUBMISSIONS,
        (_make_submission(world, run, host) for run, host, layout in keys if layout == 0),
    )
    _copy(_RUNS, (_make_run(world, *key) for key in keys))
    _copy(_MEASUREMENTS, (row for key in keys for row in _make_measurements(world, *key)))
    with connection.cursor() as cursor:
        ids = [_number_run(world, run, host=0, layout=0) for run in (first, end)]
        cursor.execute(_MARK, [end - world.first_run, *ids])
        cursor.execute(_COUNT_RUNS, [world.layouts * (end - first), list(world.host_ids)])
        cursor.execute(_EXTEND_ENVIRONMENTS, ids)


@transaction.atomic
def write_additional_run(world: World, run: int, *, number: int, host: int, layout: int) -> datetime:
    """Write a further run of a host and layout within the step of a run; return its start. number: from 0."""
    run_id = _ADDITIONAL_FROM + _number_run(world, run, host, layout) * len(world.additional) + number
    moment = say_time(run) + (number + 1) * ADDITIONAL_APART
    name = UUID(int=run_id << 64)
    _copy(_SUBMISSIONS, iter([_make_submission(world, run, host, name=name)]))
    _copy(_RUNS, iter([_make_run(world, run, host, layout, name=name, run_id=run_id, moment=moment)]))
    rows = _make_measurements(
        world, run, host, layout, values=world.additional[number], run_id=run_id, moment=moment
    )
    _copy(_MEASUREMENTS, rows)
    cells = sorted(
        list_cells(len(world.host_ids), world.cells, host=host, layouts=[layout], of=world.layouts)
    )
    with connection.cursor() as cursor:
        cursor.execute(_MARK_ADDITIONAL, [moment, [world.series_ids[cell] for cell in cells]])
        cursor.execute(_COUNT_RUNS, [1, [world.host_ids[host]]])
        cursor.execute(_EXTEND_ENVIRONMENTS, [run_id, run_id + 1])
    return moment


def say_time(run: int) -> datetime:
    """Return when the sweeps of a run are over on all hosts."""
    return START + run * STEP + _SWEEPS_TAKE


def find_run(moment: datetime) -> int:
    """Return which run of its series began at a moment."""
    return (moment - START) // STEP


def _make_workload(number: int) -> Workload:
    return Workload(
        key=_make_key("workload", number),
        rw=_PATTERNS[number % len(_PATTERNS)],
        block_size_bytes=BLOCK_SIZE_BYTES,
        iodepth=find_iodepth(number),
        numjobs=1,
        is_direct=True,
        engine="libaio",
    )


def _make_series(host: Host, target: Target, workload: Workload) -> Series:
    return Series(
        key=_make_key("series", host.name, target.pk, workload.pk),
        key_version=1,
        scope=host.scope,
        host=host,
        target=target,
        workload=workload,
        direction="write" if workload.rw.endswith("write") else "read",
        **{name: getattr(target, name) for name in TARGET_FIELDS},
        **{name: getattr(workload, name) for name in WORKLOAD_FIELDS},
    )


def _make_environments(host: int, upgrades: Sequence[Upgrade]) -> tuple[tuple[int, int], ...]:
    made = Environment.objects.bulk_create(
        Environment(key=_make_key("environment", host, number), **upgrade.facts)
        for number, upgrade in enumerate(upgrades)
    )
    return tuple(zip([upgrade.run for upgrade in upgrades], _list_ids(made), strict=True))


def _make_submission(world: World, run: int, host: int, *, name: UUID | None = None) -> tuple[Any, ...]:
    moment, host_id = say_time(run), world.host_ids[host]
    parts = (name or _name_submission(run, host), host_id, f"host:host-{host + 1:02}", "envelope", "{}", 0)
    return (*parts, b"", moment, "stored", 1, moment, "", "", 1)


def _make_run(
    world: World,
    run: int,
    host: int,
    layout: int,
    *,
    name: UUID | None = None,
    run_id: int | None = None,
    moment: datetime | None = None,
) -> tuple[Any, ...]:
    environment_id = next(made for since, made in reversed(world.environments[host]) if since <= run)
    number = run_id or _number_run(world, run, host, layout)
    parts = (number, name or _name_submission(run, host), layout, world.host_ids[host])
    started_at = moment or _start(run, host, layout)
    about = (world.target_ids[layout], environment_id, "ebs-series", "{}", started_at, True)
    return (*parts, *about, "json", "fio-3.33", "{}", 0, False, "[]", "{}", 1, "")


def _make_measurements(
    world: World,
    run: int,
    host: int,
    layout: int,
    *,
    values: Mapping[str, Array] | None = None,
    run_id: int | None = None,
    moment: datetime | None = None,
) -> Iterator[tuple[Any, ...]]:
    works = world.cells // world.layouts
    values = world.values if values is None else values
    run_id, moment = run_id or _number_run(world, run, host, layout), moment or _start(run, host, layout)
    for work in range(works):
        cell = host * world.cells + layout * works + work
        about = (world.series_ids[cell], run_id, 0, work, "", moment, 0, "clat", 1, "{}", "{}", "[]", False)
        yield (*about, *(float(values[metric][cell, run]) for metric in METRICS))


def _start(run: int, host: int, layout: int) -> datetime:
    # All within the step of a run, so that `find_run` finds it.
    return START + run * STEP + (host % 20) * _HOST_APART + layout * _LAYOUT_APART


def _number_run(world: World, run: int, host: int, layout: int) -> int:
    return 1 + layout + world.layouts * (host + len(world.host_ids) * run)


def _name_submission(run: int, host: int) -> UUID:
    return UUID(int=(run << 32) + host + 1)


def _copy(statement: str, rows: Iterator[tuple[Any, ...]]) -> None:
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _make_key(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


def _list_ids(rows: Sequence[Any]) -> tuple[int, ...]:
    return tuple(row.pk for row in rows)
