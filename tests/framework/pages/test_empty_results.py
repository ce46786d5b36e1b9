"""A page without results states which part of its filter excludes everything, and links to the nearest values."""

from urllib.parse import quote_plus

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import make_environment, make_host, make_run, make_series, make_target
from tests.pages import Page
from tests.shared_rows import shared_rows

PAGES = ("scaling", "matrix", "history", "series_list", "runs", "hosts", "incidents", "benchmark_health")
NOUNS = {"runs": "runs", "home": "hosts", "hosts": "hosts"}
LAYOUTS = [("gp3", 1), ("gp3", 4), ("gp3", 16), ("io2", 1), ("io2", 2)]


@shared_rows
def fleet() -> None:
    """Store series of two hosts, with gp3 of 1 to 16 volumes and io2 of 1 and 2, and of one host of a pool."""
    for host in (make_host("db-01"), make_host("db-02")):
        for kind, count in LAYOUTS:
            series = make_series(
                [1000.0], host=host, target=make_target(volume_type=kind, volume_count=count)
            )
            run = series.measurements.get().run
            run.labels, run.environment = {"rack": "R1"}, make_environment(kernel="6.1.0")
            run.target = series.target
            run.save()
    make_series([1000.0], pool="blue", host=make_host("web-01", pool="blue"))


def open_page(viewer: Client, name: str, q: str, **others: str) -> Page:
    response = viewer.get(reverse(name), {"q": q, **others})
    assert response.status_code == 200
    return Page(response)


@pytest.mark.parametrize("name", [*PAGES, "home"])
def test_value_that_does_not_exist_is_named_with_the_nearest_one(
    name: str, viewer: Client, fleet: None
) -> None:
    page = open_page(viewer, name, "host:db-* type:gp33")

    noun = NOUNS.get(name, "series")
    assert f"volume_type:gp33 matches no {noun}. Try volume_type:gp3" in page.words
    assert f"{reverse(name)}?q={quote_plus('host:db-* volume_type:gp3')}" in page.links


@pytest.mark.parametrize(
    ("q", "sentence"),
    [
        ("type:gp33", "volume_type:gp33 matches no series. Try volume_type:gp3 or volume_type:io2."),
        ("volumes:15", "volume_count:15 matches no series. Try volume_count:16,"),
        ("volumes:>=32", "volume_count:>=32 matches no series. Try volume_count:16,"),
        ("volumes:5..14", "volume_count:5..14 matches no series. Try volume_count:4,"),
        ("host:db-03", "host:db-03 matches no series. Try host:db-01 or host:db-02."),
        ("host:web-01", "host:web-01 matches no series. Try pool:blue,"),
        ("pool:blu", "pool:blu matches no series. Try pool:blue."),
        ("pattern:randraed", "pattern:randraed matches no series. Try pattern:randread."),
        ("kernel:6.1", "kernel:6.1 matches no series. Try kernel:6.1.0."),
        ("label.rack:r9", "label.rack:r9 matches no series. Try label.rack:R1."),
        ("label.RACK:r1", "label.RACK:r1 matches no series. Try label.rack:r1."),
        ("rack r1", "r1 matches no series. Try label.rack:r1."),
        (
            "type:io2 volumes:16",
            "volume_type:io2 and volume_count:16 match no series together. Try volume_type:gp3, volume_count:2 or",
        ),
        ("host:db-01 -type:gp3,io2", "-volume_type:gp3,io2 match no series together."),
        ("type:gp33 volumes:15", "volume_type:gp33 matches no series. Try volume_type:gp3"),
        ("type:gp33 volumes:15", "volume_count:15 matches no series. Try volume_count:16"),
        (
            "depth:8 type:io2 host:db-01 volumes:4",
            "volume_type:io2 and volume_count:4 match no series together.",
        ),
    ],
)
def test_smallest_part_that_excludes_everything_is_named(
    q: str, sentence: str, viewer: Client, fleet: None
) -> None:
    assert sentence in open_page(viewer, "series_list", q).words


def test_every_suggestion_finds_something(viewer: Client, fleet: None) -> None:
    for q in ("type:gp33", "volumes:15", "host:web-01", "type:io2 volumes:16", "rack r1", "kernel:6.1"):
        page = open_page(viewer, "series_list", q)
        suggested = [link for link in page.links if link.startswith("/series/?q=") and "sort" not in link]

        assert suggested
        assert all("/series/" in " ".join(Page(viewer.get(link)).links) for link in suggested)


def test_suggestion_keeps_the_other_parameters(viewer: Client, fleet: None) -> None:
    page = open_page(viewer, "scaling", "type:gp33", metric="iops", **{"from": "2020-01-01"})

    assert "/scaling/?q=volume_type%3Agp3&metric=iops&from=2020-01-01" in page.links


@pytest.mark.parametrize("name", PAGES)
def test_time_range_is_named_if_only_it_excludes_everything(name: str, viewer: Client, fleet: None) -> None:
    page = open_page(viewer, name, "type:gp3", **{"from": "2001-01-01", "to": "2001-01-02"})

    assert "in this time range" in page.words
    assert "matches no" not in page.words


def test_nothing_is_excluded_on_an_empty_server(viewer: Client) -> None:
    page = open_page(viewer, "series_list", "type:gp3")

    assert "matches no" not in page.words


def test_runs_are_excluded_by_what_their_other_series_have(viewer: Client) -> None:
    """The terms of a workload match one measurement; those of the layout match the run."""
    make_run(make_host("db-01"), target=make_target(volume_type="gp3"))

    assert "volume_type:io2 matches no runs." in open_page(viewer, "runs", "host:db-01 type:io2").words
