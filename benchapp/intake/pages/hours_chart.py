"""Bar chart of uploads per hour, as SVG coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from benchapp.intake.read.submissions import HourCount

WIDTH: Final = 480
HEIGHT: Final = 64
_STEP: Final = WIDTH / 24
_GAP: Final = 3


@dataclass(frozen=True, slots=True)
class HourSegment:
    """One segment of a bar. kind: the submission state."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class HourBar:
    """One hour: its segments, bottom up, and its counts."""

    x: float
    hour_at: datetime
    count: HourCount
    segments: tuple[HourSegment, ...]


@dataclass(frozen=True, slots=True)
class HoursChart:
    """All bars. peak: the count at full height."""

    bars: tuple[HourBar, ...]
    peak: int
    bar_width: float = _STEP - _GAP
    width: int = WIDTH
    height: int = HEIGHT


def make_hours_chart(hours: Sequence[HourCount]) -> HoursChart:
    """Stack stored, waiting and rejected submissions of each hour; bars start at zero."""
    peak = max((hour.stored + hour.received + hour.rejected for hour in hours), default=0)
    return HoursChart(tuple(_make_bar(place, hour, peak) for place, hour in enumerate(hours)), peak)


def _make_bar(place: int, hour: HourCount, peak: int) -> HourBar:
    segments = []
    top = float(HEIGHT)
    for kind, count in (("stored", hour.stored), ("received", hour.received), ("rejected", hour.rejected)):
        if count:
            # At least two units, so that one rejection among thousands is visible.
            height = max(2.0, count / peak * (HEIGHT - 4))
            top = max(0.0, top - height)
            segments.append(HourSegment(kind, round(top, 1), round(height, 1)))
    return HourBar(round(place * _STEP, 1), hour.hour_at, hour, tuple(segments))
