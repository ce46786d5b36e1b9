"""What a chart image is asked to be: format, size, theme, title."""

from dataclasses import dataclass
from typing import Final, Literal

from benchapp.catalog.metrics import format_integer

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

    height: None for as much as the rows of a matrix or a comparison need, and HEIGHT_DEFAULT for other charts.
    title: "" for the title of the page. address: of the server, in the footer; "" without. has_incidents: whether marks
    of changes name their incidents. Times are in Django's current time zone.
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
