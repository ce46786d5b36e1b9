"""The series as a grid of sparklines, and the same as a table."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.catalog.grammar import Filter
from benchapp.charts.read import series_grid
from benchapp.charts.read.series_grid import read_series_grid
from benchapp.framework.pages.series_marks import make_level_sparkline
from benchapp.models import Series
from tests.factories import (
    NOON,
    add_series,
    calculate_levels,
    make_change,
    make_host,
    make_incident,
    make_target,
    make_workload,
)
from tests.pages import Page
from tests.shared_rows import shared_rows
from tests.visitors import sign_in

STEADY = [1000.0, 1010.0, 990.0, 1000.0, 1005.0, 995.0]
HOUR = timedelta(hours=1)


def add_changed(name: str, *, after: float, is_open: bool = True) -> Series:
    """Make a series that changed from 1000 to `after`, with an incident if is_open."""
    series = add_series([1000.0] * 12 + [after] * 12, host=make_host(name))
    change = make_change(series, at=NOON + 12 * HOUR, after=after)
    if is_open:
        make_incident(changes=[change])
    calculate_levels([series.pk])
    return series


def list_names(page: Page) -> list[str]:
    """Return the series in the order of the page."""
    labels = [str(tag.get("aria-label")) for _, tag in page.tags if tag.get("name") == "selected"]
    return [re.sub(r"Select (\S+?),? .*|Select (\S+)", r"\1\2", label) for label in labels]


def test_card_shows_level_change_spread_and_history(viewer: Client) -> None:
    series = add_changed("db-01", after=800.0)

    page = Page(viewer.get(reverse("series_list")))

    assert "1 series, 1 with an open regression" in page.words
    assert "▼ −20 % since 22 Nov" in page.words
    assert "800 IOPS" in page.words
    assert "was 1\u202f000 IOPS until 21 Nov 2026" in {tag.get("title") for _, tag in page.tags}
    assert f"/series/{series.pk}/?metric=iops" in page.links
    (line, earlier, current) = [str(tag["d"]) for name, tag in page.tags if name == "path"]
    # 24 values at the right edge; the lower level begins at the thirteenth.
    assert line.startswith("M145 3l4 0 4 0")
    assert (earlier, current) == ("M143 3h48", "M191 45h48")


def test_series_without_a_change_are_marked_as_unchanged(viewer: Client) -> None:
    add_series(STEADY, host=make_host("db-01"))

    assert "1 series, none with an open regression" in Page(viewer.get(reverse("series_list"))).words


@shared_rows
def three() -> Client:
    """Make series of two hosts, layouts and workloads; give a client of a viewer."""
    one, other = make_host("db-01"), make_host("db-02")
    few, many = (make_target(volume_type="gp3", volume_count=count) for count in (2, 16))
    add_series(STEADY, host=one, target=many)
    add_series(STEADY, host=one, target=few, workload=make_workload(block_size_bytes=65536))
    add_series(STEADY, host=other, target=many)
    return sign_in()


@pytest.mark.parametrize(
    ("group", "labels"),
    [
        ("", ["4k random read 2 series", "64k random read 1 series"]),
        ("pattern", ["4k random read 2 series", "64k random read 1 series"]),
        ("layout", ["2 × gp3 1 series", "16 × gp3 2 series"]),
        ("host", ["db-01 2 series", "db-02 1 series"]),
    ],
)
@pytest.mark.parametrize("view", ["grid", "table"])
def test_series_are_grouped(group: str, labels: list[str], view: str, three: Client) -> None:
    words = Page(three.get(reverse("series_list"), {"group": group, "view": view})).words

    assert sorted(labels, key=words.index) == labels


def test_series_without_groups_are_one_list(viewer: Client) -> None:
    add_series(STEADY, host=make_host("db-01"))

    page = Page(viewer.get(reverse("series_list"), {"group": "none"}))

    assert "4k random read 1 series" not in page.words
    assert not page.has("h2")


@shared_rows
def five() -> Client:
    """Make series with changes, spreads and ages that differ; give a client of a viewer."""
    add_series([1000.0, 1100.0] * 3, host=make_host("a"))
    for name, after in (("d", 1500.0), ("c", 900.0), ("b", 700.0)):
        add_changed(name, after=after)
    add_series([1000.0, 1300.0] * 3, host=make_host("e"), start_at=NOON + 48 * HOUR)
    return sign_in()


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        # Open regressions by size, improvements, then the most recent.
        ("change", ["b", "c", "d", "e", "a"]),
        ("newest", ["e", "b", "c", "d", "a"]),
        ("age", ["a", "b", "c", "d", "e"]),
        ("spread", ["e", "a", "b", "c", "d"]),
        ("name", ["a", "b", "c", "d", "e"]),
    ],
)
@pytest.mark.parametrize("view", ["grid", "table"])
def test_series_are_sorted(sort: str, names: list[str], view: str, five: Client) -> None:
    page = Page(five.get(reverse("series_list"), {"sort": sort, "view": view}))

    assert list_names(page) == names


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        # "b" and "c" have open regressions, "d" an improvement; "e" ran last. Groups without a change are in the order
        # of their names.
        ("change", ["b", "c", "d", "a", "e"]),
        ("newest", ["e", "b", "c", "d", "a"]),
        ("age", ["a", "b", "c", "d", "e"]),
        ("spread", ["e", "a", "b", "c", "d"]),
        ("name", ["a", "b", "c", "d", "e"]),
    ],
)
def test_groups_are_in_the_order_of_their_first_series(sort: str, names: list[str], five: Client) -> None:
    page = Page(five.get(reverse("series_list"), {"sort": sort, "group": "host"}))

    assert list_names(page) == names


def test_recovered_changes_come_before_series_without_one(viewer: Client) -> None:
    for name, after in (("better", 1300.0), ("worse", 800.0)):
        series = add_series([1000.0] * 12, host=make_host(name))
        make_incident(changes=[make_change(series, after=after, evidence={"is_back": True})])
    add_series(STEADY, host=make_host("steady"), start_at=NOON + 48 * HOUR)

    page = Page(viewer.get(reverse("series_list")))

    assert list_names(page) == ["worse", "better", "steady"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"group": "color"}, "'color' is not a valid group. Valid: pattern, layout, host, none."),
        ({"sort": "size"}, "'size' is not a valid sort. Valid: change, newest, age, spread, name."),
        ({"view": "tree"}, "'tree' is not a valid view. Valid: grid, table."),
        ({"metric": "speed"}, "'speed' is not a valid metric. Available: iops, "),
        ({"page": "0"}, "'0' is not a valid page number."),
        ({"page": "x"}, "'x' is not a valid page number."),
    ],
)
def test_invalid_parameter_is_an_error(query: dict[str, str], words: str, viewer: Client) -> None:
    add_series(STEADY, host=make_host("db-01"))

    response = viewer.get(reverse("series_list"), query)

    assert response.status_code == 400
    assert words in Page(response).words
    assert "1\u202f000 IOPS" not in Page(response).words


def test_address_keeps_view_filter_and_order(viewer: Client) -> None:
    add_series(STEADY, host=make_host("db-01"))

    page = Page(viewer.get(reverse("series_list"), {"q": "host:db-*", "view": "table", "sort": "age"}))

    assert "?q=host%3Adb-%2A&sort=age" in page.links
    assert "?q=host%3Adb-%2A&view=table&sort=spread" in page.links
    hidden = {(tag.get("name"), tag.get("value")) for _, tag in page.tags if tag.get("type") == "hidden"}
    assert ("view", "table") in hidden


def test_pages_follow_each_other(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_grid, "SERIES_ON_A_PAGE", 2)
    for name in ("a", "b", "c"):
        add_series(STEADY, host=make_host(name))
    query = {"sort": "name", "group": "none"}

    first = Page(viewer.get(reverse("series_list"), query))
    second = Page(viewer.get(reverse("series_list"), {**query, "page": "2"}))
    behind = Page(viewer.get(reverse("series_list"), {**query, "page": "9"}))

    assert (list_names(first), list_names(second), list_names(behind)) == (["a", "b"], ["c"], ["c"])
    assert "Page 1 of 2" in first.words
    assert "?sort=name&group=none&page=2" in first.links
    assert "?sort=name&group=none" in second.links


def test_group_that_continues_on_another_page_says_so(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series_grid, "SERIES_ON_A_PAGE", 2)
    for name in ("a", "b", "c"):
        add_series(STEADY, host=make_host(name))

    assert "4k random read 2 of 3 series" in Page(viewer.get(reverse("series_list"))).words


def test_metric_is_selectable_and_a_series_without_it_says_so(viewer: Client) -> None:
    add_series([2_000_000.0] * 3, host=make_host("db-01"), metric="latency_p99_ns")
    add_series([1000.0] * 3, host=make_host("db-02"))

    page = Page(viewer.get(reverse("series_list"), {"metric": "latency_p99_ns"}))

    assert "2.00 ms" in page.words
    assert "no values" in page.words


def test_series_that_are_timed_as_a_whole_show_their_time(viewer: Client) -> None:
    add_series([12.0] * 3, host=make_host("db-01"), metric="elapsed_s")

    assert "12.0 s" in Page(viewer.get(reverse("series_list"))).words


@pytest.mark.django_db
def test_failed_and_excluded_runs_are_not_in_the_line() -> None:
    series = add_series([1000.0, 5.0, 7.0, 1000.0], host=make_host("db-01"))
    _, failed, excluded, _ = series.measurements.order_by("started_at")
    series.measurements.filter(pk=failed.pk).update(error=5)
    series.measurements.filter(pk=excluded.pk).update(is_excluded=True)
    calculate_levels([series.pk])

    ((part,),) = [read_series_grid(Filter(), metric=None).parts]

    assert part.series[0].values == (1000.0, 1000.0)
    assert part.series[0].steps == ((0, 2, 1000.0),)


@pytest.mark.django_db
def test_line_has_the_newest_sixty_values() -> None:
    add_series([float(number) for number in range(70)], host=make_host("db-01"))

    ((part,),) = [read_series_grid(Filter(), metric=None).parts]

    assert part.series[0].values == tuple(float(number) for number in range(10, 70))


def test_number_of_queries_does_not_grow(viewer: Client, django_assert_num_queries) -> None:
    for number in range(12):
        add_changed(f"db-{number:02}", after=800.0)

    for view in ("grid", "table"):
        with django_assert_num_queries(10):
            viewer.get(reverse("series_list"), {"view": view})


def test_list_without_series_shows_the_first_steps(viewer: Client) -> None:
    assert "No series" in Page(viewer.get(reverse("series_list"))).words


def test_filter_without_series_offers_to_clear_it(viewer: Client) -> None:
    add_series(STEADY)

    page = Page(viewer.get(reverse("series_list"), {"q": "host:nobody"}))

    assert "host:nobody matches no series." in page.words
    assert "/series/" in page.links


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], None),
        # One value is a dot at the right edge.
        ([5.0], "M237 24h0"),
        ([0.0, 0.0], "M233 24l4 0"),
        # A range below 10 % of the level does not fill the height.
        ([100.0, 101.0], "M233 26l4-4"),
        ([1.0, 2.0], "M233 45l4-42"),
    ],
)
def test_line_of_values(values: list[float], line: str | None) -> None:
    found = make_level_sparkline(values, [])

    assert (found and found["line"]) == line


def test_box_begins_with_the_first_value() -> None:
    boxes = [(make_level_sparkline(values, []) or {})["box"] for values in ([1.0], [1.0, 2.0], [1.0] * 60)]

    assert boxes == ["0 0 240 48", "230 0 10 48", "-2 0 242 48"]


def test_widest_line_fits() -> None:
    found = make_level_sparkline([1.0] * 60, [(0, 60, 1.0)])

    assert found is not None
    assert found["current"] == "M-1 24h240"


def test_group_without_values_is_one_line_and_its_series_are_folded(viewer: Client) -> None:
    add_series([1.0] * 3, host=make_host("db-01"))

    text = viewer.get("/series/", {"metric": "elapsed_s"}).text

    assert "No values of Elapsed time" in text
    assert text.index("<details><summary>Series") < text.index('class="series-card')
