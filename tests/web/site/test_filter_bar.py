"""The filter bar: text, chips, old links, and what works without script."""

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse

from benchapp.grammar import Filter, parse_filter
from benchapp.web.site.filter_bar import describe_filter, make_filter_bar
from tests.factories import make_host, make_series, make_target
from tests.web.pages import Page

OLD = ("host", "pool", "rw", "direction", "text")


def bar_of(query, **options):
    return make_filter_bar(RequestFactory().get("/series/", query), **options)


def test_filter_text_is_unchanged() -> None:
    bar = bar_of({"q": " bs:4k  gp3 "})

    assert (bar.text, bar.filter, bar.error) == ("bs:4k  gp3", parse_filter("bs:4k gp3"), None)


def test_every_term_is_a_chip_with_a_link_to_the_page_without_it() -> None:
    bar = bar_of({"q": "host:db-*,x -bs:>=4k fs:unknown gp3", "metric": "iops", "after": "x"})

    assert [(chip.label, chip.value, chip.text) for chip in bar.chips] == [
        ("Host", "db-*, x", "host:db-*,x"),
        ("not Block size", "≥ 4k", "-block_size_bytes:>=4k"),
        ("Filesystem", "unknown", "filesystem:unknown"),
        ("word", "gp3", "gp3"),
    ]
    assert bar.chips[0].url == (
        "/series/?q=-block_size_bytes%3A%3E%3D4k+filesystem%3Aunknown+gp3&metric=iops"
    )


def test_invalid_filter_is_not_applied_and_stays_in_the_field() -> None:
    bar = bar_of({"q": "speed:4"})

    assert (bar.text, bar.filter, bar.chips) == ("speed:4", Filter(), ())
    assert bar.errors == [bar.error]
    assert bar.error.startswith("Unknown filter 'speed'. Available: host,")


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
    assert bar_of(query, old=OLD).text == text


def test_chips_of_legacy_links_use_the_filter() -> None:
    bar = bar_of({"host": "db-01", "rw": "randread"}, old=OLD)

    assert [chip.url for chip in bar.chips] == ["/series/?q=rw%3Arandread", "/series/?q=host%3Adb-01"]


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


@pytest.mark.parametrize("name", ["series_list", "runs", "matrix"])
def test_bar_shows_the_error_of_the_filter(name: str, viewer: Client) -> None:
    response = viewer.get(reverse(name), {"q": "speed:4 <script>"})

    page = Page(response)
    assert response.status_code == 400
    assert "Unknown filter 'speed'" in page.words
    (field,) = [tag for tag_name, tag in page.tags if tag_name == "input" and tag.get("name") == "q"]
    assert (field["value"], field["aria-invalid"]) == ("speed:4 <script>", "true")
    assert "<script>" not in response.content.decode().replace("<script ", "").replace("<script src", "")


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
