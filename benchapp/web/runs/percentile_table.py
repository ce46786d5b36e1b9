"""The latency percentiles of one run, and of the runs before it: the table that its chart is drawn from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchapp.queries.runs.runs import MeasurementRow, RunDetail
from benchapp.web.runs.tables import KIND_NAMES, name_measurements
from benchapp.web.site.number_columns import Scale, choose_scale, format_scaled
from benchapp.web.site.reason_texts import explain_missing


@dataclass(frozen=True, slots=True)
class PercentileCell:
    """One percentile of one measurement; raw in ns, None where fio gave none.

    reason: why it is not drawn, empty where it is.
    """

    percent: str
    text: str
    raw: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class PercentileLine:
    """All percentiles of one measurement: a line of the chart and a row of the table under it.

    kind: of which latency they are, where the table has several. before_run_id: where it is not of this run but of
    the last good one of the same series before it.
    """

    name: str
    rw: str
    direction: str
    kind: str
    cells: tuple[PercentileCell, ...]
    before_run_id: int | None = None


@dataclass(frozen=True, slots=True)
class PercentileTable:
    """The percentiles of a run: one unit for all. kind: of which latency they are; "latency" where of several."""

    percents: tuple[str, ...]
    scale: Scale
    kind: str
    lines: tuple[PercentileLine, ...]

    @property
    def is_drawn(self) -> bool:
        """Say whether there is anything for the chart."""
        return any(cell.raw is not None and not cell.reason for line in self.lines for cell in line.cells)

    @property
    def has_before(self) -> bool:
        """Say whether an earlier run stands beside this one."""
        return any(line.before_run_id is not None for line in self.lines)

    @property
    def reason(self) -> str:
        """Return why some are not drawn, empty where all are."""
        return next((cell.reason for line in self.lines for cell in line.cells if cell.reason), "")


def make_percentile_table(run: RunDetail, before: Mapping[int, MeasurementRow]) -> PercentileTable | None:
    """Return the percentiles of all measurements that have any; None where none has.

    before: by a measurement's id the earlier one that stands below it, at the same percentiles.
    """
    names = name_measurements(run.measurements)
    kept = [pair for pair in zip(run.measurements, names, strict=True) if pair[0].percentiles]
    if not kept:
        return None
    percents = sorted({percent for measurement, _ in kept for percent, _ in measurement.percentiles})
    scale = choose_scale([value for measurement, _ in kept for _, value in measurement.percentiles], "ns")
    kinds = sorted({measurement.latency_kind for measurement, _ in kept})

    def make_line(measurement: MeasurementRow, name: str, before_run_id: int | None = None) -> PercentileLine:
        return PercentileLine(
            name,
            measurement.workload.rw,
            measurement.direction,
            KIND_NAMES.get(measurement.latency_kind, "") if len(kinds) > 1 else "",
            tuple(_make_cells(measurement, percents, scale=scale)),
            before_run_id,
        )

    lines = []
    for measurement, name in kept:
        lines.append(make_line(measurement, name))
        if (earlier := before.get(measurement.id)) is not None:
            lines.append(make_line(earlier, name, earlier.run_id))
    return PercentileTable(
        percents=tuple(f"{percent:.10g}" for percent in percents),
        scale=scale,
        kind="latency" if len(kinds) > 1 else KIND_NAMES.get(kinds[0], "latency"),
        lines=tuple(lines),
    )


def _make_cells(
    measurement: MeasurementRow, percents: Sequence[float], *, scale: Scale
) -> Iterator[PercentileCell]:
    values = dict(measurement.percentiles)
    for percent in percents:
        value = values.get(percent)
        is_few = value is not None and measurement.is_left_to_chance(percent)
        text = format_scaled(value, scale)
        yield PercentileCell(
            percent=f"{percent:.10g}",
            text=f"({text})" if is_few else text,
            raw=value,
            reason=explain_missing("few-samples") if is_few else "",
        )
