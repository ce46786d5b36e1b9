"""Several histories side by side, what changed around them, and the latencies of one."""

import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from benchapp.catalog.grammar import BadFilter
from benchapp.charts.pages.history import read_history_request, show_history
from benchapp.judge import judge_due
from benchapp.models import Role
from benchapp.series.pages.history import format_share
from tests.factories import (
    NOON,
    add_series,
    calculate_levels,
    make_environment,
    make_host,
    make_measurement,
    make_run,
    make_series,
    make_target,
    make_user,
)
from tests.pages import Page

PERCENTILES = {"50": 200_000, "99": 447_488}


def make_volumes(*counts: int) -> list[int]:
    host = make_host("db-01")
    ids = [
        make_series(
            [1000.0 * count] * 3, host=host, target=make_target(volume_type="gp3", volume_count=count)
        ).pk
        for count in counts
    ]
    calculate_levels(ids)
    return ids


def figure_of(page: Page) -> dict[str, str | None]:
    return next(tag for name, tag in page.tags if name == "figure")


def test_page_without_anything_chosen_shows_the_freshest(viewer: Client) -> None:
    make_volumes(1, 4)

    page = Page(viewer.get(reverse("history")))

    assert "IOPS of 2 series: 1\u202f000 to 4\u202f000 IOPS" in page.words
    assert "of 2 series, most recent" not in page.words
    assert "of 2 series ·" in page.words
    assert figure_of(page)["data-url"] == (
        "/api/v1/history?metrics=iops,bandwidth_bytes_per_s,latency_p99_ns&resolution=auto"
    )


def test_series_are_named_in_the_address(viewer: Client) -> None:
    first, _, third = make_volumes(1, 2, 4)

    page = Page(viewer.get(reverse("history"), {"series": f"{third},{first}"}))

    assert figure_of(page)["data-url"].startswith(f"/api/v1/history?series={third},{first}&metrics=")
    assert page.words.index("4 volumes") < page.words.index("1 volume")


def test_filter_chooses_and_the_page_says_what_it_leaves_out(viewer: Client) -> None:
    make_volumes(*range(1, 15))

    words = Page(viewer.get(reverse("history"), {"q": "volumes:>=1"})).words

    assert "12 of 14 series, most recent runs first" in words


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"series": "1,x"}, "'x' is not a valid series id."),
        ({"metric": "speed"}, "Unknown metric. Available: iops,"),
        ({"from": "yesterday"}, "From is not a valid date: use 2026-05-12, 2026-05-12T02:10Z or -7d."),
        ({"from": "2026-05-12", "to": "2026-05-01"}, "From is after To."),
        ({"to": "2026-13-01"}, "To is not a valid date"),
    ],
)
def test_address_that_makes_no_sense_is_said_in_words(
    query: dict[str, str], words: str, viewer: Client
) -> None:
    make_volumes(1)

    response = viewer.get(reverse("history"), query)

    assert response.status_code == 400
    assert words in Page(response).words


def test_filter_that_nothing_fits_says_what_to_do(viewer: Client) -> None:
    make_volumes(1)

    page = Page(viewer.get(reverse("history"), {"q": "volumes:77"}))

    assert "volume_count:77 matches no series. Try volume_count:1." in page.words


def test_empty_server_shows_the_first_steps(viewer: Client) -> None:
    assert "No results yet" in Page(viewer.get(reverse("history"))).words


def test_part_may_be_days_or_moments() -> None:
    days = read_history_request(QueryDict("from=2026-05-12&to=2026-05-13"))
    moments = read_history_request(QueryDict("from=2026-05-12T02:10:00Z&to=2026-05-12T04:10%2B02:00"))

    assert days.bounds == {"from": "2026-05-12T00:00:00Z", "to": "2026-05-14T00:00:00Z"}
    assert moments.errors == ("From is after To. Swap them.",)


def test_part_reaches_words_table_and_the_ways_to_get_the_same(viewer: Client) -> None:
    (series,) = make_volumes(1)

    part = {"from": "2026-11-21T12:30Z", "to": "2026-11-21T13:30Z"}
    page = Page(viewer.get(reverse("series", args=[series]), part))

    figure = figure_of(page)
    assert (figure["data-from"], figure["data-to"]) == ("2026-11-21T12:30:00Z", "2026-11-21T13:30:00Z")
    assert "from=2026-11-21T12:30:00Z&to=2026-11-21T13:30:00Z&format=csv" in "".join(page.links)
    (runs,) = [tag["data-value"] for name, tag in page.tags if name == "td" and "data-value" in tag][:1]
    assert runs == "1000.0"


def test_latency_has_rates_beside_it_and_timed_work_has_nothing() -> None:
    def metrics(query: str) -> list[str]:
        return [metric.name for metric in read_history_request(QueryDict(query)).metrics]

    assert metrics("metric=latency_p50_ns") == ["latency_p50_ns", "iops", "bandwidth_bytes_per_s"]
    assert metrics("") == ["iops", "bandwidth_bytes_per_s", "latency_p99_ns"]
    assert metrics("metric=elapsed_s") == ["elapsed_s"]
    assert metrics("panels=one") == ["iops"]


def test_change_of_level_is_said_with_what_changed_around_it(viewer: Client) -> None:
    host = make_host("db-01")
    series, other = make_series(host=host), make_series([1.0], host=make_host("db-02"))
    old, new = make_environment(kernel="5.15"), make_environment(kernel="6.1")
    for place in range(24):
        run = make_run(host, started_at=NOON + timedelta(hours=place), environment=old if place < 12 else new)
        level = 1000.0 if place < 12 else 800.0
        make_measurement(run, series, iops=level + (place * 7) % 5)
    judge_due()

    words = Page(viewer.get(reverse("history"), {"series": f"{series.pk},{other.pk}"})).words

    assert "db-01: 802 IOPS since 22 Nov 2026 00:00 UTC, −20 %. Was 1\u202f002 IOPS." in words
    assert "kernel 5.15 → 6.1" in words


def test_page_of_one_series_says_its_change_of_level_first(viewer: Client) -> None:
    series = make_series(
        [1000.0 + place % 5 for place in range(12)] + [800.0 + place % 5 for place in range(12)],
        host=make_host("db-01"),
    )
    address = reverse("series", args=[series.pk])
    judge_due()

    words = Page(viewer.get(address)).words
    before = Page(viewer.get(address, {"to": "2026-11-21T20:00:00Z"})).words

    assert "4k random read on db-01: 802 IOPS since 22 Nov 2026, −20 %" in words
    assert "Current level: 802 IOPS, median of 12 runs since 22 Nov 2026 00:00 UTC." in words
    assert (
        "Was 1\u202f002 IOPS until 21 Nov 2026 23:00 UTC."
        " Detected change: 1\u202f002 IOPS (12 runs), then 802 IOPS (12 runs), −20 % (worse)." in words
    )
    assert "4k random read on db-01: median 1\u202f002" in before
    assert "Level at the end of the time range: 1\u202f002 IOPS, median of 12 runs." in before
    assert "Selected time range: 8 runs, median 1\u202f00" in before


def test_change_outside_of_the_part_in_view_is_not_said_of_it(viewer: Client) -> None:
    series = make_series(
        [1000.0 + place % 5 for place in range(12)] + [800.0 + place % 5 for place in range(12)]
    )
    other = make_series([1000.0 + place % 5 for place in range(12)])
    judge_due()
    part = {"series": f"{series.pk},{other.pk}", "to": "2026-11-21T20:00:00Z"}

    words = Page(viewer.get(reverse("history"), part)).words

    assert "IOPS of 2 series: 1\u202f00" in words
    assert "No change detected in 2 of 2 series." in words
    assert "Was 1" not in words
    assert "Detected change:" not in words


def test_series_with_few_runs_are_not_said_to_be_unchanged(viewer: Client) -> None:
    young, evaluated = add_series([1000.0] * 5), add_series([1000.0 + place % 5 for place in range(6)])

    words = Page(viewer.get(reverse("history"), {"series": f"{young.pk},{evaluated.pk}"})).words

    assert "No change detected in 1 of 2 series." in words
    assert "1 of 2 series with fewer than 6 runs: not evaluated yet." in words


def test_failed_runs_are_told_from_no_runs(viewer: Client) -> None:
    run = make_run(error=5)
    series = [make_series() for _ in range(2)]
    for each in series:
        make_measurement(run, each, error=5, iops=1.0)

    words = Page(viewer.get(reverse("history"), {"series": f"{series[0].pk},{series[1].pk}"})).words

    assert "IOPS over time: no valid runs" in words
    assert "No valid runs in this time range" in words


def test_page_of_many_asks_as_much_as_of_one(viewer: Client, django_assert_num_queries) -> None:
    make_volumes(1, 2, 4, 8)

    # Session, person, sample, count, worse ones, series, points, versions; levels; changes around them; policies,
    # marks, planned events.
    with django_assert_num_queries(17):
        viewer.get(reverse("history"))


def test_series_with_percentiles_and_bins_has_both_figures(viewer: Client) -> None:
    series = make_series()
    make_measurement(make_run(), series, iops=1.0, percentiles=PERCENTILES, latency_bins=[68, 5])

    tags = Page(viewer.get(reverse("series", args=[series.pk]))).tags

    assert [tag["data-latency"] for name, tag in tags if "data-latency" in tag] == ["fan", "heat"]


def test_series_without_them_has_none(viewer: Client) -> None:
    series = make_series([1.0])

    page = Page(viewer.get(reverse("series", args=[series.pk])))

    assert "Latencies over time" not in page.words


def test_zone_of_the_host_is_offered_where_it_said_one(viewer: Client) -> None:
    series = make_series()
    environment = make_environment(facts={"time_zone": "Europe/Berlin"})
    make_measurement(make_run(environment=environment), series, iops=1.0)
    hostile = make_series()
    odd = make_environment(facts={"time_zone": "<script>"})
    make_measurement(make_run(environment=odd), hostile, iops=1.0)

    pages = [Page(viewer.get(reverse("series", args=[each.pk]))) for each in (series, hostile)]

    assert [figure_of(page)["data-host-zone"] for page in pages] == ["Europe/Berlin", ""]


def test_excluded_run_is_named_in_the_table(viewer: Client) -> None:
    series = make_series([1000.0, 1010.0])
    make_measurement(make_run(started_at=NOON + timedelta(days=1)), series, iops=5.0, is_excluded=True)

    assert "excluded" in Page(viewer.get(reverse("series", args=[series.pk]))).words


@pytest.mark.django_db
def test_panel_of_a_study_brings_its_numbers() -> None:
    make_volumes(1, 4)

    figure = show_history(QueryDict("q=volumes:4"), key="panel-2", base_url="http://here")

    assert figure.document is not None
    assert [line["name"] for line in figure.document["lines"]] == ["db-01"]
    assert (figure.document_id, figure.owns_address) == ("panel-2-document", False)
    with pytest.raises(BadFilter):
        show_history(QueryDict("q=color:red"), key="panel-3", base_url="http://here")


@pytest.mark.parametrize(
    ("address", "query"),
    [
        (
            "/series/{id}/?metric=latency_p99_ns&from=2026-11-01",
            "series={id}&metric=latency_p99_ns&from=2026-11-01T00:00:00Z",
        ),
        ("/history/", "series={id}&metric=iops"),
        (
            "/history/?q=rw:randread&scale=log&tz=own&panels=one",
            "q=rw:randread&metric=iops&scale=log&tz=own&panels=one",
        ),
    ],
)
@pytest.mark.django_db
def test_picture_can_be_kept_as_a_study(address: str, query: str, client: Client) -> None:
    client.force_login(make_user(Role.EDITOR))
    series = make_series([1.0])

    page = Page(client.get(address.format(id=series.pk)))

    (link,) = (link for link in page.links if link.startswith(reverse("add_study")))
    given = parse_qs(urlsplit(link).query)
    assert (given["kind"], given["query"]) == (["history"], [query.format(id=series.pk)])


def test_tables_of_fan_and_heat_map_hold_the_newest_runs_and_say_what_they_leave_out(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchapp.series.pages.history.FAN_RUNS", 2)
    host = make_host()
    series = make_series(host=host)
    for hour in range(3):
        run = make_run(host, started_at=NOON + timedelta(hours=hour))
        # Buckets 69 to 73: three quarters of the operations took up to 2^18 ns, the others up to 2^19.
        bins = [69, 10, 10, 10, 0, 10]
        make_measurement(
            run, series, percentiles=PERCENTILES, latency_p99_ns=447_488 + hour, latency_bins=bins
        )

    content = viewer.get(reverse("series", args=[series.pk])).content.decode()
    page_words = Page(viewer.get(reverse("series", args=[series.pk]))).words

    fan, heat = content.split('data-follows="fan-table"')[1].split('data-follows="heat-table"')
    assert re.findall(r'data-value="(4474\d+)', fan) == ["447490", "447489"]
    assert "The newest 2 runs in this time range; the CSV has all." in page_words
    assert re.findall(r"≤ (\d+ µs)<", heat) == ["262 µs", "524 µs"]
    assert re.findall(r'title="[\d.]+">(\d+)</td>', heat) == ["75", "25"] * 3
    assert "All 3 runs in this time range." in page_words


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.0, "0"), (0.2056, "20.6"), (0.000012, "0.0012"), (0.99996, "> 99.99"), (1.0, "100"), (0.99, "99")],
)
def test_share_has_as_many_digits_as_it_needs(share: float, words: str) -> None:
    assert format_share(share) == words
