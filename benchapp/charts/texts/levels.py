"""Levels in words: their time range, marks of changes, and kinds of latency."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from benchapp.catalog.dimensions import DIMENSIONS, Dimension
from benchapp.catalog.grammar import Value
from benchapp.catalog.metrics import (
    CATALOG,
    KIND_NAMES,
    Measured,
    format_count,
    format_integer,
    format_signed_percent,
    format_with_unit,
    lower_label,
)
from benchapp.charts.read.chart import ChartPanel
from benchapp.charts.read.matrix import Matrix
from benchapp.charts.read.scaling_defaults import Choice, FixedDimension, Settings
from benchapp.framework.times import format_day, format_moment
from benchapp.incidents.read.series_status import SeriesMark
from benchapp.models import Slope, name_scopes
from benchapp.series.read.selected_levels import PAST_SERIES_MAXIMUM, LevelRange
from benchapp.series.read.titles import describe_setting, describe_value


def describe_level_range(span: LevelRange) -> str:
    """Return what the numbers are: "levels as of 8 Nov 2026 00:00 UTC; series with runs since …"; "" if it is open."""
    parts = [f"levels as of {format_moment(span.to_at)}"] if span.to_at else []
    parts += [f"series with runs since {format_moment(span.from_at)}"] if span.from_at else []
    return "; ".join(parts)


def describe_past_limit(use: str) -> str:
    """Return the limit of a past end: "Only the most recent 2 000 series are used for an earlier period."."""
    return (
        f"Only the most recent {format_count(PAST_SERIES_MAXIMUM, 'series')} are {use} for an earlier period."
    )


def describe_mark(mark: SeriesMark, *, metric: str, has_year: bool) -> str:
    """Return the text of a mark in a chart of a metric: "▼ −21.7 % since 8 Nov"; with the name of another metric.

    Of a drift that continues: "▼ drifts since 3 Nov, −1.2 % a day".
    """
    name = "" if mark.metric == metric else f"{CATALOG[mark.metric].label} "
    size = f"{name}{format_signed_percent(mark.relative)}"
    day = format_day(mark.started_at, has_year=has_year)
    drift = describe_drift(mark.slope, has_year=has_year)
    return {
        "open": f"{'▲' if mark.relative > 0 else '▼'} {f'{name}{drift}' if drift else f'{size} since {day}'}",
        "recovered": f"recovered from {size}",
        "accepted": f"accepted {size} on {day}",
        "muted": f"muted {size} on {day}",
    }[mark.state]


def describe_drift(slope: Slope | None, *, has_year: bool) -> str:
    """Return since when a value drifts, and how fast: "drifts since 3 Nov, −1.2 % a day"; "" unless it continues."""
    if slope is None or not slope.continues:
        return ""
    rate = f", {format_signed_percent(slope.per_day)} a day" if slope.per_day else ""
    return f"drifts since {format_day(slope.from_at, has_year=has_year)}{rate}"


def describe_kind(kind: str, switched_at: datetime | None) -> str:
    """Return the kind of a level, and since when if values of the other kind came before; "" if unknown."""
    if not kind:
        return ""
    name = f"{KIND_NAMES[kind][0].upper()}{KIND_NAMES[kind][1:]}"
    if switched_at is None:
        return f"{name}."
    (other,) = KIND_NAMES.keys() - {kind}
    return f"{name} since {format_day(switched_at)}; {KIND_NAMES[other]} before is not compared."


def describe_mixed_kinds(counts: Mapping[str, int]) -> list[str]:
    """Return a sentence if a chart has series of both kinds. counts: of the series of each kind."""
    known = [(count, KIND_NAMES[kind]) for kind, count in sorted(counts.items()) if kind and count]
    if len(known) < 2:
        return []
    named = ", ".join(f"{name} of {format_count(count, 'series')}" for count, name in known)
    return [f"Two kinds of latency: {named}. They differ by the submission latency."]


_NAMED: Final = 3


def describe_fixed(fixed: Sequence[FixedDimension], *, shown: int, hidden: int, hidden_else: int = 0) -> str:
    """Return how many series are shown, and with which values: "12 of 1 000 series: 5 GiB files, host db-02".

    "" if the fixed dimensions hide none. hidden_else: for another reason.
    """
    if not hidden or not fixed:
        return ""
    total = format_count(shown + hidden + hidden_else, "series")
    return f"{format_integer(shown)} of {total}: {', '.join(map(_describe_values, fixed))}"


def describe_unknown(dimension: Dimension, count: int) -> str:
    """Return why series have no place on an axis: "20 series of pools hidden: a pool has no single host."."""
    series = format_count(count, "series")
    if dimension.name == "host":
        return f"{series} of pools hidden: a pool has no single host."
    if dimension.name == "pool":
        return f"{series} hidden: their hosts are in no pool."
    return f"{series} hidden: unknown {lower_label(dimension.label)}."


def describe_values(dimension: str, values: Sequence[Value | None]) -> str:
    """Return the values of a dimension for use without a header: "5 GiB or 20 GiB files"; "5 values of volumes"."""
    if dimension == "host" and len(values) > 1:
        return name_scopes([f"host:{value}" for value in values if value is not None])
    if len(values) > _NAMED:
        return f"{len(values)} values of {lower_label(DIMENSIONS[dimension].label)}"
    return " or ".join(describe_setting(dimension, value) for value in values)


def _describe_values(fixed: FixedDimension) -> str:
    return describe_values(fixed.dimension, fixed.values)


def describe_settings(settings: Settings, varying: Sequence[str]) -> str:
    """Return the known values of a cell in the dimensions in which cells differ: "depth 16, 20 GiB files"."""
    known = ((name, values) for name, values in settings if name in varying and values != (None,))
    return ", ".join(describe_values(name, values) for name, values in known)


def describe_choice(dimension: str, choice: Choice, metric: Measured) -> str:
    """Return a value, its series and the range of their medians: "20 GiB (20 series: 900 IOPS to 30 000 IOPS)"."""
    series = format_count(choice.series_count, "series")
    ends = [format_with_unit(value, metric) for value in (choice.low, choice.high) if value is not None]
    results = f": {' to '.join(dict.fromkeys(ends))}" if ends else ""
    return f"{describe_value(dimension, choice.value)} ({series}{results})"


def place_settings(rows: Sequence[Sequence[Settings]], varying: Sequence[str]) -> dict[str, Any]:
    """Describe each dimension once: for all cells if they agree, else by row, else by column, else in the cells."""
    columns = list(zip(*rows, strict=True))
    cells = [cell for row in rows for cell in row]
    of_all = [name for name in varying if _is_common(name, cells)]
    of_rows = [name for name in varying if name not in of_all and all(_is_common(name, row) for row in rows)]
    of_columns = [
        name
        for name in varying
        if name not in {*of_all, *of_rows} and all(_is_common(name, column) for column in columns)
    ]
    of_cells = [name for name in varying if name not in {*of_all, *of_rows, *of_columns}]
    return {
        "all": describe_settings(_find_first(cells), of_all),
        "rows": tuple(describe_settings(_find_first(row), of_rows) for row in rows),
        "columns": tuple(describe_settings(_find_first(column), of_columns) for column in columns),
        "cells": tuple(tuple(describe_settings(cell, of_cells) for cell in row) for row in rows),
    }


def place_panel(matrix: Matrix, panel: ChartPanel) -> dict[str, Any]:
    """Return the settings of a panel of a matrix as texts; label: of the panel, with those of all its cells."""
    settings = [[cell.settings if cell.n else () for cell in row.cells] for row in panel.lines]
    placed = place_settings(settings, matrix.varying)
    return placed | {"label": ", ".join(filter(None, (panel.label, placed["all"])))}


def _is_common(name: str, cells: Sequence[Settings]) -> bool:
    return len({values for cell in cells for found, values in cell if found == name}) < 2


def _find_first(cells: Sequence[Settings]) -> Settings:
    """Return the settings of the first cell that has a value; all have the same names."""
    return next((cell for cell in cells if cell), ())
