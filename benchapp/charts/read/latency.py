"""The latencies of one series over time: a fan of percentiles, and histograms where fio printed bins."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
from django.db.models import Q, Subquery
from numpy.typing import NDArray
from psycopg import sql

from benchapp.catalog.metrics import PERCENTILES
from benchapp.charts.read.downsampling import list_known
from benchapp.charts.rules.downsampling import Heat, SampledPoints, make_heat, thin_points
from benchapp.framework.read.binary_columns import fetch_arrays, from_us, to_us
from benchapp.models import Measurement

COLUMNS_DEFAULT: Final = 300
COLUMNS_MAXIMUM: Final = 2000
# Of a heat map; each is an array that must be read whole.
HISTOGRAMS_MAXIMUM: Final = 20_000
# Percentiles by name. Those that are metrics are withheld by the parser if fewer than 10 samples are above them; the
# same rule applies here to the others.
FAN: Final = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99_9": 99.9, "p99_99": 99.99}
_OF_COLUMN: Final = {name.removeprefix("latency_").removesuffix("_ns"): name for name in PERCENTILES}
_SAMPLES_BEYOND: Final = 10
FAN_COLUMNS: Final = ("from_at", "to_at", "runs", "last_run", *FAN)
# Of a series' newest runs, before its page says that it has no latencies.
_LOOKED_AT: Final = 20


@dataclass(frozen=True, slots=True)
class Fan:
    """Percentiles over time, ascending; columns of one length, nan where unknown.

    first_us, last_us: of the runs in a column (microseconds since 1970); runs: how many; run_id: of the last. values:
    by name of FAN, ns; where a column holds several runs, their median of that percentile.
    """

    first_us: NDArray[np.int64]
    last_us: NDArray[np.int64]
    runs: NDArray[np.int64]
    run_id: NDArray[np.int64]
    values: dict[str, NDArray[np.float64]]


def has_latencies(series_id: int) -> tuple[bool, bool]:
    """Say whether any of the newest runs of a series has percentiles, and any has bins; one query."""
    newest = Measurement.objects.filter(series_id=series_id).order_by("-started_at", "-id")
    rows = list(newest.values_list("percentiles", "latency_bins")[:_LOOKED_AT])
    return any(row[0] for row in rows), any(row[1] for row in rows)


def read_fan(
    series_id: int,
    *,
    count: int,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    newest: int | None = None,
) -> Fan:
    """Return the percentiles of runs that neither failed nor are excluded, in at most `count` columns; one query.

    Only those of the newest kind of latency. from_at inclusive, to_at exclusive; newest: so many runs of the span, None
    for all.
    """
    conditions, values = _make_span(series_id, from_at, to_at)
    rows = sql.SQL(
        "SELECT run_id, started_at, {percentiles} FROM benchapp_measurement"
        " WHERE {conditions} AND percentiles <> '{{}}' AND latency_kind IN ('', (SELECT latency_kind"
        "  FROM benchapp_measurement WHERE {conditions} AND percentiles <> '{{}}' ORDER BY started_at DESC, id DESC"
        "  LIMIT 1)) ORDER BY started_at DESC, id DESC LIMIT {newest}"
    ).format(
        percentiles=sql.SQL(", ").join(map(_select_percentile, FAN)),
        conditions=conditions,
        newest=sql.Literal(newest),
    )
    columns = fetch_arrays(
        rows, [*values, *values], columns=_FAN_COLUMNS | dict.fromkeys(FAN, "double precision")
    )
    return _make_fan({name: column[::-1] for name, column in columns.items()}, count)


def read_heat(
    series_id: int,
    *,
    count: int,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    newest: int = HISTOGRAMS_MAXIMUM,
) -> Heat | None:
    """Return the histograms in at most `count` columns, None where fio printed no bins; one query.

    Of runs that neither failed nor are excluded, the newest (at most 20 000) of the span; only those of the newest kind
    of latency.
    """
    span = Q(series_id=series_id, error=0, is_excluded=False, latency_bins__isnull=False)
    if from_at is not None:
        span &= Q(started_at__gte=from_at)
    if to_at is not None:
        span &= Q(started_at__lt=to_at)
    counted = Measurement.objects.filter(span).order_by("-started_at", "-id")
    rows = counted.filter(latency_kind__in=["", Subquery(counted.values("latency_kind")[:1])]).values_list(
        "started_at", "run_id", "latency_bins"
    )[: min(newest, HISTOGRAMS_MAXIMUM)]
    return make_heat([(to_us(at), run_id, bins or ()) for at, run_id, bins in list(rows)[::-1]], count)


_FAN_COLUMNS: Final = {"run_id": "bigint", "started_at": "timestamptz"}


def _make_span(
    series_id: int, from_at: datetime | None, to_at: datetime | None
) -> tuple[sql.Composable, list[object]]:
    parts = ["series_id = %s", "error = 0", "NOT is_excluded"]
    values: list[object] = [series_id]
    for condition, moment in (("started_at >= %s", from_at), ("started_at < %s", to_at)):
        if moment is not None:
            parts.append(condition)
            values.append(moment)
    return sql.SQL(" AND ").join(map(sql.SQL, parts)), values


def _select_percentile(name: str) -> sql.Composed:
    if name in _OF_COLUMN:
        value: sql.Composable = sql.Identifier(_OF_COLUMN[name])
    else:
        value = sql.SQL(
            "CASE WHEN total_ios IS NULL OR total_ios >= {least} THEN {given}::float8 END"
        ).format(
            least=sql.Literal(round(_SAMPLES_BEYOND / (1 - FAN[name] / 100))),
            given=sql.SQL("(percentiles->>{})").format(sql.Literal(f"{FAN[name]:g}")),
        )
    return sql.SQL("coalesce({}, 'NaN') AS {}").format(value, sql.Identifier(name))


def _make_fan(columns: dict[str, NDArray[Any]], count: int) -> Fan:
    at_us, run_id = columns["started_at"], columns["run_id"]
    values = {name: columns[name] for name in FAN}
    if len(at_us) <= count:
        return Fan(at_us, at_us, np.ones(len(at_us), dtype=np.int64), run_id, values)
    none = np.zeros(len(at_us), dtype=np.bool_)
    buckets = thin_points(SampledPoints(at_us, run_id, none, none, none, values), count)
    ends = np.cumsum(buckets.n) - 1
    medians = {name: spread.median for name, spread in buckets.spreads.items()}
    return Fan(buckets.first_us, buckets.last_us, buckets.n, run_id[ends], medians)


def fan_rows(fan: Fan) -> list[dict[str, Any]]:
    """Return the percentiles over time."""
    columns = [
        *_list_spans(fan.first_us, fan.last_us, fan.runs, fan.run_id),
        *(list_known(fan.values[name]) for name in FAN),
    ]
    return [dict(zip(FAN_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]


def heat_columns(heat: Heat) -> list[dict[str, Any]]:
    """Return the columns of a heat map, each with its counts from the first bucket on."""
    names = ("from_at", "to_at", "runs", "last_run", "counts")
    columns = [
        *_list_spans(heat.first_us, heat.last_us, heat.runs, heat.run_id),
        heat.counts.tolist(),
    ]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def heat_cells(heat: Heat) -> Iterator[dict[str, Any]]:
    """Yield the cells of a heat map that hold operations, for a table."""
    for column in heat_columns(heat):
        counts = column.pop("counts")
        for place, operations in enumerate(counts):
            if operations:
                bucket = heat.first_bucket + place
                yield {
                    **column,
                    "bucket": bucket,
                    "from_ns": 2.0 ** (bucket / 4),
                    "to_ns": 2.0 ** ((bucket + 1) / 4),
                    "operations": operations,
                }


def _list_spans(*columns: NDArray[np.int64]) -> Sequence[list[Any]]:
    first_us, last_us, runs, run_id = (column.tolist() for column in columns)
    return list(map(from_us, first_us)), list(map(from_us, last_us)), runs, run_id
