"""The filter bar: text, chips, old links, and what works without script."""

from datetime import UTC, datetime

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from benchapp.catalog.grammar import Filter, parse_filter
from benchapp.catalog.metrics import format_value
from benchapp.framework.pages.filter_bar import describe_filter, make_filter_bar
from tests.factories import make_host, make_series, make_target
from tests.pages import Page


def bar_of(query, **options):
    return make_filter_bar(RequestFactory().get("/series/", query), **options)


def test_filter_is_shown_in_its_canonical_form() -> None:
    bar = bar_of({"q": " gp3  bs:4k 16 volumes"})

    assert (bar.text, bar.error) == ("block_size_bytes:4k volume_count:16 gp3", None)
    assert bar.filter == parse_filter(bar.text)


def test_filter_that_is_too_long_in_canonical_form_stays_as_typed() -> None:
    text = " ".join(["bs:4k"] * 40) + f" host:{'a' * 1700}"

    assert bar_of({"q": text[:2000]}).text == text[:2000]


@pytest.mark.parametrize(
    ("query", "url"),
    [
        ({"q": "last week gp3"}, "/series/?from=2026-05-05&q=gp3"),
        ({"q": "yesterday", "to": "2020-01-01"}, "/series/?from=2026-05-11&to=2026-05-11"),
        ({"q": "p99 qd32", "metric": "iops"}, "/series/?metric=latency_p99_ns&q=iodepth%3A32"),
        ({"q": "before 2026-05-12", "from": "2020-01-01"}, "/series/?to=2026-05-11"),
        ({"q": "qd32"}, None),
    ],
)
def test_time_range_and_metric_of_the_filter_become_those_of_the_page(
    query: dict[str, str], url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 5, 12, 10, tzinfo=UTC))

    found = bar_of(query, has_metric=True).resolved_url

    assert (
        found and "?".join((found.split("?")[0], "&".join(sorted(found.split("?")[1].split("&")))))
    ) == url


def test_every_term_is_a_chip_with_a_link_to_the_page_without_it() -> None:
    bar = bar_of({"q": "host:db-*,x -bs:>=4k fs:unknown gp3", "metric": "iops", "after": "x"})

    assert [(chip["label"], chip["value"], chip["text"]) for chip in bar.chips] == [
        ("Host", "db-*, x", "host:db-*,x"),
        ("not Block size", "≥ 4k", "-block_size_bytes:>=4k"),
        ("Filesystem", "unknown", "filesystem:unknown"),
        ("word", "gp3", "gp3"),
    ]
    assert bar.chips[0]["url"] == (
        "/series/?q=-block_size_bytes%3A%3E%3D4k+filesystem%3Aunknown+gp3&metric=iops"
    )


def test_invalid_filter_is_not_applied_and_stays_in_the_field() -> None:
    bar = bar_of({"q": "speed:4"})

    assert (bar.text, bar.filter, bar.chips) == ("speed:4", Filter(), ())
    assert bar.error is not None
    assert bar.error["message"].startswith("Unknown filter 'speed'. Available: host,")
    assert (bar.error["before"], bar.error["wrong"], bar.error["after"]) == ("", "speed:4", "")


def test_page_without_a_metric_refuses_one_in_the_filter() -> None:
    bar = bar_of({"q": "p99 gp3"})

    assert bar.error is not None
    assert "is a metric" in bar.error["message"]
    assert (bar.instead, bar.filter) == (("gp3",), Filter())


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"add": "block_size_bytes", "value": "4k"}, "block_size_bytes:4k"),
        ({"q": "gp3", "add": "host", "value": " db-* "}, "host:db-* gp3"),
        ({"add": "target_name", "value": "two words"}, 'target_name:"two words"'),
        ({"add": "volume_type", "value": "gp3,io2"}, "volume_type:gp3,io2"),
        ({"add": "host", "value": ""}, ""),
        ({"add": "", "value": "4k"}, ""),
    ],
)
def test_two_fields_add_a_term_without_script(query: dict[str, str], text: str) -> None:
    assert bar_of(query).text == text


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"host": "db-01"}, "host:db-01"),
        ({"host": "db-01", "rw": "randread", "q": "gp3"}, "host:db-01 rw:randread gp3"),
        ({"pool": "two words"}, 'pool:"two words"'),
        ({"host": "a*b"}, 'host:"a*b"'),
        ({"host": "unknown"}, 'host:"unknown"'),
        ({"text": "gp3 xfs"}, "gp3 xfs"),
        ({"text": 'a:b "c'}, '"a:b" """c"'),
        ({"direction": "write"}, "direction:write"),
        ({"host": ""}, ""),
    ],
)
def test_legacy_parameters_are_terms(query: dict[str, str], text: str) -> None:
    assert bar_of(query).text == text


def test_chips_of_legacy_links_use_the_filter() -> None:
    bar = bar_of({"host": "db-01", "rw": "randread"})

    assert [chip["url"] for chip in bar.chips] == ["/series/?q=rw%3Arandread", "/series/?q=host%3Adb-01"]


def test_parameters_to_keep_are_hidden_fields_in_their_order() -> None:
    bar = bar_of(
        {"ceiling": ["a:1", "b:2"], "x": "bs", "empty": "", "metric": "iops"}, keep=("x", "ceiling", "empty")
    )

    assert bar.hidden == (("x", "bs"), ("ceiling", "a:1"), ("ceiling", "b:2"))
    assert bar.clear_url == "/series/?x=bs&ceiling=a%3A1&ceiling=b%3A2"


def test_clear_is_not_offered_without_a_filter() -> None:
    assert bar_of({}).clear_url is None
    assert bar_of({"x": "bs"}, keep=("x",)).clear_url is None


def test_filter_is_described_for_captions() -> None:
    said = describe_filter(parse_filter("type:gp3,io2 -fs:xfs depth:1..8 bs:<=4k direct:yes slow"))

    assert (
        said
        == "Volume type gp3, io2; not Filesystem xfs; Queue depth 1–8; Block size ≤ 4k; Direct I/O yes; “slow”"
    )


PAGES = (
    "home",
    "series_list",
    "runs",
    "matrix",
    "scaling",
    "history",
    "hosts",
    "incidents",
    "benchmark_health",
)
BARLESS = ("planned_events", "uploads", "run_requests")


@pytest.mark.parametrize(
    ("name", "query", "problem"),
    [
        *((name, {"from": "soon"}, "From is not a valid date") for name in PAGES),
        *(
            (name, {"from": "-1d", "to": "-2d"}, "From is after To. Swap them.")
            for name in ("runs", "hosts", "scaling")
        ),
        *(
            (name, {"zone": "Mars/Base"}, "'Mars/Base' is not a valid time zone")
            for name in ("matrix", "incidents")
        ),
        *((name, {"from": "soon"}, "From is not a valid date") for name in BARLESS),
        ("scaling", {"x": "speed"}, "X: 'speed' is not a valid dimension"),
        ("scaling", {"metric": "speed"}, "Metric: 'speed' is not a valid metric"),
        ("matrix", {"x": "speed"}, "X: 'speed' is not a valid dimension"),
        ("matrix", {"rows": "speed"}, "Rows: 'speed' is not a valid dimension"),
        ("history", {"metric": "speed"}, "Unknown metric"),
        ("history", {"series": "1,x"}, "'x' is not a valid series id"),
        ("series_list", {"sort": "speed"}, "'speed' is not a valid sort"),
        ("runs", {"badge": "speed"}, "not a valid badge"),
        ("hosts", {"sort": "speed"}, "'speed' is not a column"),
        ("incidents", {"tab": "speed"}, "'speed' is not a valid tab"),
        ("benchmark_health", {"status": "speed"}, "'speed' is not a valid status"),
        ("benchmark_health", {"by": "speed"}, "'speed' is not a valid grouping"),
    ],
)
def test_invalid_parameter_shows_the_error_and_neither_chart_nor_numbers(
    name: str, query: dict[str, str], problem: str, viewer: Client
) -> None:
    make_series([123_457.0], host=make_host("db-01"), target=make_target(volume_type="gp3"))

    response = viewer.get(reverse(name), {"q": "host:db-01", **query})

    page = Page(response)
    assert (response.status_code, problem in page.words) == (400, True)
    assert not {"table", "canvas", "svg", "figure"} & {tag_name for tag_name, _ in page.tags}
    assert "Nothing is shown, because the address has an invalid parameter." in page.words
    if name not in BARLESS:
        assert f"{reverse(name)}?q=host%3Adb-01" in page.links


def test_invalid_time_of_a_host_and_of_a_series_shows_neither_chart_nor_numbers(viewer: Client) -> None:
    series = make_series([123_457.0], host=make_host("db-01"))
    for address in (reverse("host", args=["db-01"]), reverse("series", args=[series.pk])):
        page = Page(response := viewer.get(address, {"from": "soon"}))

        assert (response.status_code, "From is not a valid date" in page.words) == (400, True)
        assert not {"table", "canvas", "svg", "figure"} & {tag_name for tag_name, _ in page.tags}


@pytest.mark.parametrize("name", PAGES)
def test_invalid_filter_shows_the_error_and_neither_chart_nor_numbers(name: str, viewer: Client) -> None:
    make_series([123_457.0], host=make_host("db-01"), target=make_target(volume_type="gp3"))

    response = viewer.get(reverse(name), {"q": "speed:4 <script>", "scale": "log"})

    page = Page(response)
    assert response.status_code == 400
    assert "Unknown filter 'speed'" in page.words
    content = response.content.decode()
    assert "<mark>speed:4</mark> &lt;script&gt;" in content
    assert not {"table", "canvas", "svg", "figure"} & {tag_name for tag_name, _ in page.tags}
    assert format_value(123_457.0, "operations/s") not in page.words
    assert ("input", {"type": "hidden", "name": "scale", "value": "log"}) in page.tags
    assert f"{reverse(name)}?q=label.speed%3A4+%3Cscript%3E&scale=log" in page.links
    (field,) = [tag for tag_name, tag in page.tags if tag_name == "input" and tag.get("name") == "q"]
    assert (field["value"], field["aria-invalid"]) == ("speed:4 <script>", "true")
    assert "<script>" not in response.content.decode().replace("<script ", "").replace("<script src", "")


def test_misspelled_word_links_to_its_correction(viewer: Client) -> None:
    make_series([1.0], host=make_host("db-01"), target=make_target(volume_type="gp3"))

    page = Page(viewer.get(reverse("series_list"), {"q": "gp33 radnom read", "metric": "iops"}))

    assert "/series/?q=gp3+random+read&metric=iops" in page.links
    assert not [
        link for link in Page(viewer.get(reverse("series_list"), {"q": "gp3"})).links if "q=gp3+" in link
    ]


def test_series_match_the_filter_and_a_link_clears_it(viewer: Client) -> None:
    for name, kind in (("db-01", "gp3"), ("db-02", "io2")):
        make_series([1.0], host=make_host(name), target=make_target(volume_type=kind))

    page = Page(viewer.get(reverse("series_list"), {"q": "type:gp* host:db-*"}))

    assert "db-01" in page.words
    assert "/hosts/db-02/" not in page.links
    assert reverse("series_list") in page.links


def test_every_dimension_is_offered(viewer: Client) -> None:
    page = Page(viewer.get(reverse("series_list")))

    offered = [tag.get("value") for name, tag in page.tags if name == "option"]
    assert {"host", "pattern", "block_size_bytes", "target_name"} <= set(offered)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "text", ["volume_count:99999999999", "volume_count:>99999999999", "-volume_count:99999999999"]
)
@pytest.mark.parametrize(
    "path", ["/", "/matrix/", "/scaling/", "/series/", "/runs/", "/hosts/", "/incidents/"]
)
def test_number_beyond_the_range_of_its_column_is_a_filter(path: str, text: str, viewer: Client) -> None:
    make_series()

    assert viewer.get(path, {"q": text}).status_code == 200
