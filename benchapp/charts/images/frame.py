"""The frame of every chart image: size, colors, title, footer and a box for the chart; drawn one at a time.

matplotlib is loaded by the first image: it takes 40 MiB and 0.4 s. Figures and canvases are objects of one call;
pyplot, which keeps figures, is not used."""

from __future__ import annotations

import gc
import io
import logging
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from benchapp.catalog.metrics import format_integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ImageFormat = Literal["svg", "png"]
Theme = Literal["light", "dark"]

FORMATS: Final[tuple[ImageFormat, ...]] = ("svg", "png")
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")
CONTENT_TYPES: Final = {"svg": "image/svg+xml; charset=utf-8", "png": "image/png"}
# 1200 × 630 is the size that previews of links show in full.
WIDTH_DEFAULT: Final = 1200
HEIGHT_DEFAULT: Final = 630
WIDTH_MINIMUM: Final = 320
HEIGHT_MINIMUM: Final = 240
WIDTH_MAXIMUM: Final = 2400
HEIGHT_MAXIMUM: Final = 2400
SCALE_MAXIMUM: Final = 3
# Of a PNG: 32 MB while it is drawn.
PIXELS_MAXIMUM: Final = 8_000_000


class TooManyPixels(Exception):
    """A PNG larger than PIXELS_MAXIMUM; the message has the limit."""


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """How a chart is drawn. width, height: CSS pixels; scale: pixels of a PNG for each, without effect on an SVG.

    height: None for as much as the rows of a matrix or a comparison need, at a smaller scale if that is too large, and
    HEIGHT_DEFAULT for other charts. title: "" for the title of the page. address: last line of the footer; "" without.
    has_incidents: whether marks of changes name their incidents. Times are in Django's current time zone.
    """

    format: ImageFormat = "svg"
    width: int = WIDTH_DEFAULT
    height: int | None = None
    scale: int = 1
    theme: Theme = "light"
    title: str = ""
    address: str = ""
    has_incidents: bool = True


def check_pixels(options: ImageOptions, height: int) -> None:
    """Raise TooManyPixels for a PNG that is too large; height: as drawn."""
    pixels = options.width * height * options.scale**2
    if options.format == "png" and pixels > PIXELS_MAXIMUM:
        raise TooManyPixels(
            f"{options.width} × {height} at scale {options.scale} are {format_integer(pixels)} pixels;"
            f" at most {format_integer(PIXELS_MAXIMUM)} are drawn"
        )


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
    """How a line and its marks are drawn.

    marker, hatch: of matplotlib; hatch: of bars, a second cue beside the color; dash: lengths in px, () for a line.
    """

    color: str
    marker: str
    dash: tuple[int, ...] = ()
    hatch: str = ""


# Hatches as on the page (static/js/charts/scaling/marks.js); matplotlib has none for the angle of pink.
STYLES: Final = (
    LineStyle(SERIES_COLORS["blue"], "o"),
    LineStyle(SERIES_COLORS["orange"], "^", (6, 3), "///"),
    LineStyle(SERIES_COLORS["green"], "s", (2, 2), "---"),
    LineStyle(SERIES_COLORS["purple"], "D", (8, 3, 2, 3), "xxx"),
    LineStyle(SERIES_COLORS["sky"], "o", (4, 2), "|||"),
    LineStyle(SERIES_COLORS["brown"], "^", (), "\\\\\\"),
    LineStyle(SERIES_COLORS["gray"], "s", (10, 4), "+++"),
    LineStyle(SERIES_COLORS["pink"], "D", (3, 5), "..."),
)
# Of lines after the eighth, whose colors repeat.
_LATE_MARKERS: Final = ("*", "X", "P", "p")
# Colors of environment values; gray for unknown and further values.
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
            style = replace(style, marker=marker)
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


# Of an inch: a point of matplotlib is then a CSS pixel.
_DPI: Final = 72
MARGIN: Final = 16
_TITLE_PX: Final = 15
TEXT_PX: Final = 11
_TITLE_LINE: Final = 20
LINE: Final = 15
_TITLE_LINES: Final = 2
# The footer takes at most this share of the height.
_FOOT_SHARE: Final = 0.2
# Requests that wait for an image that is drawn; each occupies a thread and a connection.
WAITING_MAXIMUM: Final = 8
_DRAWING: Final = threading.Lock()
_WAITING: Final = threading.BoundedSemaphore(WAITING_MAXIMUM)
# Not allowed in XML, escaped or not; and line breaks.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff\ud800-\udfff]+")
_MISSING_GLYPH: Final = "□"
_STYLE_ELEMENT: Final = re.compile(rb"<style[^>]*>[^<]*</style>\s*")
_STYLE: Final = re.compile(rb'style="([^"]*)"')
_PT_SIZE: Final = re.compile(rb'(<svg[^>]*? )width="([\d.]+)pt" height="([\d.]+)pt"')


class TooManyDrawings(Exception):
    """As many requests as may wait already wait for images."""


@dataclass(frozen=True, slots=True)
class ImageBox:
    """A part of an image, in CSS pixels from its upper left corner."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Return the right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Return the lower edge."""
        return self.top + self.height


class Canvas:
    """One image while it is drawn; places and sizes are CSS pixels from the upper left corner."""

    def __init__(self, options: ImageOptions, height: int) -> None:
        from matplotlib.figure import Figure

        self.options, self.height = options, height
        self.colors: ThemeColors = COLORS[options.theme]
        self.figure = Figure(
            figsize=(options.width / _DPI, height / _DPI), dpi=_DPI, facecolor=self.colors.paper
        )

    def write(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = TEXT_PX,
        color: str = "",
        weight: str = "normal",
        align: str = "left",
        middle: bool = False,
    ) -> None:
        """Write one line of text with its upper edge, or its middle, at y."""
        self.figure.text(
            x / self.options.width,
            1 - y / self.height,
            clean_text(text),
            fontsize=size,
            color=color or self.colors.ink,
            fontweight=weight,
            ha=align,
            va="center" if middle else "top",
        )

    def add_axes(self, box: ImageBox) -> Axes:
        """Return axes in a box, without frame, ticks and grid."""
        width, height = self.options.width, self.height
        axes = self.figure.add_axes(
            (box.left / width, 1 - box.bottom / height, box.width / width, box.height / height)
        )
        axes.set_facecolor("none")
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(
            length=0, labelsize=TEXT_PX, labelcolor=self.colors.muted, color=self.colors.field_line, pad=6
        )
        return axes

    def write_message(self, box: ImageBox, text: str) -> None:
        """Write text in the middle of a box that has nothing to show."""
        self.write(
            box.left + box.width / 2,
            box.top + box.height / 2,
            text,
            color=self.colors.muted,
            align="center",
            middle=True,
        )


def draw_image(
    options: ImageOptions,
    *,
    title: str,
    foot: Iterable[str],
    draw: Callable[[Canvas, ImageBox], None],
    body_height: float | None = None,
) -> bytes:
    """Return the image: title, what `draw` puts into its box, and the lines of the footer, which ends with the address.

    body_height: what the chart needs, where that depends on its rows. Equal arguments give equal bytes. One image is
    drawn at a time. Raises TooManyDrawings if WAITING_MAXIMUM requests wait already, and TooManyPixels.
    """
    with _take_turn():
        _prepare()
        image = _draw(options, title=title, foot=foot, draw=draw, body_height=body_height)
        # A figure refers to itself, and the web process collects garbage rarely: 100 images would hold 70 MiB.
        gc.collect(0)
        return image


def _draw(
    options: ImageOptions,
    *,
    title: str,
    foot: Iterable[str],
    draw: Callable[[Canvas, ImageBox], None],
    body_height: float | None,
) -> bytes:
    width = options.width - 2 * MARGIN
    head = wrap_text(options.title or title, width, size=_TITLE_PX, weight="bold", most=_TITLE_LINES)
    below = [line for each in (*foot, options.address) if each for line in wrap_text(each, width)]
    top = MARGIN + len(head) * _TITLE_LINE + 6
    height = options.height or HEIGHT_DEFAULT
    if options.height is None and body_height is not None:
        needed = top + body_height + 8 + len(below) * LINE + MARGIN
        height = round(min(max(needed, HEIGHT_MINIMUM), HEIGHT_MAXIMUM))
        most = math.isqrt(PIXELS_MAXIMUM // (options.width * height))
        options = replace(options, scale=max(1, min(options.scale, most)))
    check_pixels(options, height)
    canvas = Canvas(options, height)
    for place, line in enumerate(head):
        canvas.write(MARGIN, MARGIN + place * _TITLE_LINE, line, size=_TITLE_PX, weight="bold")
    below = below[: int(height * _FOOT_SHARE / LINE)]
    bottom = height - MARGIN - len(below) * LINE
    for place, line in enumerate(below):
        canvas.write(MARGIN, bottom + 4 + place * LINE, line, color=canvas.colors.muted)
    draw(canvas, ImageBox(MARGIN, top, width, bottom - 4 - top))
    return _write(canvas)


@contextmanager
def _take_turn() -> Iterator[None]:
    if not _DRAWING.acquire(blocking=False):
        if not _WAITING.acquire(blocking=False):
            raise TooManyDrawings
        try:
            _DRAWING.acquire()
        finally:
            _WAITING.release()
    try:
        yield
    finally:
        _DRAWING.release()


@cache
def _prepare() -> None:
    """Set matplotlib up for this process: fonts that it ships, no formulas in texts, text as text in SVG."""
    # Without a home directory it caches its list of fonts in /tmp, and warns of that in each process.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib
    from matplotlib import font_manager

    matplotlib.rcdefaults()
    matplotlib.rcParams.update(
        {
            "font.family": "sans-serif",
            # Verdana has the widths of DejaVu Sans where an SVG is shown without it.
            "font.sans-serif": ["DejaVu Sans", "Verdana", "Geneva", "sans-serif"],
            "text.parse_math": False,
            "axes.unicode_minus": True,
            "svg.fonttype": "none",
            # Ids in the SVG are a hash of what they name, and not random.
            "svg.hashsalt": "benchapp",
            "path.simplify": True,
        }
    )
    # Fonts of the machine would make the same chart another image on another machine.
    shipped = str(matplotlib.get_data_path())
    font_manager.fontManager.ttflist = [
        entry for entry in font_manager.fontManager.ttflist if entry.fname.startswith(shipped)
    ]


def _write(canvas: Canvas) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    target = io.BytesIO()
    if canvas.options.format == "png":
        canvas.figure.set_dpi(_DPI * canvas.options.scale)
        FigureCanvasAgg(canvas.figure).print_png(target, metadata={"Software": None})
        return target.getvalue()
    metadata: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}
    FigureCanvasSVG(canvas.figure).print_svg(target, metadata=metadata)
    return _unstyle(target.getvalue())


def _unstyle(svg: bytes) -> bytes:
    """Return an SVG in pixels whose styles are attributes: a content security policy forbids inline styles."""
    root = rb'\1stroke-linejoin="round" stroke-linecap="butt" width="\2" height="\3"'
    svg = _PT_SIZE.sub(root, _STYLE_ELEMENT.sub(b"", svg), count=1)
    return _STYLE.sub(lambda found: b" ".join(_list_attributes(found[1])), svg)


def _list_attributes(style: bytes) -> Iterator[bytes]:
    for declaration in style.split(b";"):
        name, colon, value = declaration.partition(b":")
        if colon:
            yield b'%s="%s"' % (name.strip(), value.strip())


def clean_text(text: str) -> str:
    """Return text without control characters, and with □ for those that the font lacks."""
    font = _find_font("normal")
    return "".join(
        sign if font.get_char_index(ord(sign)) else _MISSING_GLYPH for sign in _CONTROL.sub(" ", text)
    )


def measure_text(text: str, *, size: float = TEXT_PX, weight: str = "normal") -> float:
    """Return the width of a line in pixels."""
    from matplotlib.font_manager import FontProperties

    properties = FontProperties(family="sans-serif", size=size, weight=weight)
    return float(_find_renderer().get_text_width_height_descent(text, properties, ismath=False)[0])


def shorten_text(text: str, width: float, *, size: float = TEXT_PX, weight: str = "normal") -> str:
    """Return text cut with an ellipsis to a width in pixels."""
    text = clean_text(text)
    if measure_text(text, size=size, weight=weight) <= width:
        return text
    kept = _count_fitting(text, lambda part: measure_text(f"{part}…", size=size, weight=weight) <= width)
    return f"{text[:kept].rstrip()}…"


def wrap_text(
    text: str, width: float, *, size: float = TEXT_PX, weight: str = "normal", most: int = 3
) -> list[str]:
    """Return text as at most `most` lines of a width in pixels; what does not fit is cut with an ellipsis.

    A word that is wider than a line, as an address, continues on the next one.
    """

    def is_narrow(part: Sequence[str]) -> bool:
        return measure_text(" ".join(part), size=size, weight=weight) <= width

    lines: list[str] = []
    words = clean_text(text).split()
    while words and len(lines) < most - 1:
        count = _count_fitting(words, is_narrow)
        if count == 0:
            fitting = max(_count_fitting(words[0], lambda part: is_narrow(["".join(part)])), 1)
            words[:1] = filter(None, (words[0][:fitting], words[0][fitting:]))
            count = 1
        lines.append(" ".join(words[:count]))
        words = words[count:]
    return [*lines, shorten_text(" ".join(words), width, size=size, weight=weight)] if words else lines


def _count_fitting(whole: Sequence[str], fits: Callable[[Sequence[str]], bool]) -> int:
    """Return how many of the first items fit, by few trials: a long text takes milliseconds to measure."""
    low, high = 0, 8
    while high < len(whole) and fits(whole[:high]):
        low, high = high, 2 * high
    high = min(high, len(whole))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(whole[:middle]) else (low, middle - 1)
    return low


@cache
def _find_renderer() -> Any:
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(1, 1, _DPI)


@cache
def _find_font(weight: str) -> Any:
    from matplotlib import font_manager

    _prepare()
    properties = font_manager.FontProperties(family="DejaVu Sans", weight=weight)
    return font_manager.get_font(font_manager.findfont(properties))
