"""The validation of scaling models: each width of the EBS series left out and predicted from the others."""

import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchapp.charts.rules.scaling_models import Interval, NoModel, WidthValue, fit_scaling

SERIES: Final = Path(__file__).parents[3] / "benchapp" / "samples" / "ebs-2013.csv"
# What a curve of the series does not hold constant.
OF_A_POINT: Final = ("volume_count", "raid_level", "stripe_count", "iops", "bandwidth_mb_s", "note")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A measured value, and what the other widths of its curve predict; outcome: "predicted" or the refusal's code."""

    count: int
    measured: float
    predicted: Interval | None
    outcome: str


def leave_out_each_width() -> list[LeftOut]:
    """Return one prediction for each of the 154 numbers of the series."""
    return [leave_out(points, place) for points in read_curves() for place in range(len(points))]


def read_curves() -> list[list[WidthValue]]:
    """Return the curves of the series by volume count: all that was measured in the same way."""
    lines = [line for line in SERIES.read_text().splitlines() if not line.startswith("#")]
    curves = defaultdict(list)
    for row in csv.DictReader(lines):
        kind = tuple(value for name, value in row.items() if name not in OF_A_POINT)
        value = float(row["iops"] or row["bandwidth_mb_s"])
        curves[(*kind, bool(row["iops"]))].append(WidthValue(int(row["volume_count"]), value))
    return list(curves.values())


def leave_out(points: list[WidthValue], place: int) -> LeftOut:
    """Predict one point of a curve from the others."""
    point = points[place]
    try:
        model = fit_scaling([*points[:place], *points[place + 1 :]])
        return LeftOut(point.count, point.value, model.predict(point.count).throughput, "predicted")
    except NoModel as refusal:
        return LeftOut(point.count, point.value, None, refusal.code)
