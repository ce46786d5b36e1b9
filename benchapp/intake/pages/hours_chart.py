"""Bar chart of uploads per hour, as SVG coordinates."""

from collections.abc import Sequence
from typing import Any, Final

from benchapp.intake.read.submissions import HourCount

WIDTH: Final = 480
HEIGHT: Final = 64
_STEP: Final = WIDTH / 24
_GAP: Final = 3


def make_hours_chart(hours: Sequence[HourCount]) -> dict[str, Any]:
    """Stack stored, waiting and rejected submissions of each hour; bars start at zero."""
    peak = max((hour.stored + hour.received + hour.rejected for hour in hours), default=0)
    return {
        "bars": tuple(_make_bar(place, hour, peak) for place, hour in enumerate(hours)),
        "peak": peak,
        "bar_width": _STEP - _GAP,
        "width": WIDTH,
        "height": HEIGHT,
    }


def _make_bar(place: int, hour: HourCount, peak: int) -> dict[str, Any]:
    segments = []
    top = float(HEIGHT)
    for kind, count in (("stored", hour.stored), ("received", hour.received), ("rejected", hour.rejected)):
        if count:
            # At least two units, so that one rejection among thousands is visible.
            height = max(2.0, count / peak * (HEIGHT - 4))
            top = max(0.0, top - height)
            segments.append({"kind": kind, "y": round(top, 1), "height": round(height, 1)})
    return {"x": round(place * _STEP, 1), "hour_at": hour.hour_at, "count": hour, "segments": tuple(segments)}
