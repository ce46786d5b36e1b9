"""Series: the list, and the history of one metric."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.catalog.metrics import CATALOG
from benchapp.charts.texts.history import ShownLevel, describe_level
from benchapp.incidents.pages.texts import describe_phases
from benchapp.models import DetectionStatus, User
from benchapp.notices.write.thresholds import store_present_violations
from benchapp.series.read.levels import LevelChange, LevelRow
from tests.factories import (
    NOON,
    add_series,
    make_detection_result,
    make_host,
    make_measurement,
    make_run,
    make_target,
    make_workload,
)
from tests.pages import Page
from tests.received_notices import make_subscription

VALUES = [1000.0, 1010.0, 990.0, 1005.0, 1100.0]


def test_list_shows_the_freshest_first(viewer: Client) -> None:
    add_series([1.0], host=make_host("db-01"), start_at=NOON)
    add_series([33_415.0], host=make_host("db-02"), start_at=NOON + timedelta(days=1))

    page = Page(viewer.get(reverse("series_list"), {"view": "table"}))

    assert "2 series" in page.words
    assert page.words.index("22 Nov 2026") < page.words.index("21 Nov 2026")
    assert "33\u202f415" in page.words


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({}, 2),
        ({"host": "db-01"}, 1),
        ({"rw": "randwrite"}, 1),
        ({"direction": "write"}, 1),
        ({"text": "gp3"}, 1),
    ],
)
def test_filters_narrow_the_list(query: dict[str, str], count: int, viewer: Client) -> None:
    add_series([1.0], host=make_host("db-01"), target=make_target(volume_type="gp3"))
    add_series([1.0], host=make_host("db-02"), workload=make_workload(rw="randwrite"), direction="write")

    page = Page(viewer.get(reverse("series_list"), query))

    assert len([link for link in page.links if re.match(r"/series/\d", link)]) == count


def test_list_asks_as_much_for_many_series_as_for_one(viewer: Client, django_assert_num_queries) -> None:
    for number in range(5):
        add_series([1.0], host=make_host(f"db-{number}"))

    # Session, person, sample, marks, open regressions, series, their last points, levels, new incidents of the bar.
    # The sorted series and their values are read beside Django's cursor.
    with django_assert_num_queries(10):
        viewer.get(reverse("series_list"))


def test_history_says_the_answer_in_title_and_words(viewer: Client) -> None:
    series = add_series(VALUES, host=make_host("db-01"))

    words = Page(viewer.get(reverse("series", args=[series.pk]))).words

    assert "4k random read on db-01: median 1\u202f005 IOPS" in words
    assert "Current level: 1\u202f005 IOPS, median of 5 runs." in words
    assert "Last run: 1\u202f100 IOPS, 9.5 % above the median (better)." in words
    assert "Min 990 IOPS, max 1\u202f100 IOPS; higher is better." in words
    assert "(lat)" not in words


def test_page_contains_the_answer_of_the_api(viewer: Client) -> None:
    series = add_series(VALUES)
    page = Page(viewer.get(reverse("series", args=[series.pk])))
    (figure,) = [tag for name, tag in page.tags if name == "figure"]

    answer = viewer.get(figure["data-url"]).json()

    assert json.loads(page.scripts["history-document"]) == answer
    rows = [tag["data-value"] for name, tag in page.tags if name == "td" and "data-value" in tag]
    (level,) = answer["lines"][0]["levels"]["iops"]
    assert [point["iops"] for point in answer["points"]] == VALUES
    assert [float(value) for value in rows[::4]] == VALUES[::-1]
    assert {float(value) for value in rows[1::4]} == {level["median"]} == {1005.0}


def test_part_of_a_long_history_is_in_the_page_beside_the_whole(viewer: Client, monkeypatch) -> None:
    monkeypatch.setattr("benchapp.charts.read.history.POINTS_MAXIMUM", 3)
    series = add_series(VALUES, step=timedelta(days=1))
    part = {"from": "2026-11-22", "to": "2026-11-23"}
    url = reverse("series", args=[series.pk])

    page = Page(viewer.get(url, part))
    texts = Page(viewer.get(url, part, headers={"X-Texts-Only": "1"}))

    whole, detail = (json.loads(page.scripts[f"history-{name}"]) for name in ("document", "detail"))
    assert sum(bucket["n"] for bucket in whole["buckets"]) == len(VALUES)
    assert [point["iops"] for point in detail["points"]] == VALUES[1:3]
    assert "history-detail" not in texts.scripts
    # No cache gives a browser the page without its data.
    assert "X-Texts-Only" in viewer.get(url).headers["Vary"]


def test_single_id_leads_to_the_address_of_its_series(viewer: Client) -> None:
    series = add_series(VALUES)

    response = viewer.get(reverse("history"), {"series": series.pk, "from": "-7d", "metric": "iops"})

    assert response.status_code == 302
    assert response.url == f"/series/{series.pk}/?from=-7d&metric=iops"


def test_filter_that_only_one_series_matches_shows_its_runs(viewer: Client) -> None:
    add_series(VALUES, host=make_host("db-01"))
    add_series([5.0], host=make_host("db-02"))

    page = Page(viewer.get(reverse("history"), {"q": "host:db-01"}))

    assert "4k random read on db-01: median 1\u202f005 IOPS" in page.words
    assert len([link for link in page.links if re.match(r"/runs/\d", link)]) == len(VALUES)


def test_chart_is_told_where_its_numbers_are(viewer: Client) -> None:
    series = add_series(VALUES)

    page = Page(
        viewer.get(reverse("series", args=[series.pk]), {"metric": "latency_p99_ns", "from": "2026-11-01"})
    )

    (figure,) = [tag for name, tag in page.tags if name == "figure"]
    assert figure["data-url"] == (
        f"/api/v1/history?series={series.pk}&metrics=latency_p99_ns,iops,bandwidth_bytes_per_s&resolution=auto"
    )
    assert (figure["data-from"], figure["data-to"]) == ("2026-11-01T00:00:00Z", "")
    assert [tag["data-metric"] for name, tag in page.tags if "data-metric" in tag and name == "div"] == [
        "latency_p99_ns",
        "iops",
        "bandwidth_bytes_per_s",
    ]


def test_curl_line_asks_the_same_without_a_token_where_everybody_reads(viewer: Client, settings) -> None:
    series = add_series(VALUES)

    words = Page(viewer.get(reverse("series", args=[series.pk]))).words
    settings.PUBLIC_READ = True
    public = Page(viewer.get(reverse("series", args=[series.pk]))).words

    assert (
        'curl -fsS -H "Authorization: Bearer $BENCHAPP_TOKEN" '
        f"'http://testserver/api/v1/history?series={series.pk}&metrics=iops,bandwidth_bytes_per_s,latency_p99_ns'"
    ) in words
    assert "BENCHAPP_TOKEN" not in public


def test_span_keeps_table_and_words_to_its_days(viewer: Client) -> None:
    series = add_series(VALUES, step=timedelta(days=1))

    page = Page(viewer.get(reverse("series", args=[series.pk]), {"from": "2026-11-22", "to": "2026-11-23"}))

    assert "Selected time range: 2 runs" in page.words
    assert len([link for link in page.links if re.match(r"/runs/\d", link)]) == 2


def test_span_without_runs_says_what_to_do(viewer: Client) -> None:
    series = add_series(VALUES)

    words = Page(viewer.get(reverse("series", args=[series.pk]), {"from": "2030-01-01"})).words

    assert "no IOPS in this time range" in words
    assert "Extend it, or select another metric." in words


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"metric": "speed"}, "Unknown metric. Available: iops,"),
        ({"from": "x"}, "From is not a valid date"),
        ({"page": "x"}, "'x' is not a valid page number."),
    ],
)
def test_address_that_makes_no_sense_is_said_in_words(
    query: dict[str, str], words: str, viewer: Client
) -> None:
    series = add_series(VALUES)

    response = viewer.get(reverse("series", args=[series.pk]), query)

    assert response.status_code == 400
    assert words in (shown := Page(response).words)
    assert "median of 5 runs" not in shown


@pytest.mark.parametrize("metric", CATALOG)
def test_every_metric_has_its_page(metric: str, viewer: Client) -> None:
    series = add_series(VALUES, metric=metric)

    words = Page(viewer.get(reverse("series", args=[series.pk]), {"metric": metric})).words

    assert "median of 5 runs" in words


def test_failed_run_is_in_the_table_but_in_no_median(viewer: Client) -> None:
    series = add_series(VALUES)
    run = make_run(started_at=NOON + timedelta(days=1), error=5)
    make_measurement(run, series, error=5, iops=7.0)

    words = Page(viewer.get(reverse("series", args=[series.pk]))).words

    assert "failed: error 5" in words
    assert "Current level: 1\u202f005 IOPS, median of 5 runs." in words


def test_older_points_are_on_the_next_page(viewer: Client, monkeypatch) -> None:
    monkeypatch.setattr("benchapp.series.pages.history.RUNS_ON_A_PAGE", 2)
    series = add_series(VALUES)

    first = Page(viewer.get(reverse("series", args=[series.pk])))
    (older,) = [link for link in first.links if "page=" in link]
    second = Page(viewer.get(reverse("series", args=[series.pk]) + older))

    shown = [
        [float(tag["data-value"]) for name, tag in page.tags if name == "td" and tag.get("data-value")][::4]
        for page in (first, second)
    ]
    assert shown == [[1100.0, 1005.0], [990.0, 1010.0]]


def test_history_asks_as_much_for_many_points_as_for_few(viewer: Client, django_assert_num_queries) -> None:
    series = add_series([1000.0] * 30)

    # Session, person; count, series, last point, version; mark, twice; points, levels, changes, small steps,
    # variability, policies, planned events; zone, changes, siblings, hosts, depths and jobs, failures, detection,
    # latencies, requests.
    with django_assert_num_queries(26):
        viewer.get(reverse("series", args=[series.pk]))


def make_row(n: int, last: float, **fields: Any) -> LevelRow:
    """Make a level of 2 ms, from 1 to 3 ms."""
    return LevelRow(
        NOON, NOON + timedelta(hours=n), 1, n, 2.0e6, 1.0e6, 3.0e6, 1.0e6, 3.0e6, last, "lat", **fields
    )


@pytest.mark.parametrize(
    ("level", "sentence"),
    [
        (make_row(1, 2.0e6, change=None), "Last run: 2.00 ms."),
        (make_row(3, 3.0e6, change=None), "Too few runs for a spread."),
        (make_row(9, 2.5e6, change=None), "Last run: 2.50 ms, 25 % above the median (worse)."),
        (make_row(9, 2.0e6, change=None), "Last run: 2.00 ms, equal to the median."),
        (make_row(9, 2.0e6, change=None), "Current level: 2.00 ms, median of 9 runs."),
        (make_row(9, 2.0e6, change=None), "80 % of its runs are between 1.00 ms and 3.00 ms (p10–p90)."),
    ],
)
def test_sentences_of_a_level(level: LevelRow, sentence: str) -> None:
    assert sentence in describe_level(ShownLevel(level, None, is_current=True), CATALOG["latency_p99_ns"])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            ("latency_p99_ns", 0.4, 1.9e6, 60, 2.66e6, 8, True, 5, False),
            (
                "Was 2.00 ms until 21 Nov 2026 21:00 UTC."
                " Detected change: 1.90 ms (60 runs), then 2.66 ms (8 runs), +40 % (worse)."
            ),
        ),
        (
            ("latency_p99_ns", 0.4, 1.9e6, 60, 2.66e6, 8, True, 5, True),
            "Was 2.00 ms until 21 Nov 2026 21:00 UTC: recovered from +40 %.",
        ),
        (("iops", -0.3, 100.0, 60, 70.0, 8, True, 5, False), "Was 2.00 ms until 21 Nov 2026 21:00 UTC."),
    ],
)
def test_size_of_a_change_is_that_of_the_levels_beside_it(change: tuple[Any, ...], sentence: str) -> None:
    before = make_row(9, 2.0e6, change=None)
    level = make_row(9, 2.0e6, change=LevelChange(1, *change))

    assert sentence in describe_level(ShownLevel(level, before, is_current=True), CATALOG["latency_p99_ns"])


def test_time_range_without_a_level_has_a_reason() -> None:
    (sentence,) = describe_level(None, CATALOG["iops"], has_range=True)

    assert sentence == "No valid run with a value in this time range. Extend it, or select another metric."


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("latency_mean_ns", "Total latency (lat)."),
        ("latency_max_ns", "Total latency (lat)."),
        ("latency_p99_ns", "Completion latency (clat)."),
    ],
)
def test_history_of_a_latency_says_of_which(metric: str, words: str, viewer: Client) -> None:
    series = add_series([1e6], metric=metric)

    assert words in Page(viewer.get(reverse("series", args=[series.pk]), {"metric": metric})).words


def test_history_names_series_whose_variability_changed(viewer: Client) -> None:
    series, other = add_series(VALUES), add_series(VALUES)
    found = {"from_at": NOON.isoformat(), "before": 0.02, "after": 0.08}
    make_detection_result(series, spread_increase=found)
    make_detection_result(other, metric="latency_p99_ns", spread_increase=found)

    page = viewer.get(f"/history/?series={series.pk},{other.pk}&metric=iops")

    (sentence,) = [text for text in page.context["sentences"] if "standard deviation" in text]
    assert "The standard deviation increased from 2 % to 8 % on 21 Nov 2026 12:00 UTC." in sentence


def test_page_of_a_series_describes_a_larger_spread_and_two_states(viewer: Client) -> None:
    series = add_series(VALUES)
    moment = (NOON - timedelta(days=3)).isoformat()
    make_detection_result(
        series,
        spread_increase={"from_at": moment, "before": 0.02, "after": 0.08},
        two_states={"low": 800.0, "high": 1000.0, "high_share": 0.7, "visits": 5, "from_at": moment},
    )

    words = Page(viewer.get(f"/series/{series.pk}/")).words

    assert "The standard deviation increased from 2 % to 8 % on 18 Nov" in words
    assert (
        "1\u202f000 IOPS in 70 % of the runs, 800 IOPS in the others (−20 %). The rarer one was entered 5 times"
        in words
    )


def test_page_of_a_series_names_its_seasons(viewer: Client) -> None:
    series = add_series(VALUES)
    hours = [0.9, 0.88, 0.92] + [1.0] * 21
    make_detection_result(series, seasons={"hour": hours, "weekday": [1, 1, 1, 1, 1, 0.85, 0.85]})

    words = Page(viewer.get(f"/series/{series.pk}/")).words

    assert "Daily pattern: 00:00–03:00 UTC −10 %; removed before detection." in words
    assert "Weekly pattern: Sat and Sun −15 %; removed before detection." in words


@pytest.mark.parametrize(
    ("factors", "texts"),
    [
        ((1.0,) * 7, []),
        ((1, 1.01, 1, 1, 1, 1, 0.99), []),
        ((0.8, 0.8, 0.8, 1, 1, 1.1, 1.1), ["Mon to Wed −20 %", "Sat and Sun +10 %"]),
        ((0.9, 1.2, 1, 1, 1, 1, 1), ["Tue +20 %", "Mon −10 %"]),
        ((0.9, 1, 0.8, 1, 0.7, 1, 0.6), ["Sun −40 %", "Fri −30 %", "Wed −20 %"]),
    ],
)
def test_phases_of_a_week_are_named_by_range_the_largest_first(
    factors: tuple[float, ...], texts: list[str]
) -> None:
    assert describe_phases("weekday", factors) == texts


@pytest.mark.parametrize(
    ("status", "n", "text"),
    [
        (
            "learning",
            8,
            "Learning: 8 of 20 runs. Steps open incidents once they are confirmed. Drifts are judged from 24 runs on.",
        ),
        ("steady", 22, "Drifts are judged from 24 runs on."),
        ("steady", 24, None),
    ],
)
def test_detection_says_what_it_judges_yet(viewer: Client, status: str, n: int, text: str | None) -> None:
    series = add_series(VALUES, metric="iops")
    needed = 20 - n if status == "learning" else None
    make_detection_result(series, DetectionStatus(status), n=n, runs_needed=needed)

    words = Page(viewer.get(reverse("series", args=[series.pk]), {"metric": "iops"})).words

    assert (text or "Steady") in words
    assert ("Drifts are judged" in words) == (text is not None)


def test_pages_say_since_when_a_threshold_of_the_reader_is_violated(viewer: Client) -> None:
    series = add_series([1e6, 9e6, 9e6, 9e6], metric="latency_p99_ns", host=make_host("db-1"))
    met = add_series([1e6] * 4, metric="latency_p99_ns", host=make_host("db-2"))
    query = {"metric": "latency_p99_ns"}
    url = reverse("series", args=[series.pk])
    assert "Threshold" not in Page(viewer.get(url, query)).words
    reader = User.objects.get(pk=viewer.session["_auth_user_id"])
    texts = ["p99 latency < 5 ms"]
    store_present_violations(make_subscription(reader, thresholds=texts), added=texts)

    words = Page(viewer.get(url, query)).words

    assert "Threshold p99 latency < 5 ms: violated since 21 Nov 2026 13:00 UTC." in words
    words = Page(viewer.get(reverse("series", args=[met.pk]), query)).words
    assert "Threshold p99 latency < 5 ms: not violated." in words
    words = Page(viewer.get(reverse("history"), query)).words
    assert (
        "Threshold p99 latency < 5 ms: violated in 1 of 2 series: db-1 since 21 Nov 2026 13:00 UTC." in words
    )
