"""How far to trust a run, as the pages say it."""

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import Series
from benchapp.series.pages.run_tables import BADGES, list_quality_findings
from benchapp.series.read.shapes import BADGE_CODES, BadgeRow
from tests.factories import (
    calculate_levels,
    make_host,
    make_measurement,
    make_run,
    make_series,
    make_workload,
)
from tests.pages import Page

ROOT = Path(__file__).parents[4]
SHORT = {"code": "too-short", "sentence": "It ran 3 s <b>.", "numbers": {"runtime_s": 3.0}}
FEW = {"code": "few-samples", "sentence": "Fewer than 10 of 12.", "numbers": {"samples": 12}}


def make_marked_run(*badges, name: str = "db-01", **fields):
    run = make_run(make_host(name), badges=sorted(badge["code"] for badge in badges), **fields)
    make_measurement(run, job_name="reads", iops=1000.0, badges=list(badges))
    return run


def make_timed_run(*seconds: float, profile: str = "gitlab-smallfiles"):
    run = make_run(profile=profile, format="time", fio_version="")
    for number, elapsed_s in enumerate(seconds):
        series = make_series(host=run.host, workload=make_workload(rw="write", iodepth=number + 1))
        make_measurement(run, series, job_name=f"loop-{number}", latency_kind="", elapsed_s=elapsed_s)
    return run


def test_run_says_how_far_to_trust_it_without_hovering(viewer: Client) -> None:
    run = make_marked_run(FEW, SHORT)

    page = Page(viewer.get(reverse("run", args=[run.pk])))

    words = page.words[page.words.index("Data quality") :]
    assert words.index("It ran 3 s <b>. reads") < words.index("Fewer than 10 of 12. reads")
    assert "/docs/badges#too-short" in page.links
    assert not page.has("b")


def test_run_without_badges_says_that_nothing_speaks_against_it(viewer: Client) -> None:
    run = make_marked_run(parser_version=2)

    assert "No findings." in Page(viewer.get(reverse("run", args=[run.pk]))).words


def test_run_that_was_never_judged_says_so(viewer: Client) -> None:
    good = make_marked_run(parser_version=1)
    failed = make_marked_run({**SHORT, "code": "failed-job"}, name="db-02", parser_version=1, error=5)

    words = Page(viewer.get(reverse("run", args=[good.pk]))).words
    words_of_failed = Page(viewer.get(reverse("run", args=[failed.pk]))).words

    said = "Not checked: parser version 1"
    assert said in words
    assert "No findings." not in words
    assert "Other checks were not run: parser version 1" in words_of_failed


def test_sentence_that_several_rows_share_is_told_once() -> None:
    badge = BadgeRow("too-short", "It ran 3 s.", {})
    graver = BadgeRow("cached", "A cache did.", {})

    doubts = list_quality_findings([("reads", [badge]), ("writes", [badge, graver])])

    assert [(doubt["codes"], doubt["names"]) for doubt in doubts] == [
        (("cached",), ("writes",)),
        (("too-short",), ("reads", "writes")),
    ]


def test_list_of_runs_shows_marks_and_filters_by_one(viewer: Client) -> None:
    make_marked_run(SHORT, name="db-01")
    make_marked_run(FEW, name="db-02")

    everything = Page(viewer.get(reverse("runs")))
    some = Page(viewer.get(reverse("runs"), {"badge": "too-short"}))

    assert {"/docs/badges#too-short", "/docs/badges#few-samples"} <= set(everything.links)
    assert "/hosts/db-01/" in some.links
    assert "/hosts/db-02/" not in some.links


def test_badge_that_is_none_is_refused_in_words(viewer: Client) -> None:
    response = viewer.get(reverse("runs"), {"badge": "<i>"})

    assert response.status_code == 400
    assert "Badge: not a valid badge. Valid values: failed-job" in Page(response).words
    assert not Page(response).has("i")


def test_series_shows_the_badges_of_its_newest_and_of_each_point(viewer: Client) -> None:
    series = make_series([1.0])
    make_measurement(make_run(host=series.host), series, iops=2.0, badges=[SHORT])
    Series.objects.filter(pk=series.pk).update(badges=["too-short"])

    page = Page(viewer.get(reverse("series", args=[series.pk])))

    assert page.links.count("/docs/badges#too-short") == 2
    assert "too-short of the latest run" in page.words
    assert any(tag.get("data-harmless") == "few-samples too-short reported" for _, tag in page.tags)


def test_every_badge_is_explained_on_its_page_and_in_the_docs(client: Client) -> None:
    page = Page(client.get(reverse("docs_page", args=["badges"])))
    text = (ROOT / "docs" / "runs.md").read_text()

    assert tuple(BADGES) == BADGE_CODES
    assert {tag["id"] for name, tag in page.tags if name == "div" and "id" in tag} >= set(BADGE_CODES)
    assert [line for line in text.splitlines() if line.startswith("## `")] == [
        f"## `{code}`" for code in BADGE_CODES
    ]


def test_timed_work_has_a_column_of_seconds_and_no_empty_ones(viewer: Client) -> None:
    run = make_timed_run(0.116, 3.118)

    page = Page(viewer.get(reverse("run", args=[run.pk])))
    listed = Page(viewer.get(reverse("runs")))

    assert [(cell["data-metric"], cell["title"]) for cell in page.cells] == [
        ("elapsed_s", "0.116"),
        ("elapsed_s", "3.118"),
    ]
    assert {cell["data-metric"] for cell in listed.cells} == {"elapsed_s"}
    assert "Bandwidth" not in listed.words


@pytest.mark.parametrize(
    ("elapsed_s", "words"), [(9.99, " good: under 10 s"), (10.0, " bad (good: under 10 s)")]
)
def test_limit_of_the_small_files_test_is_told_as_good_or_bad(
    elapsed_s: float, words: str, viewer: Client
) -> None:
    run = make_timed_run(elapsed_s)

    page = Page(viewer.get(reverse("run", args=[run.pk])))

    assert words in page.words
    assert "good file systems take under 10 seconds" in page.words


def test_limit_is_of_its_profile_only(viewer: Client) -> None:
    run = make_timed_run(3.0, profile="other")

    assert "under 10 s" not in Page(viewer.get(reverse("run", args=[run.pk]))).words


def test_series_of_timed_work_offers_elapsed_time_and_draws_the_limit(viewer: Client) -> None:
    run = make_timed_run(3.118)
    series = Series.objects.get(measurements__run=run)
    calculate_levels()

    page = Page(viewer.get(reverse("series", args=[series.pk])))

    (figure,) = [tag for name, tag in page.tags if name == "figure"]
    assert [tag["data-metric"] for name, tag in page.tags if "chart-box main" in tag.get("class", "")] == [
        "elapsed_s"
    ]
    assert (figure["data-limit"], figure["data-limit-label"]) == ("10.0", "good: under 10 s")
    assert "Limit 10.0 s (good: under 10 s): both pass." in page.words
    assert "?metric=iops" not in page.links


def test_series_of_fio_offers_no_elapsed_time(viewer: Client) -> None:
    series = make_series([1.0])

    page = Page(viewer.get(reverse("series", args=[series.pk])))

    assert "?metric=iops" in page.links
    assert "?metric=elapsed_s" not in page.links
