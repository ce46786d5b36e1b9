"""Latency over time of one series: percentile fan and heat map, with tables of the newest runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from benchapp.catalog.metrics import format_value
from benchapp.charts.pages.history.request import HistoryRequest, write_query
from benchapp.charts.read.downsampling import from_us
from benchapp.charts.read.latency import FAN, Fan, Heat, Latencies, read_fan, read_heat
from benchapp.charts.texts.history import describe_latency_kind, find_shown_level
from benchapp.framework.pages.command_lines import format_curl_command, link_chart_image
from benchapp.framework.pages.filter_forms import Span
from benchapp.framework.pages.number_columns import NumberCell, Scale, choose_scale, make_cell
from benchapp.series.read.levels import read_levels
from benchapp.series.read.series import SeriesRow

FAN_RUNS: Final = 30
HEAT_RUNS: Final = 12
# All percentiles and histograms of a run are of one kind.
_KIND_OF: Final = "latency_p99_ns"
# Heat map buckets per doubling of the latency.
_PER_DOUBLING: Final = 4


@dataclass(frozen=True, slots=True)
class LatencyLine:
    """One run. cells: in the order of the columns."""

    run_id: int
    started_at: datetime
    cells: tuple[NumberCell, ...]


@dataclass(frozen=True, slots=True)
class LatencyTable:
    """Newest runs first. unit: of all cells; has_more: the time range has older runs that are not listed."""

    unit: str
    columns: tuple[str, ...]
    lines: tuple[LatencyLine, ...]
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
        [None if value != value else value for value in row]
        for row in zip(*(fan.values[name].tolist() for name in FAN), strict=True)
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
        LatencyLine(run_id, from_us(at_us), row)
        for run_id, at_us, row in zip(
            columns_over_time.run_id.tolist(), columns_over_time.first_us.tolist(), cells, strict=True
        )
    ]
    return LatencyTable(unit, tuple(names), tuple(lines[::-1][:most]), has_more=len(lines) > most)


@dataclass(frozen=True, slots=True)
class LatencyFigure:
    """One chart: data URL, downloads, table of the newest runs. image_url: "" for the histogram, which has none."""

    url: str
    csv_url: str
    api_line: str
    file_name: str
    table: LatencyTable | None
    image_url: str = ""


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """Percentile fan, and heat map if fio printed a histogram; None without data. note: on their kind of latency."""

    fan: LatencyFigure | None
    heat: LatencyFigure | None
    note: str

    def __bool__(self) -> bool:
        """Return whether any chart has data."""
        return self.fan is not None or self.heat is not None


def make_latency_figures(
    row: SeriesRow, asked: HistoryRequest, *, has: Latencies, base_url: str
) -> LatencyFigures:
    """Return the figures for the available data; one query each, and one for their kind of latency."""
    levels = read_levels([row.id], [_KIND_OF])[row.id][_KIND_OF] if has.percentiles or has.bins else ()
    query = write_query(**asked.bounds)

    def make(name: str, table: LatencyTable | None, *, image_url: str = "") -> LatencyFigure:
        address = f"/api/v1/series/{row.id}/{name}{'?' if query else ''}{query}"
        return LatencyFigure(
            url=address,
            csv_url=f"{address}{'&' if query else '?'}format=csv",
            api_line=format_curl_command(f"{base_url}{address}"),
            file_name=f"series-{row.id}-{name}",
            table=table,
            image_url=image_url,
        )

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
