"""The scaling page: automatic choices, summary, data table, links, errors."""

import json
import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from benchapp.charts.pages.scaling_figure import apply_fixed, show_scaling
from benchapp.charts.read import scaling
from benchapp.judge import judge_due
from benchapp.models import Series
from tests.detection.write import judging
from tests.ebs import make_ebs_series, make_level
from tests.factories import (
    NOON,
    add_series,
    calculate_levels,
    make_host,
    make_series,
    make_target,
    make_workload,
)
from tests.pages import Page

STUDY_2 = "instance:c1.xlarge volume_type:standard volume_size:20G file_size:5G"


def read_document(response: Any) -> dict[str, Any]:
    (text,) = re.findall(
        r'<script type="application/json">(.*?)</script>', response.content.decode(), re.DOTALL
    )
    return json.loads(unescape(text))


def describe(query: str) -> list[str]:
    figure = show_scaling(QueryDict(query), base_url="")
    return [sentence.text.replace("\u202f", " ") for sentence in (*figure.sentences, *figure.more_sentences)]


def make_bar(count: int, value: float, *, host: Any, **summary: Any) -> Series:
    series = make_series(target=make_target(volume_count=count), host=host)
    Series.objects.filter(pk=series.pk).update(measurement_count=1, first_at=NOON, last_at=NOON)
    make_level(series, "iops", value, **summary)
    return series


def test_title_has_the_subject_and_the_main_finding(viewer: Client) -> None:
    make_ebs_series(2)

    words = Page(viewer.get(reverse("scaling"), {"q": "bs:4k rw:randread"})).words

    assert "4k random read IOPS over 1–16 volumes: levels off at 4 volumes" in words


def test_summary_of_published_series_has_its_findings(db: Any) -> None:
    make_ebs_series()

    assert "Random read levels off at 4 volumes (~30.2k IOPS)." in describe(f"q={STUDY_2}")
    assert "Sequential write levels off at 8 volumes (~122 MB/s)." in describe(
        "q=instance:c1.medium&metric=bandwidth_bytes_per_s"
    )
    assert (
        "Random read drops by 97 % from 5 GiB to 15 GiB files at 1 volume (14 311 → 375 IOPS)."
        in describe("q=instance:c1.xlarge volume_size:20G&facet=file_size")
    )
    provisioned = describe("q=volume_type:provisioned-iops")
    assert "Random read scales linearly: 3.95x from 1 to 4 volumes (99 % of ideal)." in provisioned
    assert (
        "Random read reaches the limit (provisioned: 2 000 IOPS × n) at 1 volume: 2 064 of 2 000 IOPS."
        in provisioned
    )
    assert (
        "Random write is erratic: 12 345 at 2 volumes, 1 736 IOPS at 4 volumes; no clear trend."
        in describe("q=instance:c1.medium")
    )
    assert (
        "Random read: provisioned-iops delivers 6.1x the IOPS of standard (8 191 vs 1 344 IOPS)."
        in describe("q=file_size:50G&x=volume_type")
    )


def test_curve_that_levels_off_has_one_statement_with_the_limit_that_it_reaches(db: Any) -> None:
    host = make_host("db-1")
    for count, value in ((1, 3000.0), (2, 6000.0), (4, 11_950.0), (8, 11_970.0), (16, 11_980.0)):
        make_bar(count, value, host=host)

    (sentence,) = describe("limit=instance:12k")

    assert sentence == (
        "Random read levels off at 4 volumes (~12k IOPS)"
        " and reaches the limit (instance) at 4 volumes: 11 950 of 12 000 IOPS."
    )


def test_finding_names_what_else_differs_between_its_values(db: Any) -> None:
    host = make_host("db-1")
    for count, volume_type, iops in ((1, "gp3", 3000.0), (2, "gp3", 6000.0), (4, "st1", 4800.0)):
        make_series([iops], host=host, target=make_target(volume_count=count, volume_type=volume_type))
    calculate_levels()

    (sentence,) = describe("")

    assert sentence.endswith(", with different volume type.")
    assert "different" not in describe("q=type:gp3")[0]


def test_combined_axis_is_in_title_sentences_table_and_link(viewer: Client) -> None:
    make_ebs_series(4, 6, 8)
    query = {"q": "file_size:50G volumes:4", "x": "volume_size,volume_type"}

    page = Page(viewer.get(reverse("scaling"), query))

    words = page.words.replace("\u202f", " ")
    assert "4k IOPS by volume size, volume type" in words
    assert (
        "Random read: 200 GiB · provisioned-iops delivers 6.1x the IOPS of 200 GiB · standard (8 191 vs 1 344 IOPS)."
        in words
    )
    assert "20 GiB · standard200 GiB · provisioned-iops2 000 IOPS provisioned200 GiB" in words
    (canonical,) = [named["href"] for name, named in page.tags if named.get("rel") == "canonical"]
    assert "x=volume_size_bytes,volume_type&" in canonical


def test_latency_over_throughput_has_a_way_back_to_the_x_axis(viewer: Client) -> None:
    make_ebs_series(2)

    page = viewer.get(reverse("scaling"), {"metric": "latency_mean_ns", "over": "iops"}).content.decode()

    (field,) = re.findall(r'<select name="over".*?</select>', page)
    assert re.findall(r'value="(\w*)"', field) == ["", "iops", "bandwidth_bytes_per_s"]


def test_second_field_of_an_axis_combines_it(viewer: Client) -> None:
    make_ebs_series(5, 7)

    page = Page(viewer.get(reverse("scaling"), {"q": "bs:4k", "x": ["", ",volume_type"]}))
    without_color = viewer.get(reverse("scaling"), {"q": "bs:4k", "color": ["none", ",volume_type"]})

    assert "by volumes, volume type" in page.words
    chosen = [named["value"] for name, named in page.tags if name == "option" and "selected" in named]
    assert ",volume_type" in chosen
    assert without_color.status_code == 200


GROUPS = ["20 GB = volume_size:20G", "200 GB = volume_size:200G type:standard", "promised = type:prov*"]


def test_groups_are_in_sentences_table_links_and_the_editor(viewer: Client) -> None:
    make_ebs_series(4, 6, 8)

    page = Page(viewer.get(reverse("scaling"), {"q": "file_size:50G volumes:4", "group": GROUPS}))

    words = page.words.replace("\u202f", " ")
    assert "Random read: promised delivers 6.1x the IOPS of 200 GB (8 191 vs 1 344 IOPS)." in words
    assert "20 GBstandard, 20 GiB volumes200 GBstandard, 200 GiB volumes" in words
    assert [named.get("value") for _, named in page.tags if named.get("name") == "group"] == [*GROUPS, None]
    (canonical,) = [named["href"] for name, named in page.tags if named.get("rel") == "canonical"]
    assert parse_qs(urlsplit(canonical).query)["group"] == GROUPS
    assert parse_qs(urlsplit(canonical).query)["x"] == ["group"]


def test_series_in_several_groups_or_none_are_reported(viewer: Client) -> None:
    host = make_host()
    for count in (1, 2, 4, 8):
        make_bar(count, 100.0 * count, host=host)
    groups = ["few = volumes:1..2", "two = volumes:2..4", "empty = volumes:99"]

    words = Page(viewer.get(reverse("scaling"), {"group": groups})).words

    assert "1 series in no group: not shown." in words
    assert "1 series of group two also in group few: shown there." in words
    assert "Group empty has no series: none matches volume_count:99." in words


def test_bad_group_is_an_error_with_all_groups_to_correct(viewer: Client) -> None:
    make_bar(1, 100.0, host=make_host())
    groups = ["few = volumes:1..2", "words = depth:x"]

    page = Page(response := viewer.get(reverse("scaling"), {"group": groups}))

    fields = [tag["value"] for name, tag in page.tags if name == "input" and tag.get("name") == "group"]
    assert (response.status_code, fields) == (400, groups)
    assert "Group 2: 'words': iodepth:x is not a valid number." in page.words


def test_values_of_x_become_groups_by_a_link(viewer: Client) -> None:
    make_ebs_series(4, 6, 8)
    query = {"q": "file_size:50G volumes:4", "x": "volume_size,volume_type"}

    page = Page(viewer.get(reverse("scaling"), query))

    (link,) = [link for link in page.links if link.startswith("/scaling/?") and "group=" in link]
    grouped = Page(viewer.get(link))
    assert "20 GiB · standardstandard, 20 GiB volumes200 GiB · provisioned-iops" in grouped.words
    assert "Random read: 200 GiB · provisioned-iops delivers 6.1x" in grouped.words.replace("\u202f", " ")


def test_cell_of_a_group_links_to_its_series(viewer: Client) -> None:
    host = make_host("db-01")
    for count in (1, 2, 4):
        make_bar(count, 100.0 * count, host=host)

    page = Page(viewer.get(reverse("scaling"), {"group": ["few = volumes:1..2", "many = volumes:>2"]}))

    (several,) = [link for link in page.links if link.startswith("/series/?q=")]
    assert parse_qs(urlsplit(several).query)["q"] == ["volume_count:1..2 pattern:randread"]


def test_targets_are_in_sentences_chart_and_table(viewer: Client) -> None:
    make_ebs_series(2)
    query = {"q": "bs:4k rw:randread", "target": ["iops:24000:Database", "p99:1ms:Latency"]}

    response = viewer.get(reverse("scaling"), query)

    words = Page(response).words.replace("\u202f", " ")
    assert "4 of 5 layouts reach Database (24 000 IOPS); not 1 volume." in words
    assert "Target: Database24 00024 000" in words
    assert words.count("misses Database") == 1
    assert "Target Latency is not shown: it is of p99 latency." in words
    (target,) = read_document(response)["layers"][0]["facets"][0]["limits"]
    assert (target["name"], target["values"], target["isTarget"]) == (
        "target: Database",
        [24000.0] * 5,
        True,
    )


def test_targets_are_in_the_copied_link_and_in_a_study(db: Any) -> None:
    make_ebs_series(2)

    figure = show_scaling(QueryDict("q=bs:4k rw:randread&target=iops:40k:Peak"), base_url="")

    assert parse_qs(figure.query)["target"] == ["iops:40k:Peak"]
    assert figure.sentences[0].text.replace("\u202f", " ") == "0 of 5 layouts reach Peak (40 000 IOPS)."


def test_target_of_several_curves_is_one_sentence(db: Any) -> None:
    make_ebs_series(2)

    assert describe("q=bs:4k&target=iops:8000*n:Volume&target=iops:24000:Database")[:2] == [
        (
            "Layouts that reach Volume (8 000 IOPS per volume): sequential read 2 of 5, sequential write 0 of 5,"
            " random read 2 of 5, random write 0 of 5."
        ),
        (
            "Layouts that reach Database (24 000 IOPS): sequential read 2 of 5, sequential write 0 of 5,"
            " random read 4 of 5 (not 1 volume), random write 0 of 5."
        ),
    ]


def test_several_metrics_have_charts_tables_and_sentences(viewer: Client) -> None:
    host = make_host()
    for count in (1, 2, 4):
        series = make_bar(count, 1000.0 * count, host=host)
        make_level(series, "latency_p99_ns", 1e6 * count)

    response = viewer.get(reverse("scaling"), {"metric": ["iops", ",p99"], "target": "p99:2ms:Database"})

    page = Page(response)
    document = read_document(response)
    assert [layer["metric"]["label"] for layer in document["layers"][1:]] == ["p99 latency"]
    words = page.words
    assert page.words.count("IOPS and p99 latency over 1–4 volumes: IOPS: scales linearly") >= 1
    assert "p99 latency: 2 of 3 layouts meet Database (2.00 ms); not 4 volumes." in words
    assert "IOPS: random read scales linearly" in words or "IOPS: IOPS scales" not in words
    assert "p99 latency, ms, by volumes" in words
    anchors = {named["id"] for name, named in page.tags if name == "td" and "id" in named}
    linked = [named["data-cells"] for name, named in page.tags if name == "a" and "data-cells" in named]
    assert {anchor for each in linked for anchor in each.split()} <= anchors
    (canonical,) = [named["href"] for name, named in page.tags if named.get("rel") == "canonical"]
    assert parse_qs(urlsplit(canonical).query)["metric"] == ["iops,latency_p99_ns"]


def test_every_sentence_links_to_cells_of_the_table(viewer: Client) -> None:
    make_ebs_series(2)

    page = Page(viewer.get(reverse("scaling")))

    cells = {named["id"] for name, named in page.tags if name == "td" and "id" in named}
    linked = [named for name, named in page.tags if name == "a" and "data-cells" in named]
    assert len(linked) >= 4
    assert all(link["href"] == f"#{link['data-cells'].split()[0]}" for link in linked)
    assert {anchor for link in linked for anchor in link["data-cells"].split()} <= cells


def test_chart_has_the_values_of_the_table(viewer: Client) -> None:
    make_ebs_series(2)

    response = viewer.get(reverse("scaling"), {"q": "bs:4k"})

    drawn = [
        cell["median"]
        for line in read_document(response)["layers"][0]["facets"][0]["lines"]
        for cell in line
        if cell
    ]
    table = [
        float(named["data-value"])
        for name, named in Page(response).tags
        if name == "td" and named.get("data-value")
    ]
    assert drawn == table
    assert drawn[:5] == [16730, 17854, 19830, 28315, 29210]


def test_cell_links_to_its_series_or_to_a_list_of_several(viewer: Client) -> None:
    host = make_host("db-01")
    series = make_bar(1, 100.0, host=host)
    make_bar(2, 100.0, host=host)
    make_bar(2, 300.0, host=host)

    page = Page(viewer.get(reverse("scaling")))

    assert reverse("series", args=[series.pk]) in page.links
    (several,) = [link for link in page.links if link.startswith("/series/?q=")]
    assert parse_qs(urlsplit(several).query)["q"] == ["volume_count:2 pattern:randread"]
    assert "Up to 2 series per combination, with different other options" in page.words


def test_automatic_choices_are_in_the_copied_link(viewer: Client) -> None:
    make_ebs_series(2, 3)

    page = Page(viewer.get(reverse("scaling")))

    (canonical,) = [named["href"] for name, named in page.tags if named.get("rel") == "canonical"]
    assert parse_qs(urlsplit(canonical).query) == {
        "q": ["file_size_bytes:5G"],
        "x": ["volume_count"],
        "metric": ["iops"],
        "color": ["pattern"],
    }


def test_fixed_dimension_can_be_changed_or_released(viewer: Client) -> None:
    make_ebs_series(2, 3)

    page = Page(viewer.get(reverse("scaling")))
    other = viewer.get(reverse("scaling"), {"q": "bs:4k", "fix": ["", "file_size_bytes:15G"]})
    free = viewer.get(reverse("scaling"), {"fix": "file_size_bytes:*"})

    assert {"?fix=file_size_bytes:15G", "?fix=file_size_bytes:*"} <= set(page.links)
    assert other.headers["Location"] == "/scaling/?q=block_size_bytes:4k%20file_size_bytes:15G"
    assert free.headers["Location"] == "/scaling/?any=file_size_bytes"


@pytest.mark.parametrize(
    ("query", "moved"),
    [
        ("q=bs:4k", None),
        ("q=bs:4k&fix=", "q=bs:4k"),
        ("any=filesystem&fix=filesystem:xfs", "q=filesystem:xfs"),
        ("q=filesystem:xfs&fix=filesystem:*", "any=filesystem"),
        ("fix=speed:9&x=iodepth", "x=iodepth"),
        ("fix=iodepth:x", ""),
    ],
)
def test_fixed_value_becomes_a_term_of_the_filter(query: str, moved: str | None) -> None:
    found = apply_fixed(QueryDict(query))

    assert (found.urlencode(safe=":") if found is not None else None) == moved or (
        found is not None and found == QueryDict(moved)
    )


def test_caption_notes_one_run_per_value(viewer: Client) -> None:
    make_bar(1, 100.0, host=make_host())

    assert "one run per value, no spread" in Page(viewer.get(reverse("scaling"))).words


def test_spread_and_count_are_under_the_median(viewer: Client) -> None:
    host = make_host()
    make_bar(1, 1000.0, host=host, n=12, p10=900.0, p90=1100.0)
    make_bar(4, 3000.0, host=host, n=8, p10=2900.0, p90=3300.0)

    words = Page(viewer.get(reverse("scaling"))).words

    assert "900–1\u202f100, n 12" in words
    assert "2\u202f900–3\u202f300, n 8" in words
    assert "75 %" in words
    assert "median of 8 to 12 runs, whiskers p10 to p90" in words


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"x": "speed"}, "'speed' is not a valid dimension"),
        ({"metric": "iops,p50,p95,p99"}, "4 metrics given, at most 3 allowed"),
        ({"metric": "speed"}, "'speed' is not a valid metric"),
        ({"x": "host,pool,rw,engine"}, "4 dimensions combined, at most 3 allowed"),
        ({"facet": "pattern"}, "x, color and facet must be different"),
        ({"over": "iops", "metric": "iops"}, "is not a latency"),
        ({"limit": "fast"}, "limit 'fast' is not NAME:VALUE"),
        ({"target": "iops:1"}, "target 'iops:1' is not METRIC:VALUE:NAME"),
        ({"as_of": "x"}, "As of: 'x' is not a valid date"),
        ({"as_of": "2026-13-01"}, "is not a valid date"),
        ({"compare_days": "0"}, "is not a number of days from 1 to 3650"),
        ({"draw": "pies"}, "'pies'"),
        ({"scale": "x"}, "'x'"),
        ({"any": "speed"}, "'speed' is not a valid dimension"),
    ],
)
def test_invalid_parameter_is_an_error_without_a_chart(
    query: dict[str, str], words: str, viewer: Client
) -> None:
    make_bar(4, 100.0, host=make_host())

    response = viewer.get(reverse("scaling"), {"color": "pattern", **query})

    assert response.status_code == 400
    assert words in Page(response).words
    assert "data-scaling" not in response.content.decode()


@pytest.mark.parametrize(
    "query", [{"as_of": "9999-12-31"}, {"as_of": "0001-01-01", "compare_days": "30"}, {"as_of": "0001-01-01"}]
)
@pytest.mark.parametrize("name", ["scaling", "api_scaling"])
def test_first_and_last_day_of_the_calendar_are_valid(
    name: str, query: dict[str, str], viewer: Client
) -> None:
    make_bar(4, 100.0, host=make_host())

    assert viewer.get(reverse(name), query).status_code == 200


def test_failed_series_link_to_their_runs(viewer: Client) -> None:
    series = make_series(host=make_host("db-1"))
    Series.objects.filter(pk=series.pk).update(
        measurement_count=1, first_at=NOON, last_at=NOON, badges=["failed-job"]
    )

    page = Page(viewer.get(reverse("scaling"), {"q": "host:db-1"}))

    assert "1 matching series: all runs failed." in page.words
    assert "/runs/?q=host%3Adb-1" in page.links


def test_share_of_ideal_is_explained_only_if_the_table_has_one(viewer: Client) -> None:
    host = make_host()
    make_bar(4, 100.0, host=host)

    assert "% of ideal:" not in Page(viewer.get(reverse("scaling"))).words
    make_bar(8, 150.0, host=host)
    assert "% of ideal:" in Page(viewer.get(reverse("scaling"))).words


def test_empty_server_says_how_the_first_results_come_in(viewer: Client) -> None:
    assert "No results yet" in Page(viewer.get(reverse("scaling"))).words


def test_filter_without_matches_offers_all_series(viewer: Client) -> None:
    make_bar(1, 100.0, host=make_host())

    page = Page(viewer.get(reverse("scaling"), {"q": "host:nobody"}))

    assert "host:nobody matches no series." in page.words
    assert "Remove a filter or show all." in page.words


def test_metric_without_values_counts_the_matching_series(viewer: Client) -> None:
    make_bar(1, 100.0, host=make_host())

    words = Page(viewer.get(reverse("scaling"), {"metric": "elapsed_s"})).words

    assert "Elapsed time: no value in 1 matching series." in words


def test_html_in_a_name_is_escaped(viewer: Client) -> None:
    hostile = "<img src=x onerror=alert(1)></script>"
    series = make_series(host=make_host(), target=make_target(volume_type=hostile, volume_count=1))
    Series.objects.filter(pk=series.pk).update(measurement_count=1, last_at=NOON)
    make_level(series, "iops", 5.0)

    response = viewer.get(reverse("scaling"), {"x": "volume_type", "limit": f"{hostile}:9"})

    assert "<img" not in response.content.decode()
    assert read_document(response)["x"]["labels"] == [hostile]


def test_curl_command_and_csv_have_the_data_of_the_page(viewer: Client) -> None:
    make_ebs_series(2)

    response = viewer.get(reverse("scaling"), {"q": "bs:4k", "facet": "instance_type", "scale": "log"})

    (line,) = re.findall(r"/api/v1/scaling\?[^']*", Page(response).words)
    answer = viewer.get(line.split("&amp;")[0]).json()
    assert [cell["median"] for cell in answer["cells"]][:5] == [16730, 17854, 19830, 28315, 29210]
    assert any(
        link.startswith("/api/v1/scaling?") and link.endswith("format=csv") for link in Page(response).links
    )


def test_number_of_queries_does_not_grow_with_series(viewer: Client, django_assert_num_queries: Any) -> None:
    make_ebs_series(2, 3)

    # Session, person, sample and others, snapshot, marks, new incidents; series are read beside Django's cursor.
    with django_assert_num_queries(7):
        viewer.get(reverse("scaling"))


def test_limits_above_all_values_are_listed(db: Any) -> None:
    host = make_host("db-3")
    for count in (1, 2, 4):
        make_bar(count, 1000.0 * count, host=host)

    asked = "q=host:db-3&limit=far:90000&limit=each:4000*n&limit=near:3000"
    figure = show_scaling(QueryDict(asked), base_url="")
    remarks = [words.replace("\u202f", " ") for words in figure.remarks]

    assert "Limit far is above all values: 90 000 IOPS." in remarks
    assert "Limit each is above all values at volumes 2, 4: 8 000 IOPS or more." in remarks
    assert not [words for words in remarks if "near" in words]


@pytest.mark.parametrize(
    ("spread", "words"),
    [
        ({}, "IOPS increases by 12 % from 1 to 2 volumes (1 000 → 1 120 IOPS, 56 % of ideal)."),
        (
            {"n": 5, "p10": 800.0, "p90": 1300.0},
            (
                "IOPS shows no significant difference: 1 000 to 1 120 IOPS, margin of error 456 IOPS;"
                " more runs needed."
            ),
        ),
        (
            {"n": 100, "p10": 990.0, "p90": 1130.0},
            "IOPS increases by 12 % from 1 to 2 volumes (1 000 → 1 120 IOPS, 56 % of ideal).",
        ),
    ],
)
def test_findings_depend_on_the_spread_of_the_runs(spread: dict[str, float], words: str, db: Any) -> None:
    host = make_host("db-4")
    for count, value in ((1, 1000.0), (2, 1120.0)):
        make_bar(count, value, host=host, **spread)

    assert words in describe("q=host:db-4&x=volume_count&color=none")


def test_open_changes_are_counted_and_named_beside_the_chart(viewer: Client) -> None:
    host = make_host("db-1")
    for count, after in ((1, 780.0), (2, 800.0), (4, 1000.0)):
        judging.make_cells(
            host,
            [judging.make_level(1000.0, 24) + judging.make_level(after, 10)],
            targets=[{"volume_type": "gp3", "volume_count": count}],
        )
    judge_due()

    page = Page(viewer.get(reverse("scaling")))

    assert "2 of 3 values have an open regression: 1 volume (−22 %), 2 volumes (−20 %)." in page.words
    assert len([link for link in page.links if link.startswith("/incidents/") and link != "/incidents/"]) == 2


def test_runs_are_shown_on_request_with_their_number_if_not_all(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "CELL_RUNS_MAXIMUM", 2)
    host = make_host("db-02")
    add_series([100.0, 110.0, 120.0], host=host, target=make_target(volume_count=1))

    response = viewer.get(reverse("scaling"), {"runs": "1"})

    (cell,) = read_document(response)["layers"][0]["facets"][0]["lines"][0]
    assert cell["runs"]["values"] == [110.0, 120.0]
    assert (cell["runs"]["names"], cell["runs"]["hosts"]) == (["db-02"], [0, 0])
    page = Page(response)
    assert "2 of 3 runs shown: the newest of each series, up to 2 runs per combination." in page.words
    assert "Small dots are single runs." in page.words
    assert 'name="runs" value="1" checked' in response.content.decode()
    (csv_link,) = {link for link in page.links if "format=csv" in link}
    assert "runs=1" in csv_link


def test_runs_are_left_out_by_default(viewer: Client) -> None:
    add_series([100.0, 110.0], target=make_target(volume_count=1))

    response = viewer.get(reverse("scaling"))

    assert "runs" not in read_document(response)["layers"][0]["facets"][0]["lines"][0][0]
    assert "runs shown" not in Page(response).words
    assert "Small dots" not in Page(response).words


def test_choice_of_runs_is_in_the_copied_link(db: Any) -> None:
    add_series([100.0, 110.0], target=make_target(volume_count=1))

    assert parse_qs(show_scaling(QueryDict("runs=1"), base_url="").query)["runs"] == ["1"]
    assert "runs" not in parse_qs(show_scaling(QueryDict(""), base_url="").query)


def test_models_are_sentences_a_table_and_curves(viewer: Client) -> None:
    make_ebs_series(2)

    response = viewer.get(reverse("scaling"), {"q": "bs:4k rw:randread", "model": "1", "predict": "3,40"})

    page = Page(response)
    assert "peak at 3 volumes, 16 volumes reach 100 % of it (Linear up to a limit)" in page.words
    assert re.search(r"prediction for 3 volumes [\d\s\u202f]+IOPS \(80 % interval", page.words)
    assert "no prediction for 40; the model covers 1 to 24" in page.words
    (facet,) = read_document(response)["layers"][0]["facets"]
    (curve,) = facet["models"]
    assert len(curve["positions"]) == len(curve["values"]) == 16
    assert all(low <= high for low, high in zip(curve["lows"], curve["highs"], strict=True))
    assert [(each["position"], each["label"]) for each in curve["predictions"]] == [
        (pytest.approx(1.585, abs=1e-3), "3")
    ]


def test_model_that_does_not_apply_is_an_error_of_the_page(viewer: Client) -> None:
    make_ebs_series(2)

    response = viewer.get(reverse("scaling"), {"model": "1", "x": "pattern"})

    assert response.status_code == 400
    assert "model needs x volume_count or stripe_count; it is pattern" in Page(response).words


def test_curve_with_three_widths_has_no_model(db: Any) -> None:
    host = make_host()
    for count in (1, 2, 4):
        make_bar(count, 1000.0 * count, host=host)

    assert "IOPS: no scaling model; 3 widths were measured; a model needs at least 4." in [
        re.sub(r"^Random read", "IOPS", text) for text in describe("model=1")
    ]


def test_heading_counts_the_shown_series_and_rows_name_their_depth(viewer: Client) -> None:
    host = make_host("db-1")
    for rw, depth in (("randread", 16), ("read", 4)):
        for volume_type in ("gp2", "gp3", "io2"):
            for count in (1, 2):
                target = make_target(volume_type=volume_type, volume_count=count)
                work = make_workload(rw=rw, iodepth=depth)
                make_series([9.0 + count], host=host, target=target, workload=work)
    calculate_levels()

    words = Page(viewer.get(reverse("scaling"))).words

    assert "4 of 12 series (show all)" in words
    assert "gp3 (4 series: 10.0 IOPS to 11.0 IOPS)" in words
    assert "sequential readQD 4" in words
    assert "random readQD 16" in words


@pytest.fixture
def regressed(db: Any) -> None:
    """Throughput is linear in the volumes; at 16 volumes it has lost 65 % since the newest ten runs."""
    host = make_host("db-01")
    for count in (1, 2, 4, 8, 16):
        values = judging.make_level(1000.0 * count, 40)
        if count == 16:
            values[30:] = judging.make_level(5600.0, 10)
        make_series(values, host=host, target=make_target(volume_type="gp3", volume_count=count))
    judge_due()


def test_finding_does_not_rest_on_a_regressed_value(regressed: None, viewer: Client) -> None:
    response = viewer.get(reverse("scaling"), {"model": "1"})

    before = ", before the open regression at 16 volumes."
    assert [sentence.text for sentence in response.context["figure"].sentences] == [
        f"Random read: no peak expected up to 24 volumes; 2.00x from 8 to 16 volumes (Linear){before}",
        f"Random read scales linearly: 16x from 1 to 16 volumes (100 % of ideal){before}",
    ]
    words = Page(response).words
    assert "scales linearly: 16x from 1 to 16 volumes; 1 of 5 values has an open regression" in words
    assert "▼ −65 %" in words


def test_target_that_a_regressed_value_misses_says_so(regressed: None) -> None:
    assert "1 of 2 layouts reaches Database (6 000 IOPS); not 16 volumes (open regression)." in describe(
        "q=volume_count:8,16&target=iops:6000:Database"
    )
