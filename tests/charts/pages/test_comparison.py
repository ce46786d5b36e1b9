"""The comparison page."""

import csv
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.charts.pages.comparison import write_markdown
from benchapp.charts.read import comparison
from benchapp.charts.read.comparison import Side, compare_sides
from benchapp.charts.read.comparison_sides import read_named_scopes
from benchapp.charts.texts.comparison import make_lines
from benchapp.models import Host
from tests.factories import (
    NOON,
    add_series,
    make_host,
    make_measurement,
    make_run,
    make_series,
    make_target,
    make_workload,
)
from tests.pages import Page
from tests.shared_rows import shared_rows

STEADY = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0]
SLOWER = [80.0, 81.0, 79.0, 80.0, 82.0, 78.0]
HOSTS = {"a": "host:fast", "b": "host:slow"}


@shared_rows
def two_hosts() -> None:
    for name, values in (("fast", STEADY), ("slow", SLOWER)):
        host = make_host(name)
        add_series(values, host=host)
        add_series(STEADY, host=host, workload=make_workload(iodepth=32))


def test_most_significant_difference_is_first(viewer: Client, two_hosts: None) -> None:
    page = Page(viewer.get(reverse("compare"), HOSTS))

    assert "host:slow vs. host:fast: 1 of 2 values worse, 0 better" in page.words
    assert "4k random read, IOPS: 100 on fast → 80.0 on slow (−20 %; 95 % interval −2" in page.words
    assert "), worse, large effect; " in page.words
    assert page.words.index("0.800") < page.words.index("1.000")
    assert "same: within 5 %" in page.words.replace("\xa0", " ")


def test_words_that_are_names_of_hosts_stand_for_them(viewer: Client, two_hosts: None) -> None:
    page = Page(viewer.get(reverse("compare"), {"a": "fast", "b": "slow"}))

    assert "slow vs. fast: 1 of 2 values worse, 0 better" in page.words


def test_name_of_a_host_and_a_pool_is_a_word(db: None) -> None:
    make_series(host=make_host("one"))
    make_series(host=make_host("both"))
    make_series(pool="both")

    assert read_named_scopes({"one", "both", "other"}) == {"one": "host:one"}


def test_lines_of_several_hosts_begin_with_the_host(db: None) -> None:
    for host in (make_host("db-1"), make_host("db-2")):
        for depth in (1, 2):
            add_series([*STEADY, *SLOWER], host=host, workload=make_workload(iodepth=depth))
    middle = NOON + timedelta(hours=6)

    found = compare_sides(Side(to_at=middle), Side(from_at=middle), metrics=["iops"])
    several = [line.name for line in make_lines(found.pairs)]
    alone = [line.name for line in make_lines(found.pairs[:1])]

    assert sorted(several) == [
        f"{host} · QD {depth} × 1 job" for host in ("db-1", "db-2") for depth in (1, 2)
    ]
    assert alone == ["4k random read"]


def test_limit_of_what_is_compared_is_stated(
    viewer: Client, two_hosts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = (
        "More series match: compared are at most 10\u202f000 series of each side and 3\u202f000 values."
    )
    complete = Page(viewer.get(reverse("compare"), HOSTS)).words
    monkeypatch.setattr(comparison, "COMPARED_MAXIMUM", 3)

    cut = Page(viewer.get(reverse("compare"), HOSTS)).words

    assert sentence not in complete
    assert sentence in cut


def test_page_without_a_choice_has_suggestions(viewer: Client, two_hosts: None) -> None:
    page = Page(viewer.get(reverse("compare")))

    assert "Last 7 days vs. the 7 before, without today" in page.words
    assert "Host fast vs. slow" in page.words or "Host slow vs. fast" in page.words


def test_page_without_measurements_says_so(viewer: Client) -> None:
    assert "No measurements yet" in Page(viewer.get(reverse("compare"))).words


def test_two_equal_sides_are_an_error(viewer: Client, two_hosts: None) -> None:
    page = Page(viewer.get(reverse("compare"), {"a": "host:fast", "b": "host:fast"}))

    assert "Both sides are the same." in page.words


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"a": "depth:lots"}, "A: iodepth:lots is not a valid number"),
        ({"b_from": "May"}, "B from is not a valid date"),
        ({"a": "host:fast", "metric": "speed"}, "'speed' is not a valid metric"),
        ({"a_run": "x"}, "A: run: Enter a whole number."),
    ],
)
def test_invalid_parameter_is_an_error(viewer: Client, query: dict[str, str], words: str) -> None:
    response = viewer.get(reverse("compare"), query)

    assert response.status_code == 400
    assert words in Page(response).words


def test_first_and_last_day_of_the_calendar_are_valid(viewer: Client, two_hosts: None) -> None:
    response = viewer.get(reverse("compare"), {**HOSTS, "a_to": "9999-12-31", "b_from": "0001-01-01"})

    assert response.status_code == 200
    assert "1 of 2 values worse" in Page(response).words


def test_too_few_runs_have_no_significance(viewer: Client) -> None:
    for name, value in (("fast", 100.0), ("slow", 20.0)):
        add_series([value] * 2, host=make_host(name))

    words = Page(viewer.get(reverse("compare"), HOSTS)).words

    assert "host:slow vs. host:fast: 1 value not decided, 2 runs a side" in words
    assert "same: " not in words


def test_sides_without_matching_series_list_their_own(viewer: Client) -> None:
    add_series(STEADY, host=make_host("fast"), workload=make_workload(iodepth=1))
    add_series(STEADY, host=make_host("slow"), workload=make_workload(iodepth=2))

    page = Page(viewer.get(reverse("compare"), HOSTS))

    assert "host:slow vs. host:fast: no matching series" in page.words
    assert "Only in host:fast" in page.words
    assert "QD 2 × 1 job" in page.words


def test_sides_without_any_series_are_named(viewer: Client, two_hosts: None) -> None:
    page = Page(viewer.get(reverse("compare"), {"a": "host:gone", "b": "host:slow"}))

    assert "No measurements match host:gone." in page.words


def test_curl_command_and_csv_have_the_data_of_the_page(viewer: Client, two_hosts: None) -> None:
    response = viewer.get(reverse("compare"), {**HOSTS, "a_to": "2026-12-01", "metric": "iops"})

    assert "a_to=2026-12-02T00:00:00Z" in response.context["csv_url"]
    assert "metrics=iops" in response.context["csv_url"]
    header = next(csv.reader(viewer.get(response.context["csv_url"]).content.decode().splitlines()))
    assert header[:6] == ["title", "metric", "unit", "rw", "direction", "a_n"]


def test_number_of_queries_does_not_grow(viewer: Client, two_hosts: None, django_assert_num_queries) -> None:
    # The session and its person, present names of two filters, two sides, the levels and maintenance of each, policies,
    # the environments of their runs; values are read beside Django's cursor.
    with django_assert_num_queries(15):
        viewer.get(reverse("compare"), HOSTS)


def test_page_begins_with_the_most_significant_and_links_to_more(
    viewer: Client, two_hosts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchapp.charts.pages.comparison.LINES_DEFAULT", 1)

    first = viewer.get(reverse("compare"), HOSTS)
    more = viewer.get(first.context["figure"].more_url)

    assert first.context["figure"].more_url == "/compare/?a=host:fast&b=host:slow&lines=200"
    assert "1 more in the CSV. Show more" in Page(first).words
    assert [line.number for line in first.context["figure"].lines] == [1]
    assert [line.number for line in more.context["figure"].lines] == [1, 2]
    assert "Show more" not in Page(more).words


@pytest.mark.django_db
def test_names_are_escaped_in_markdown() -> None:
    for name in ("one", "two"):
        add_series(STEADY, host=make_host(name), target=make_target(target_name="a|b <script>`x`"))

    found = compare_sides(Side(), Side())
    text = write_markdown("t", ("a|1", "b"), make_lines(found.pairs), link="http://example/compare/")

    assert "a\\|b \\<script\\>\\`x\\`" in text
    assert all(line.count("|") - line.count("\\|") == 9 for line in text.splitlines()[2:6])


def test_lines_are_grouped_by_metric_and_named_by_what_differs(viewer: Client) -> None:
    for name, factor in (("fast", 1.0), ("slow", 0.8)):
        for depth, metric, values in (
            (8, "latency_p99_ns", STEADY),
            (32, "iops", STEADY),
            (8, "iops", [value * factor for value in STEADY]),
        ):
            target = make_target(volume_type="gp3", volume_count=4 if depth == 8 else 16)
            add_series(
                values,
                host=make_host_once(name),
                workload=make_workload(iodepth=depth),
                target=target,
                metric=metric,
            )

    response = viewer.get(reverse("compare"), HOSTS)

    figure = response.context["figure"]
    lines = [(line.number, line.metric.name, line.parts) for line in figure.lines]
    assert lines == [
        (1, "iops", "QD 8 × 1 job · 4 × gp3"),
        (2, "iops", "QD 32 × 1 job · 16 × gp3"),
        (3, "latency_p99_ns", "QD 8 × 1 job · 4 × gp3"),
    ]
    assert figure.common == "4k random read · 64 MiB file"
    assert "Common to all: 4k random read · 64 MiB file ·" in Page(response).words
    ratios = [line.pair.comparison.ratio for line in figure.lines]
    assert [line["at"] for line in figure.chart] == ratios
    assert {line["place"] for line in figure.chart} == {"fast → slow"}


def make_host_once(name: str) -> Host:
    return Host.objects.filter(name=name).first() or make_host(name)


def test_one_compared_series_is_named_by_its_pattern(viewer: Client) -> None:
    add_series(STEADY, host=make_host("db-01"))

    figure = viewer.get(reverse("compare"), {"a_to": "2026-11-21", "b_from": "2026-11-20"}).context["figure"]

    assert [line.parts for line in figure.lines] == ["4k random read"]
    assert figure.common == "QD 8 × 1 job · 64 MiB file · db-01"


def test_sides_can_be_swapped(viewer: Client, two_hosts: None) -> None:
    page = Page(viewer.get(reverse("compare"), {**HOSTS, "a_from": "2026-01-01", "metric": ["iops"]}))

    swapped = next(link for link in page.links if link.startswith("?a=host:slow"))
    assert swapped == "?a=host:slow&b=host:fast&metric=iops&b_from=2026-01-01"
    assert "host:fast, since 1 Jan 2026 vs. host:slow" in Page(viewer.get(reverse("compare") + swapped)).words


def test_time_in_an_address_is_shown_as_it_is(viewer: Client, two_hosts: None) -> None:
    page = Page(viewer.get(reverse("compare"), {**HOSTS, "a_from": "2026-01-01T02:10:00Z"}))

    (field,) = [tag for _, tag in page.tags if tag.get("name") == "a_from"]
    assert (field["type"], field["value"]) == ("text", "2026-01-01T02:10:00Z")


def test_two_runs_have_their_latency_distributions_side_by_side(viewer: Client) -> None:
    """Pairs have one workload; what only one of the runs has is counted."""
    runs = []
    for factor, patterns in ((1, ["randread"]), (2, ["randread", "randwrite"])):
        run = make_run(make_host(f"db-{factor}"))
        for rw in patterns:
            series = make_series(host=run.host, target=run.target, workload=make_workload(rw=rw))
            percentiles = {"50": 100_000 * factor, "99": 400_000 * factor}
            make_measurement(run, series, job_name=rw, iops=1000.0, percentiles=percentiles)
        runs.append(run)
    a, b = runs

    page = viewer.get(reverse("compare"), {"a_run": a.pk, "b_run": b.pk})

    lines = page.context["percentiles"].lines
    assert [(line["name"], line["run"], line["cells"][1]["raw"]) for line in lines] == [
        ("randread", f"B: run {b.pk}", 800_000),
        ("randread", f"A: run {a.pk}", 400_000),
        ("randwrite", f"B: run {b.pk}", 800_000),
    ]
    assert "1 distribution without a counterpart" in Page(page).words
    assert "percentiles" not in viewer.get(reverse("compare"), {"a_run": a.pk, "b": "host:db-2"}).context
