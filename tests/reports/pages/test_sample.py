"""The eight ready studies show every number of the published tables, to the last digit, and what they say is so."""

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from benchapp.intake.importing.sample import Loaded, load_sample
from benchapp.intake.normalize.reparse import renormalize
from benchapp.models import Host, Measurement, PanelKind, Run, Series, Study, Submission
from tests.ebs_tables import TABLES, Table
from tests.pages import Page
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def sample() -> Loaded:
    return load_sample()


class Tables(HTMLParser):
    """The tables of a page, each as (what stands in the heads, rows of (heads, cells as (text, title, raw)))."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[dict[str, Any]] = []
        self._cell: dict[str, Any] | None = None
        self._tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "table":
            self.tables.append({"columns": [], "rows": [], "part": ""})
        elif tag in ("thead", "tbody"):
            self.tables[-1]["part"] = tag
        elif tag == "tr" and self.tables[-1]["part"] == "tbody":
            self.tables[-1]["rows"].append({"heads": [], "cells": []})
        elif tag in ("td", "th"):
            self._cell = {
                "text": "",
                "title": named.get("title", ""),
                "raw": named.get("data-value"),
                "sub": False,
            }
        elif tag == "span" and self._cell is not None and named.get("class") == "sub":
            self._cell["sub"] = True

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("td", "th") or self._cell is None:
            return
        cell, self._cell = self._cell, None
        table = self.tables[-1]
        if table["part"] == "thead":
            table["columns"].append(cell["text"].strip())
        else:
            table["rows"][-1]["cells" if cell["raw"] is not None else "heads"].append(cell)

    def handle_data(self, data: str) -> None:
        if self._cell is not None and not self._cell["sub"]:
            self._cell["text"] += data


def show(client: Client, loaded: Loaded, number: int) -> tuple[str, list[dict[str, Any]]]:
    """Return the page of a study (1 to 8) and its tables."""
    study_id = loaded.studies[number - 1][0]
    html = client.get(f"/studies/{study_id}/").content.decode()
    return html, Tables(html).tables


def read_iops(table: dict[str, Any]) -> dict[tuple[str, ...], dict[str, str]]:
    """Return heads of a row → column → IOPS as the table shows them, without the space between thousands."""
    return {
        heads: {at: cell["text"].replace("\u202f", "") for at, cell in cells} for heads, cells in walk(table)
    }


def read_exact(table: dict[str, Any]) -> dict[tuple[str, ...], dict[str, str]]:
    """Return heads of a row → column → the exact value that the title of the cell says."""
    return {heads: {at: cell["title"].split(" · ")[0] for at, cell in cells} for heads, cells in walk(table)}


def walk(table: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], list[tuple[str, dict[str, Any]]]]]:
    for row in table["rows"]:
        # The heads of columns that stand for values are the last ones.
        columns = table["columns"][-len(row["cells"]) :]
        cells = [pair for pair in zip(columns, row["cells"], strict=True) if pair[1]["title"]]
        yield tuple(head["text"].strip() for head in row["heads"]), cells


def as_shown(table: Table, unit: str = "", *, facet: str = "") -> dict[tuple[str, ...], dict[str, str]]:
    """Return a published table as `read_iops` and `read_exact` give it."""
    heads = (facet,) if facet else ()
    return {
        (*heads, name): {str(count): f"{figure}{unit}" for count, figure in row.items()}
        for name, row in table.items()
    }


def test_tables_hold_all_154_numbers() -> None:
    assert sum(len(row) for table in TABLES.values() for row in table.values()) == 154


@pytest.mark.parametrize("number", [1, 2, 3, 5, 7])
def test_iops_and_bandwidth_are_those_of_the_published_tables(
    viewer: Client, sample: Loaded, number: int
) -> None:
    size = 15 if number == 3 else 5
    _, tables = show(viewer, sample, number)

    assert read_iops(tables[0]) == as_shown(TABLES[number, "4k", size])
    assert read_exact(tables[1]) == as_shown(TABLES[number, "32m", size], " MB/s")


@pytest.mark.parametrize("number", [6, 8])
def test_iops_of_large_files_are_those_of_the_published_tables(
    viewer: Client, sample: Loaded, number: int
) -> None:
    _, tables = show(viewer, sample, number)

    assert read_iops(tables[0]) == as_shown(TABLES[number, "4k", 50])


def test_iops_of_50_and_100_gb_are_those_of_the_published_tables(viewer: Client, sample: Loaded) -> None:
    _, (table,) = show(viewer, sample, 4)

    assert read_iops(table) == {
        **as_shown(TABLES[4, "4k", 50], facet="50 GiB"),
        **as_shown(TABLES[4, "4k", 100], facet="100 GiB"),
    }


def test_small_and_large_volumes_stand_side_by_side(viewer: Client, sample: Loaded) -> None:
    _, tables = show(viewer, sample, 6)

    assert read_iops(tables[1]) == {
        ("20 GiB", "random read"): {"4": "1620", "8": "3774", "16": "6443"},
        ("20 GiB", "random write"): {"4": "513", "8": "736", "16": "2367"},
        ("200 GiB", "random read"): {"4": "1344", "8": "3322", "16": "10493"},
        ("200 GiB", "random write"): {"4": "577", "8": "1829", "16": "4357"},
    }


def test_standard_and_provisioned_volumes_stand_side_by_side(viewer: Client, sample: Loaded) -> None:
    _, tables = show(viewer, sample, 8)

    assert read_iops(tables[1]) == {
        ("provisioned-iops", "random read"): {"5 GiB": "8150", "50 GiB": "8191"},
        ("provisioned-iops", "random write"): {"5 GiB": "8157", "50 GiB": "8094"},
        ("standard", "random read"): {"5 GiB": "30321", "50 GiB": "1344"},
        ("standard", "random write"): {"5 GiB": "23215", "50 GiB": "577"},
    }


def test_small_and_large_files_stand_side_by_side(viewer: Client, sample: Loaded) -> None:
    _, tables = show(viewer, sample, 3)

    shown = read_iops(tables[2])
    assert shown["5 GiB", "random read"]["1"] == "14311"
    assert shown["15 GiB", "random read"]["1"] == "375"


def test_each_study_has_its_findings(viewer: Client, sample: Loaded) -> None:
    words = [
        "increase up to 4 volumes",
        "about 30 000 read and 23 000 write IOPS",
        "some hundreds of IOPS",
        "less than half of the read IOPS",
        "with four or more volumes, IOPS are those of small volumes",
        "1.6 to 1.8 times as fast",
        "linear in the number of volumes",
        "4 volumes deliver 8 000 random IOPS",
    ]

    pages = [viewer.get(f"/studies/{study_id}/") for study_id, _ in sample.studies]

    assert [said in Page(page).words for said, page in zip(words, pages, strict=True)] == [True] * 8


def test_loading_again_changes_nothing(sample: Loaded) -> None:
    counts = [model.objects.count() for model in (Host, Submission, Run, Measurement, Series, Study)]
    Study.objects.filter(pk=sample.studies[0][0]).update(text="Our own words.")

    again = load_sample()

    assert (sample.imported.measurements, sample.new_studies) == (154, 8)
    assert (again.imported.new, again.imported.already_there, again.new_studies) == (0, 30, 0)
    assert [model.objects.count() for model in (Host, Submission, Run, Measurement, Series, Study)] == counts
    assert counts == [1, 30, 30, 154, 154, 8]
    assert Study.objects.get(pk=sample.studies[0][0]).text == "Our own words."


def test_sample_is_read_again_like_everything_else(sample: Loaded) -> None:
    (outcome,) = renormalize(list(Submission.objects.values_list("id", flat=True)), is_dry_run=False)

    assert (outcome.unchanged, outcome.differences, outcome.rejected) == (30, [], [])


def test_digits_that_were_hard_to_read_are_noted(sample: Loaded) -> None:
    noted = [row for row in Measurement.objects.all() if "digits run together" in row.badges[0]["sentence"]]

    assert sorted(row.iops for row in noted) == [119, 375, 430, 1148, 1436, 1644, 2034, 10912, 26002, 26643]


def test_panels_are_of_kinds_that_there_are(sample: Loaded) -> None:
    kinds = {panel["kind"] for study in Study.objects.all() for panel in study.panels}

    assert kinds == {PanelKind.SCALING}
