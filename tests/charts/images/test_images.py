"""Chart images: colors of the pages, axes, texts, bounds."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchapp.charts.images import frame
from benchapp.charts.images.axes import make_value_axis, place_labels, spread_apart
from benchapp.charts.images.frame import (
    COLORS,
    SERIES_COLORS,
    STYLES,
    ImageOptions,
    TooManyPixels,
    assign_styles,
    draw_image,
    measure_text,
    shorten_text,
    wrap_text,
)

TOKENS = (Path(__file__).parents[3] / "static/css/site/tokens.css").read_text()


def read_token(name, theme):
    """Return the color of a CSS variable in a theme."""
    value = re.search(rf"--{name}: ([^;]+);", TOKENS)[1]
    pair = re.findall(r"#[0-9a-f]{6}", value)
    return pair[0 if theme == "light" or len(pair) == 1 else 1]


@pytest.mark.parametrize("theme", COLORS)
def test_colors_are_those_of_the_pages(theme):
    names = {"regression": "regression-text", "improvement": "improvement-text", "field_line": "field-line"}
    own = {name: getattr(COLORS[theme], name) for name in COLORS[theme].__slots__}

    assert own == {name: read_token(names.get(name, name), theme) for name in own}
    assert {name: read_token(f"series-{name}", theme) for name in SERIES_COLORS} == SERIES_COLORS


def test_patterns_have_fixed_styles_and_others_the_next_free_one():
    lines = [("randread", "read"), ("randread", "read"), ("write", "write"), ("read", "read")]

    assert assign_styles(lines) == [STYLES[2], STYLES[3], STYLES[1], STYLES[0]]
    assert len(set(assign_styles(lines * 3))) == 12


@pytest.mark.parametrize(
    ("values", "unit", "options", "ticks", "name"),
    [
        (
            [10_000.0, 33_000.0],
            "operations/s",
            {},
            ["0", "10\u202f000", "20\u202f000", "30\u202f000", "40\u202f000"],
            "IOPS",
        ),
        (
            [1.0e6, 1.02e6],
            "ns",
            {},
            ["0.99", "1", "1.01", "1.02", "1.03"],
            "p99 latency, ms (does not start at 0)",
        ),
        (
            [1.0e6, 1.02e6],
            "ns",
            {"has_zero": True},
            ["0", "0.25", "0.5", "0.75", "1", "1.25"],
            "p99 latency, ms",
        ),
        (
            [2e6, 9e8],
            "bytes/s",
            {"is_log": True},
            ["1", "2", "5", "10", "20", "50", "100", "200", "500", "1\u202f000"],
            "Bandwidth, MB/s (log)",
        ),
        ([], "ns", {}, ["0", "0.2", "0.4", "0.6", "0.8", "1"], "p99 latency, ns"),
        (
            [0.0, float("nan")],
            "ns",
            {"is_log": True},
            ["0", "0.2", "0.4", "0.6", "0.8", "1"],
            "p99 latency, ns",
        ),
    ],
)
def test_value_axis_has_round_ticks_in_one_unit(values, unit, options, ticks, name):
    axis = make_value_axis(values, unit, **options)

    label = {"operations/s": "IOPS", "ns": "p99 latency", "bytes/s": "Bandwidth"}[unit]
    assert ([axis.format_tick(value) for value in axis.ticks], axis.name(label)) == (ticks, name)


def test_labels_are_moved_apart_and_stay_inside():
    assert spread_apart([50.0, 51.0, 99.0], top=0, bottom=100, height=10) == [50.0, 60.0, 99.0]
    assert spread_apart([99.0, 98.0], top=0, bottom=100, height=10) == [100.0, 90.0]


@pytest.mark.parametrize(
    ("lines", "places"),
    [
        ((100, 5), [(91.5, False), (13.5, False)]),
        ((105, 100), [(113.5, False), (91.5, False)]),
        ((100, 103, 106), [(78.5, True), (91.5, True), (114.5, False)]),
        ((190, 195), [(168.5, True), (181.5, True)]),
    ],
)
def test_labels_of_near_lines_cover_neither_each_other_nor_the_lines(lines, places):
    """The same places as in tests/js/charts.test.js."""
    found = place_labels(lines, top=0, bottom=200)

    assert [(each.y, each.is_apart) for each in found] == places


def test_text_is_wrapped_and_cut_to_a_width():
    lines = wrap_text("one two three four five " * 10, 200, most=2)

    assert (len(lines), lines[1][-1]) == (2, "…")
    assert all(measure_text(line) <= 200 for line in lines)
    assert "".join(wrap_text("x" * 30, 100)) == "x" * 30
    assert wrap_text("x" * 300, 100)[-1].endswith("…")
    assert shorten_text("a\x00b\n<c>", 500) == "a b <c>"


def test_lines_are_wrapped_with_few_measurements(monkeypatch):
    measured = []

    def measure(text, **options):
        measured.append(text)
        return measure_text(text, **options)

    monkeypatch.setattr(frame, "measure_text", measure)

    lines = wrap_text("of 3 runs " * 40, 500, most=3)

    assert [len(line.split()) for line in lines[:2]] == [27, 27]
    assert len(measured) <= 30


def test_an_image_has_the_height_that_its_rows_need_and_a_bounded_number_of_pixels():
    def draw(body_height, **options):
        image = draw_image(
            ImageOptions(**options),
            title="T",
            foot=["a"],
            draw=lambda canvas, box: canvas.write_message(box, "nothing"),
            body_height=body_height,
        )
        return float(ElementTree.fromstring(image).attrib["height"])

    heights = [draw(None), draw(400.0), draw(10.0), draw(9000.0), draw(400.0, height=700)]

    assert heights == [630, 481, 240, 2400, 700]
    with pytest.raises(TooManyPixels, match="8\u202f000\u202f000"):
        draw_image(
            ImageOptions(format="png", width=2400, scale=3), title="T", foot=[], draw=lambda canvas, box: None
        )
