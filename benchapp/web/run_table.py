"""The numbers of one run and of a list of runs, as rows of cells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from benchapp.metrics import CATALOGUE, UNKNOWN, ReferenceLimit, find_limit, format_value
from benchapp.queries.runs import MeasurementRow, MeasurementSummary, RunDetail, RunRow
from benchapp.queries.titles import describe_block_size
from benchapp.web.columns import Cell, Column, Scale, choose_scale, format_scaled, make_cells, make_columns
from benchapp.web.latency_kinds import KIND_NAMES, LatencyKinds, choose_usual, find_kinds, say_unusual
from benchapp.web.reasons import explain_missing

LIST_METRICS: Final = ("iops", "bandwidth_bytes_per_s", "latency_mean_ns", "latency_p99_ns", "elapsed_s")
# A title names so many results; the table has the others.
_TITLE_MAXIMUM: Final = 2


@dataclass(frozen=True, slots=True)
class ResultLine:
    """One measurement in the list of runs."""

    series_id: int
    words: str
    direction: str
    error: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class RunLines:
    """One run in the list, with a line for each measurement; hidden_count: those that the list leaves out."""

    run: RunRow
    lines: tuple[ResultLine, ...]
    hidden_count: int

    @property
    def height(self) -> int:
        """Return how many table rows this run takes."""
        return max(1, len(self.lines)) + (1 if self.hidden_count else 0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a value stands to the limit between good and bad that its profile has."""

    is_good: bool
    limit: ReferenceLimit


@dataclass(frozen=True, slots=True)
class MeasurementLine:
    """One measurement of a run's table; codes: of its badges; verdict: None where there is no limit.

    kinds: of which latencies its metrics are, where they are not those of most rows.
    """

    measurement: MeasurementRow
    name: str
    cells: tuple[Cell, ...]
    codes: tuple[str, ...]
    verdict: Verdict | None
    kinds: str


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

    kind: of which latency they are, where the table has several.
    """

    name: str
    rw: str
    direction: str
    kind: str
    cells: tuple[PercentileCell, ...]


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
    def reason(self) -> str:
        """Return why some are not drawn, empty where all are."""
        return next((cell.reason for line in self.lines for cell in line.cells if cell.reason), "")


def make_run_lines(runs: Sequence[RunRow]) -> tuple[tuple[Column, ...], tuple[RunLines, ...]]:
    """Return the columns of the list of runs, and its rows."""
    columns = make_columns((line for run in runs for line in run.measurements), LIST_METRICS)
    return columns, tuple(
        RunLines(
            run=run,
            lines=tuple(
                ResultLine(
                    line.series_id, _say_summary(line), line.direction, line.error, make_cells(line, columns)
                )
                for line in run.measurements
            ),
            hidden_count=run.measurement_count - len(run.measurements),
        )
        for run in runs
    )


def make_measurement_lines(run: RunDetail) -> tuple[tuple[Column, ...], tuple[MeasurementLine, ...]]:
    """Return the columns of a run's table, and its rows."""
    columns = make_columns(run.measurements, tuple(CATALOGUE))
    names = name_measurements(run.measurements)
    usual = find_usual_kinds(run)
    return columns, tuple(
        MeasurementLine(
            measurement,
            name,
            make_cells(measurement, columns),
            tuple(badge.code for badge in measurement.badges),
            _judge(run.profile, measurement),
            say_unusual(find_kinds(measurement, parser_version=run.parser_version), usual),
        )
        for measurement, name in zip(run.measurements, names, strict=True)
    )


def find_usual_kinds(run: RunDetail) -> LatencyKinds:
    """Return of which latencies the metrics of most of a run's measurements are."""
    return choose_usual(find_kinds(one, parser_version=run.parser_version) for one in run.measurements)


def make_percentile_table(run: RunDetail) -> PercentileTable | None:
    """Return the percentiles of all measurements that have any; None where none has."""
    names = name_measurements(run.measurements)
    kept = [pair for pair in zip(run.measurements, names, strict=True) if pair[0].percentiles]
    if not kept:
        return None
    percents = sorted({percent for measurement, _ in kept for percent, _ in measurement.percentiles})
    scale = choose_scale([value for measurement, _ in kept for _, value in measurement.percentiles], "ns")
    kinds = sorted({measurement.latency_kind for measurement, _ in kept})
    return PercentileTable(
        percents=tuple(f"{percent:.10g}" for percent in percents),
        scale=scale,
        kind="latency" if len(kinds) > 1 else KIND_NAMES.get(kinds[0], "latency"),
        lines=tuple(
            PercentileLine(
                name,
                measurement.workload.rw,
                measurement.direction,
                KIND_NAMES.get(measurement.latency_kind, "") if len(kinds) > 1 else "",
                tuple(_make_percentile_cells(measurement, percents, scale=scale)),
            )
            for measurement, name in kept
        ),
    )


def name_measurements(measurements: Sequence[MeasurementRow]) -> list[str]:
    """Return a short name for each measurement, told apart by direction and, where needed, by number."""
    several = len({measurement.job_name for measurement in measurements}) < len(measurements)
    names = [
        f"{measurement.job_name or measurement.workload.rw}{f' · {measurement.direction}' if several else ''}"
        for measurement in measurements
    ]
    return [
        f"{name} #{names[: place + 1].count(name)}" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def say_results(run: RunDetail) -> str:
    """Say the answer of a run in a title: its first results with their IOPS and p99."""
    known = [
        measurement
        for measurement in run.measurements
        if measurement.iops is not None or measurement.elapsed_s is not None
    ]
    parts = [_say_result(measurement) for measurement in known[:_TITLE_MAXIMUM]]
    if len(known) > _TITLE_MAXIMUM:
        parts.append(f"and {len(known) - _TITLE_MAXIMUM} more")
    return "; ".join(parts) or "no values"


def list_withheld(lines: Sequence[MeasurementLine]) -> list[str]:
    """Return why values are missing, a sentence for each reason and the rows that it concerns."""
    concerned: dict[str, list[str]] = {}
    for line in lines:
        for reason in dict.fromkeys(cell.reason for cell in line.cells if cell.reason):
            concerned.setdefault(reason, []).append(line.name)
    return [f"{', '.join(names)}: {reason}." for reason, names in concerned.items()]


def _judge(profile: str, measurement: MeasurementRow) -> Verdict | None:
    for metric in CATALOGUE:
        limit, value = find_limit(profile, metric), getattr(measurement, metric)
        if limit is not None and value is not None and not measurement.error:
            return Verdict(limit.is_met(value), limit)
    return None


def _say_result(measurement: MeasurementRow) -> str:
    workload = measurement.workload_title.split(" · ")[0]
    if measurement.iops is None and measurement.elapsed_s is not None:
        return f"{workload} {format_value(measurement.elapsed_s, 's')}"
    words = f"{workload} {format_value(measurement.iops, 'operations/s')} IOPS"
    if measurement.latency_p99_ns is None:
        return words
    return f"{words}, p99 {format_value(measurement.latency_p99_ns, 'ns')}"


def _say_summary(line: MeasurementSummary) -> str:
    size = describe_block_size(cast(Any, line))  # it needs the block size only
    mixed = f" {line.direction}" if line.direction not in line.rw else ""
    depth = UNKNOWN if line.iodepth is None else line.iodepth
    return f"{size} {line.rw}{mixed} · {depth} × {line.numjobs}".strip()


def _make_percentile_cells(
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
