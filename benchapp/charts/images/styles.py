"""Colors, shapes and dashes of chart images: those of the pages (static/css/site/tokens.css, palette.js)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.charts.images.options import Theme


@dataclass(frozen=True, slots=True)
class ThemeColors:
    """The colors of a theme, as #rrggbb. regression, improvement: of texts."""

    paper: str
    ink: str
    muted: str
    line: str
    field_line: str
    regression: str
    improvement: str


COLORS: Final[Mapping[Theme, ThemeColors]] = {
    "light": ThemeColors(
        paper="#fcfcfb",
        ink="#1d2021",
        muted="#6b7075",
        line="#e3e4e1",
        field_line="#8d9296",
        regression="#b03226",
        improvement="#1a7440",
    ),
    "dark": ThemeColors(
        paper="#15181b",
        ink="#e6e6e3",
        muted="#9aa0a6",
        line="#2b3035",
        field_line="#6b7178",
        regression="#f08a7d",
        improvement="#5fc98a",
    ),
}
SERIES_COLORS: Final = {
    "blue": "#0072b2",
    "orange": "#d55e00",
    "green": "#009e73",
    "purple": "#8f5fa8",
    "sky": "#56b4e9",
    "brown": "#b8860b",
    "gray": "#7f7f7f",
    "pink": "#cc79a7",
}


@dataclass(frozen=True, slots=True)
class LineStyle:
    """How a line and its marks are drawn. marker: of matplotlib; dash: lengths in px, () for a solid line."""

    color: str
    marker: str
    dash: tuple[int, ...] = ()


STYLES: Final = (
    LineStyle(SERIES_COLORS["blue"], "o"),
    LineStyle(SERIES_COLORS["orange"], "^", (6, 3)),
    LineStyle(SERIES_COLORS["green"], "s", (2, 2)),
    LineStyle(SERIES_COLORS["purple"], "D", (8, 3, 2, 3)),
    LineStyle(SERIES_COLORS["sky"], "o", (4, 2)),
    LineStyle(SERIES_COLORS["brown"], "^"),
    LineStyle(SERIES_COLORS["gray"], "s", (10, 4)),
    LineStyle(SERIES_COLORS["pink"], "D", (3, 5)),
)
# Of lines after the eighth, whose colors repeat.
_LATE_MARKERS: Final = ("*", "X", "P", "p")
# Of values of a fact of the environment; gray is that of unknown and further ones.
_VALUE_MARKERS: Final = ("o", "^", "s", "D", "*", "P", "X")
GRAY_STYLE: Final = LineStyle(SERIES_COLORS["gray"], "o")
_UNKNOWN_VALUE: Final = LineStyle(SERIES_COLORS["gray"], "p")
# Fixed meaning: sequential read blue, sequential write orange, random read green, random write purple.
_MEANING: Final = {
    "sequential read": 0,
    "sequential write": 1,
    "random read": 2,
    "random write": 3,
    "unknown read": 4,
    "unknown write": 5,
}


def assign_styles(lines: Sequence[tuple[str, str]]) -> list[LineStyle]:
    """Return a style for each line (rw, direction): its fixed one if that is still free, else the next free one."""
    taken: set[int] = set()
    wanted: list[int | None] = []
    for rw, direction in lines:
        orders = {"rand": "random", "unkn": "unknown"}
        index = _MEANING.get(f"{orders.get(rw[:4], 'sequential')} {direction}")
        if index in taken:
            index = None
        if index is not None:
            taken.add(index)
        wanted.append(index)
    styles = []
    for place, index in enumerate(wanted):
        style = STYLES[_take_next(taken, place) if index is None else index]
        if place >= len(STYLES):
            marker = _LATE_MARKERS[(place - len(STYLES)) % len(_LATE_MARKERS)]
            style = LineStyle(style.color, marker, style.dash)
        styles.append(style)
    return styles


def style_of_value(place: int | None) -> LineStyle:
    """Return the style of the marks of a value among several; None: of an unknown or further value."""
    if place is None:
        return _UNKNOWN_VALUE
    shown = [color for name, color in SERIES_COLORS.items() if name != "gray"]
    return LineStyle(shown[place % len(shown)], _VALUE_MARKERS[place % len(_VALUE_MARKERS)])


def _take_next(taken: set[int], place: int) -> int:
    free = next((index for index in range(len(STYLES)) if index not in taken), place % len(STYLES))
    taken.add(free)
    return free
