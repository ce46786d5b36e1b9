"""The latency percentiles of a run, with the ones of another run: rows of a table, which the page draws."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchapp.catalog.metrics import KIND_NAMES
from benchapp.framework.pages.number_columns import Scale, choose_scale, format_scaled
from benchapp.intake.normalize.measurement import describe_missing
from benchapp.models import Measurement
from benchapp.series.read.runs import (
    FEW_SAMPLES,
    SATURATED,
    RunDetail,
    find_withheld,
    list_percents,
    name_measurements,
    read_run,
)


@dataclass(frozen=True, slots=True)
class PercentileTable:
    """Percentiles of a run, in one unit. kind: latency kind; "latency" if there are several.

    omitted_count: percentiles without a column. before: in words, whose percentiles the second rows have.
    """

    percents: tuple[str, ...]
    omitted_count: int
    scale: Scale
    kind: str
    lines: tuple[dict[str, Any], ...]
    before: str

    @property
    def has_chart(self) -> bool:
        """Return whether the chart has any point."""
        return any(
            cell["raw"] is not None and not cell["reason"] for line in self.lines for cell in line["cells"]
        )

    @property
    def has_before(self) -> bool:
        """Return whether the table includes a previous run."""
        return any(line["before_run_id"] is not None for line in self.lines)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return why the chart omits some, empty if it shows all."""
        withheld = (cell for line in self.lines for cell in line["cells"] if cell["reason"])
        marks = (
            (("≥" if cell["text"].startswith("≥") else "In parentheses"), cell["reason"]) for cell in withheld
        )
        return tuple(f"{mark}, not in the chart: {reason}." for mark, reason in dict.fromkeys(marks))


def make_percentile_table(
    run: RunDetail,
    before: Mapping[int, Measurement],
    *,
    names: tuple[str, str] = ("", "previous run"),
    described: str = "previous valid run",
) -> PercentileTable | None:
    """Return the percentiles of all measurements that have any; None if none has.

    before: measurement id → measurement to compare with, at the same percentiles. names: of the two runs, before their
    ids; described: the second one in words.
    """
    titles = name_measurements(run.measurements)
    pairs = [pair for pair in zip(run.measurements, titles, strict=True) if pair[0].percentiles]
    if not pairs:
        return None
    percents, omitted_count = list_percents(measurement for measurement, _ in pairs)
    scale = choose_scale(
        [value for measurement, _ in pairs for value in measurement.percentiles.values()], "ns"
    )
    kinds = sorted({measurement.latency_kind for measurement, _ in pairs})

    def make_line(measurement: Measurement, name: str, before_run_id: int | None = None) -> dict[str, Any]:
        run_name = names[before_run_id is not None]
        return {
            "name": name,
            "run": run_name and f"{run_name} {before_run_id or run.row.id}",
            "rw": measurement.series.rw,
            "direction": measurement.series.direction,
            "kind": KIND_NAMES.get(measurement.latency_kind, "") if len(kinds) > 1 else "",
            "cells": tuple(_make_cells(measurement, percents, scale=scale)),
            "before_run_id": before_run_id,
        }

    lines = []
    for measurement, name in pairs:
        lines.append(make_line(measurement, name))
        if (earlier := before.get(measurement.id)) is not None:
            lines.append(make_line(earlier, name, earlier.run_id))
    return PercentileTable(
        percents=tuple(f"{percent:.10g}" for percent in percents),
        omitted_count=omitted_count,
        scale=scale,
        kind="latency" if len(kinds) > 1 else KIND_NAMES.get(kinds[0], "latency"),
        lines=tuple(lines),
        before=described,
    )


def compare_percentiles(a_run: int, b_run: int) -> tuple[PercentileTable | None, int]:
    """Return the percentiles of run B, each with the ones of run A below it, and how many of both are without a pair.

    A pair has the same workload, direction, place among repetitions, and kind of latency.
    """
    a, b = read_run(a_run), read_run(b_run)
    if a is None or b is None:
        return None, 0
    known, own = _list_distributions(a), _list_distributions(b)
    paired = known.keys() & own.keys()
    before = {own[key].id: known[key] for key in paired}
    described = "A, the same workload and kind of latency"
    table = make_percentile_table(b, before, names=("B: run", "A: run"), described=described)
    return table, len(known) + len(own) - 2 * len(paired)


def _list_distributions(run: RunDetail) -> dict[tuple[Any, ...], Measurement]:
    return {
        (row.series.workload_id, row.series.direction, row.ordinal, row.latency_kind): row
        for row in run.measurements
        if row.percentiles
    }


def _make_cells(
    measurement: Measurement, percents: Sequence[float], *, scale: Scale
) -> Iterator[dict[str, Any]]:
    values = measurement.percentile_values
    for percent in percents:
        value = values.get(percent)
        code = find_withheld(measurement, percent)
        text = format_scaled(value, scale)
        yield {
            "percent": f"{percent:.10g}",
            "text": {FEW_SAMPLES: f"({text})", SATURATED: f"≥ {text}"}.get(code, text),
            "raw": value,
            "reason": describe_missing(code) if code else "",
        }
