"""One time range on Scaling, Matrix, the series grid and the API: the levels that were current at its end."""

import csv
import re
from datetime import datetime, timedelta

import pytest
from django.test import Client

from benchapp.catalog.metrics import CATALOG, format_value
from benchapp.charts.read import matrix, scaling, series_grid
from benchapp.charts.texts import levels
from benchapp.judge import judge_due
from benchapp.models import Measurement, Series
from benchapp.series.read.selected_levels import LevelRange, make_level_range, read_levels_in
from tests.detection.write import judging
from tests.factories import NOON, calculate_levels, make_host, note_measurements
from tests.pages import Page
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

START = NOON - timedelta(days=60)
DAY = timedelta(days=1)
# A level of 24 runs, and one of 20 that began on day 24.
VALUES = judging.make_level(1000.0, 24) + judging.make_level(780.0, 20)


@shared_rows
def series() -> Series:
    """Make a series with a change on day 24, and its runs until day 43."""
    (found,) = judging.make_cells(
        make_host("db-01"), [VALUES], targets=[{"volume_count": 4}], start_at=START, step=DAY
    )
    judge_due()
    return found


def write(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def read_numbers(viewer: Client, **query: str) -> set[tuple[float, float, int]]:
    """Return median, p10 and number of runs as each answer has them; of the series alone."""
    cells = viewer.get("/api/v1/matrix", query).json()["cells"]
    points = viewer.get("/api/v1/scaling", query).json()["cells"]
    rows = viewer.get("/api/v1/series", query).json()["series"]
    return {
        *((cell["median"], cell["p10"], cell["n"]) for cell in cells if cell["median"]),
        *((point["median"], point["p10"], point["n"]) for point in points if point["median"]),
        *((row["level_median"], row["level_p10"], row["level_n"]) for row in rows if row["level_median"]),
    }


@pytest.mark.parametrize(("days", "runs"), [(10, 10), (24, 24), (30, 6), (43, 19)])
def test_levels_as_of_a_day_are_those_without_the_later_runs(
    viewer: Client, series: Series, days: int, runs: int
) -> None:
    until = START + days * DAY

    shown = read_numbers(viewer, to=write(until))

    Measurement.objects.filter(started_at__gte=until).delete()
    note_measurements(series)
    calculate_levels()
    assert shown == read_numbers(viewer)
    assert {n for _, _, n in shown} == {runs}


def test_pages_show_the_level_as_of_a_day_and_name_it(viewer: Client, series: Series) -> None:
    query = {"to": write(START + 10 * DAY), "from": write(START)}

    pages = [Page(viewer.get(address, query)) for address in ("/scaling/", "/matrix/", "/series/")]

    for page in pages:
        assert (
            "Time range: levels as of 2 Oct 2026 12:00 UTC; series with runs since 22 Sep 2026" in page.words
        )
        assert "open regression" not in page.words
    level = read_levels_in([series.pk], CATALOG["iops"], span=LevelRange(to_at=START + 10 * DAY))[series.pk]
    value = format_value(level.median, "operations/s")
    assert level.median == pytest.approx(1000.0, rel=0.01)
    assert [value in page.words for page in pages] == [True, True, True]


def test_list_is_shown_while_detection_stores_the_first_levels(
    viewer: Client, series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series_grid, "read_levels", lambda ids, metrics: {each: {"iops": ()} for each in ids})

    page = viewer.get("/series/", {"to": write(START + 10 * DAY)})

    assert (page.status_code, "db-01" in page.text) == (200, True)


def test_csv_and_images_name_the_range(viewer: Client, series: Series) -> None:
    query = {"to": write(START + 10 * DAY)}

    for name in ("scaling", "matrix", "series"):
        text = viewer.get(f"/api/v1/{name}", {**query, "format": "csv"}).content.decode()
        (row,) = csv.DictReader(text.splitlines())
        assert row["range"] == "levels as of 2 Oct 2026 12:00 UTC"
    for name in ("scaling", "matrix"):
        image = viewer.get(f"/api/v1/charts/{name}.svg", query).content.decode()
        assert "levels as of 2 Oct 2026 12:00 UTC" in image


def test_series_without_a_run_in_the_range_do_not_count(viewer: Client, series: Series) -> None:
    other = judging.make_cells(
        make_host("db-02"), [judging.make_level(500.0, 20)], targets=[{"volume_count": 2}], start_at=START
    )
    judge_due()
    since = write(START + 30 * DAY)

    everything, recent = (
        [row["id"] for row in viewer.get("/api/v1/series", query).json()["series"]]
        for query in ({}, {"from": since})
    )

    assert sorted(everything) == sorted([series.pk, other[0].pk])
    assert recent == [series.pk]
    assert {round(median) for median, _, _ in read_numbers(viewer, **{"from": since})} == {781}
    counts = viewer.get("/api/v1/matrix", {"from": since, "x": "volume_count"}).json()["counts"]
    assert (counts["measured"], counts["missing"]) == (1, 0)


def test_range_between_two_runs_of_a_level_has_no_value(viewer: Client, series: Series) -> None:
    between = START + 5 * DAY + timedelta(hours=1)
    span = LevelRange(between, between + timedelta(hours=2))

    assert read_levels_in([series.pk], CATALOG["iops"], span=span) == {}
    assert read_numbers(viewer, **{"from": write(span.from_at), "to": write(span.to_at)}) == set()


def test_limit_of_an_earlier_period_is_stated(
    viewer: Client, series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    judging.make_cells(
        make_host("db-02"), [judging.make_level(500.0, 20)], targets=[{"volume_count": 4}], start_at=START
    )
    judge_due()
    for module in (matrix, scaling, series_grid, levels):
        monkeypatch.setattr(module, "PAST_SERIES_MAXIMUM", 1)
    asked = {"to": write(START + 10 * DAY)}

    past = [
        Page(viewer.get("/matrix/", {**asked, "q": "host:*", "x": "volume_count"})),
        Page(viewer.get("/series/", {**asked, "sort": "spread"})),
    ]
    others = [
        Page(viewer.get(address))
        for address in (
            "/matrix/?q=host:*&x=volume_count",
            "/series/?sort=spread",
            f"/series/?to={asked['to']}",
        )
    ]

    compared, sorted_ = (
        "Only the most recent 1 series are compared in combinations with several for an earlier period.",
        "Only the most recent 1 series are sorted by spread for an earlier period.",
    )
    assert [compared in past[0].words, sorted_ in past[1].words] == [True, True]
    assert not any("Only the most recent" in page.words for page in others)
    answers = [
        viewer.get("/api/v1/matrix", {**query, "q": "host:*", "x": "volume_count"}).json()
        for query in (asked, {})
    ]
    assert [answer["is_thinned"] for answer in answers] == [True, False]
    answers = [
        viewer.get("/api/v1/scaling", {**query, "x": "volume_count", "color": "host"}).json()
        for query in (asked, {})
    ]
    assert [(answer["is_thinned"], answer["is_cut"]) for answer in answers] == [(True, False), (False, False)]


def test_end_in_the_future_is_now(viewer: Client, series: Series) -> None:
    future = write(NOON + 3650 * DAY)

    assert make_level_range(None, NOON + 3650 * DAY) == LevelRange()
    assert viewer.get("/api/v1/matrix", {"to": future}).json() == viewer.get("/api/v1/matrix").json()


@pytest.mark.parametrize("address", ["/scaling/", "/matrix/", "/series/"])
def test_control_keeps_the_range_and_reports_errors(viewer: Client, series: Series, address: str) -> None:
    page = Page(viewer.get(address, {"from": "-365d"}))
    wrong = viewer.get(address, {"from": "soon"})
    swapped = viewer.get(address, {"from": "2026-10-02", "to": "2026-10-01"})

    fields = {
        named["name"]: named.get("value") for tag, named in page.tags if tag == "input" and "name" in named
    }
    chosen = [named["href"] for tag, named in page.tags if tag == "a" and "aria-current" in named]
    assert fields["from"] == "-365d"
    assert any("from=-365d" in address for address in chosen)
    assert (wrong.status_code, swapped.status_code) == (400, 400)
    assert "From is not a valid date" in Page(wrong).words
    assert "From is after To" in Page(swapped).words


@pytest.mark.parametrize("q", ["", "host:db-01"])
@pytest.mark.parametrize("address", ["/scaling/", "/matrix/", "/series/", "/runs/", "/history/", "series"])
def test_range_without_runs_is_named_and_can_be_removed(
    viewer: Client, series: Series, address: str, q: str
) -> None:
    path = f"/series/{series.pk}/" if address == "series" else address
    query = {"from": "2019-01-01", "to": "2019-01-31"} | ({"q": q} if q else {})

    page = Page(viewer.get(path, query))

    words = "1 Jan 2019 00:00 UTC"
    assert re.search(
        rf"No (series|runs) in this time range: [^.]*{words}[^.]*\. Remove the time range", page.words
    )
    assert (f"?q={q}" if q else "?") in page.links
    assert "No matching" not in page.words


@pytest.mark.parametrize("name", ["scaling", "matrix"])
def test_api_refuses_an_empty_range_and_a_past_of_facts_of_runs(viewer: Client, name: str) -> None:
    swapped = viewer.get(f"/api/v1/{name}", {"from": "2026-10-02", "to": "2026-10-01"})
    facts = viewer.get(f"/api/v1/{name}", {"to": "2026-10-02", "q": "kernel:6.1.0"})

    assert (swapped.status_code, swapped.json()["pointer"]) == (400, "from")
    assert (facts.status_code, facts.json()["pointer"]) == (400, "to")


def test_day_of_an_earlier_address_is_the_end(viewer: Client, series: Series) -> None:
    day = (START + 10 * DAY).date().isoformat()

    old = Page(viewer.get("/scaling/", {"as_of": day}))

    assert "levels as of 3 Oct 2026 00:00 UTC" in old.words
    assert viewer.get("/api/v1/scaling", {"as_of": day, "to": day}).status_code == 400
