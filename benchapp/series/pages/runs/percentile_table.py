"""Latency percentiles of one run and of previous runs: the table, which is also the data of the chart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchapp.catalog.metrics import KIND_NAMES
from benchapp.framework.pages.number_columns import Scale, choose_scale, format_scaled
from benchapp.framework.pages.reason_texts import describe_missing
from benchapp.models import Measurement
from benchapp.series.pages.runs.tables import name_measurements
from benchapp.series.read.runs.run_detail import RunDetail, has_too_few_samples, list_percents


@dataclass(frozen=True, slots=True)
class PercentileCell:
    """One percentile of one measurement; raw in ns, None if fio printed none.

    reason: why the chart omits it, empty if displayed.
    """

    percent: str
    text: str
    raw: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class PercentileLine:
    """All percentiles of one measurement: a line of the chart and a row of the table.

    kind: latency kind, if the table has several. before_run_id: set if the line is of the previous valid run of the
    same series.
    """

    name: str
    rw: str
    direction: str
    kind: str
    cells: tuple[PercentileCell, ...]
    before_run_id: int | None = None


@dataclass(frozen=True, slots=True)
class PercentileTable:
    """Percentiles of a run, in one unit. kind: latency kind; "latency" if there are several.

    omitted_count: percentiles without a column.
    """

    percents: tuple[str, ...]
    omitted_count: int
    scale: Scale
    kind: str
    lines: tuple[PercentileLine, ...]

    @property
    def has_chart(self) -> bool:
        """Return whether the chart has any point."""
        return any(cell.raw is not None and not cell.reason for line in self.lines for cell in line.cells)

    @property
    def has_before(self) -> bool:
        """Return whether the table includes a previous run."""
        return any(line.before_run_id is not None for line in self.lines)

    @property
    def reason(self) -> str:
        """Return why the chart omits some, empty if it shows all."""
        return next((cell.reason for line in self.lines for cell in line.cells if cell.reason), "")


def make_percentile_table(run: RunDetail, before: Mapping[int, Measurement]) -> PercentileTable | None:
    """Return the percentiles of all measurements that have any; None if none has.

    before: measurement id → previous measurement of the series, at the same percentiles.
    """
    names = name_measurements(run.measurements)
    pairs = [pair for pair in zip(run.measurements, names, strict=True) if pair[0].percentiles]
    if not pairs:
        return None
    percents, omitted_count = list_percents(measurement for measurement, _ in pairs)
    scale = choose_scale(
        [value for measurement, _ in pairs for value in measurement.percentiles.values()], "ns"
    )
    kinds = sorted({measurement.latency_kind for measurement, _ in pairs})

    def make_line(measurement: Measurement, name: str, before_run_id: int | None = None) -> PercentileLine:
        return PercentileLine(
            name,
            measurement.series.rw,
            measurement.series.direction,
            KIND_NAMES.get(measurement.latency_kind, "") if len(kinds) > 1 else "",
            tuple(_make_cells(measurement, percents, scale=scale)),
            before_run_id,
        )

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
    )


def _make_cells(
    measurement: Measurement, percents: Sequence[float], *, scale: Scale
) -> Iterator[PercentileCell]:
    values = measurement.percentile_values
    for percent in percents:
        value = values.get(percent)
        is_few = value is not None and has_too_few_samples(measurement, percent)
        text = format_scaled(value, scale)
        yield PercentileCell(
            percent=f"{percent:.10g}",
            text=f"({text})" if is_few else text,
            raw=value,
            reason=describe_missing("few-samples") if is_few else "",
        )
