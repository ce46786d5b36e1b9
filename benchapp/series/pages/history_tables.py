"""Tables of the page of a history: runs, environment changes, planned events, latencies."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
from django.urls import reverse

from benchapp.catalog.grammar import Filter, write_filter
from benchapp.catalog.metrics import Metric, format_value
from benchapp.charts.pages.history import HistoryRequest, write_query
from benchapp.charts.read.history import HistoryLine, SeriesHistory
from benchapp.charts.read.latency import FAN, Fan, has_latencies, read_fan, read_heat
from benchapp.charts.rules.downsampling import Heat
from benchapp.charts.texts.history import describe_latency_kind, find_shown_level
from benchapp.framework.pages.command_lines import format_curl_command, link_chart_image
from benchapp.framework.pages.filter_bar import Span, write_scopes
from benchapp.framework.pages.number_columns import NumberCell, Scale, choose_scale, make_cell
from benchapp.framework.read.binary_columns import from_us
from benchapp.framework.times import to_iso
from benchapp.incidents.read.maintenance import PlannedMark
from benchapp.series.read.environment_changes import EnvironmentChange
from benchapp.series.read.levels import find_level, read_levels
from benchapp.series.read.series import SeriesRow

T = TypeVar("T")

RUNS_ON_A_PAGE: Final = 30
FAN_RUNS: Final = 30
HEAT_RUNS: Final = 12
# All percentiles and histograms of a run are of one kind.
_KIND_OF: Final = "latency_p99_ns"
# Heat map buckets per doubling of the latency.
_PER_DOUBLING: Final = 4


def make_run_table(line: HistoryLine, metric: Metric, *, page: int) -> dict[str, Any]:
    """Return a page of the runs of a series in the time range. page: from 1."""
    count = len(line.points.error)
    end = max(0, count - (page - 1) * RUNS_ON_A_PAGE)
    start = max(0, end - RUNS_ON_A_PAGE)
    values = line.points.points.values[metric.name]
    scale = choose_scale([_known(value) for value in values[start:end].tolist()], metric.unit)
    lines = (_make_run_line(line, metric, place, scale=scale) for place in reversed(range(start, end)))
    return {"scale": scale, "lines": tuple(lines), "has_older": start > 0}


def _make_run_line(line: HistoryLine, metric: Metric, place: int, *, scale: Scale) -> dict[str, Any]:
    points = line.points.points
    started_at, error = from_us(points.at_us[place]), int(line.points.error[place])
    value = _known(float(points.values[metric.name][place]))
    level = find_level(line.levels.get(metric.name, ()), started_at)
    is_compared = value is not None and level is not None and level.median and not error
    numbers = (None, None, None) if level is None else (level.median, level.p10, level.p90)
    return {
        "run_id": int(points.run_id[place]),
        "started_at": started_at,
        "error": error,
        "is_excluded": bool(points.is_excluded[place]),
        "value": make_cell(value, scale, metric.name, reason="the run failed" if error else "see run page"),
        "level": tuple(make_cell(each, scale, metric.name, reason="no level") for each in numbers),
        "difference": value / level.median - 1 if is_compared and value and level else None,
        "codes": line.points.codes_at(place),
    }


def _known(value: float) -> float | None:
    return None if value != value else value


# An environment change or a planned event, with the names of the series of the chart that it concerns.
Named = tuple[T, tuple[str, ...]]


def list_environment_changes(history: SeriesHistory) -> list[Named[EnvironmentChange]]:
    """Return the environment changes of the series of a chart, newest first; each run once."""
    names: dict[int, list[str]] = defaultdict(list)
    changes: dict[int, EnvironmentChange] = {}
    for line in history.lines:
        for change in line.environments.changes:
            names[change.run].append(line.name)
            changes[change.run] = change
    newest = sorted(changes.values(), key=lambda change: change.at, reverse=True)
    return [(change, tuple(names[change.run])) for change in newest]


def list_planned_events(history: SeriesHistory) -> list[Named[PlannedMark]]:
    """Return the planned events of a chart, latest start first; without names those that match all its series."""
    return [
        (mark, tuple(line.name for line in history.lines if line.row.id in mark.series_ids))
        if len(mark.series_ids) < len(history.lines)
        else (mark, ())
        for mark in history.planned.items
    ]


def link_note_form(
    asked: HistoryRequest, rows: Sequence[SeriesRow], *, filter: Filter, return_to: str
) -> str:
    """Return the address of the form for a note with the chart's filter and time.

    filter: of the chart; a chart of series by id has their hosts and pools instead. The time is the range of the chart;
    without one, that of the newest run. return_to: address to go back to.
    """
    latest_at = max((row.last_at for row in rows), default=None)
    from_at = asked.from_at or (None if asked.to_at else latest_at)
    query = write_query(
        kind="note",
        filter=write_filter(filter.without_facts())
        if asked.ids is None
        else write_scopes(sorted({row.scope for row in rows})),
        **{
            name: to_iso(moment)
            for name, moment in {"from": from_at, "to": asked.to_at}.items()
            if moment is not None
        },
        next=return_to,
    )
    return f"{reverse('add_planned_event')}?{query}"


@dataclass(frozen=True, slots=True)
class LatencyTable:
    """Newest runs first. unit: of all cells; has_more: the time range has older runs that are not listed."""

    unit: str
    columns: tuple[str, ...]
    lines: tuple[dict[str, Any], ...]
    has_more: bool


def read_fan_table(series_id: int, span: Span) -> LatencyTable:
    """Return the percentiles of the newest 30 runs of a time range; one query."""
    # One more row shows whether older runs exist.
    fan = read_fan(series_id, count=FAN_RUNS + 1, newest=FAN_RUNS + 1, **span)
    return _make_table(
        fan, [f"p{percent:g}" for percent in FAN.values()], _show_percentiles(fan), most=FAN_RUNS
    )


def read_heat_table(series_id: int, span: Span) -> LatencyTable | None:
    """Return the latency distribution of the newest 12 runs as shares of I/Os; one query.

    Each column is a doubling of the latency; empty columns at both ends are omitted. None without histograms.
    """
    heat = read_heat(series_id, count=HEAT_RUNS + 1, newest=HEAT_RUNS + 1, **span)
    if heat is None:
        return None
    first = heat.first_bucket // _PER_DOUBLING
    shares = find_shares(heat)
    columns = [
        f"≤ {format_value(2.0 ** (first + place + 1), 'ns')}"
        for place in range(len(shares[0]) if shares else 0)
    ]
    cells = [
        tuple(NumberCell(format_share(share), share, "", "share") for share in run_shares)
        for run_shares in shares
    ]
    return _make_table(heat, columns, ("%", cells), most=HEAT_RUNS)


def find_shares(heat: Heat) -> list[list[float]]:
    """Return the share (0 to 1) of I/Os in each doubling from 2^k ns, for each column of a heat map."""
    lead = heat.first_bucket % _PER_DOUBLING
    height = heat.counts.shape[1]
    padded = np.pad(heat.counts, ((0, 0), (lead, -(lead + height) % _PER_DOUBLING)))
    doublings = padded.reshape(len(padded), -1, _PER_DOUBLING).sum(axis=2)
    shares: list[list[float]] = (doublings / doublings.sum(axis=1, keepdims=True)).tolist()
    return shares


def format_share(share: float) -> str:
    """Format a share in per cent as the chart does: 20.6, 0.0012, > 99.99."""
    percent = share * 100
    if percent == 0:
        return "0"
    if 99.995 <= percent < 100:
        return "> 99.99"
    return np.format_float_positional(
        float(f"{percent:.{4 if percent >= 99 else 3}g}"), trim="-", unique=True
    )


def _show_percentiles(fan: Fan) -> tuple[str, list[tuple[NumberCell, ...]]]:
    rows: list[list[float | None]] = [
        list(map(_known, row)) for row in zip(*(fan.values[name].tolist() for name in FAN), strict=True)
    ]
    scale: Scale = choose_scale([value for row in rows for value in row], "ns")
    reason = "not in the fio output, or fewer than 10 samples above this percentile"
    cells = [tuple(make_cell(value, scale, "latency", reason=reason) for value in row) for row in rows]
    return scale.name, cells


def _make_table(
    columns_over_time: Fan | Heat,
    names: Sequence[str],
    shown: tuple[str, list[tuple[NumberCell, ...]]],
    *,
    most: int,
) -> LatencyTable:
    unit, cells = shown
    lines = [
        {"run_id": run_id, "started_at": from_us(at_us), "cells": row}
        for run_id, at_us, row in zip(
            columns_over_time.run_id.tolist(), columns_over_time.first_us.tolist(), cells, strict=True
        )
    ]
    return LatencyTable(unit, tuple(names), tuple(lines[::-1][:most]), has_more=len(lines) > most)


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """Percentile fan, and heat map if fio printed a histogram; None without data. note: on their kind of latency."""

    fan: dict[str, Any] | None
    heat: dict[str, Any] | None
    note: str

    def __bool__(self) -> bool:
        """Return whether any chart has data."""
        return self.fan is not None or self.heat is not None


def make_latency_figures(row: SeriesRow, asked: HistoryRequest, *, base_url: str) -> LatencyFigures:
    """Return the figures for the available data; a query, one for each figure, and one for their kind of latency."""
    has = has_latencies(row.id)
    levels = read_levels([row.id], [_KIND_OF])[row.id][_KIND_OF] if has.percentiles or has.bins else ()
    query = write_query(**asked.bounds)

    def make(name: str, table: LatencyTable | None, *, image_url: str = "") -> dict[str, Any]:
        address = f"/api/v1/series/{row.id}/{name}{'?' if query else ''}{query}"
        return {
            "url": address,
            "csv_url": f"{address}{'&' if query else '?'}format=csv",
            "api_line": format_curl_command(f"{base_url}{address}"),
            "file_name": f"series-{row.id}-{name}",
            "table": table,
            "image_url": image_url,
        }

    image_query = write_query(series=row.id, **asked.bounds)
    return LatencyFigures(
        make(
            "percentiles",
            read_fan_table(row.id, asked.span),
            image_url=link_chart_image(f"/api/v1/percentiles?{image_query}"),
        )
        if has.percentiles
        else None,
        make("histogram", read_heat_table(row.id, asked.span)) if has.bins else None,
        " ".join(describe_latency_kind(find_shown_level(levels, **asked.span))),
    )
