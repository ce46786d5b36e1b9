"""Rankings of layouts in studies: saved, validated, shared; a question that is no longer valid."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from benchapp.framework.times import format_moment
from benchapp.models import Measurement, Price, Series, Study
from benchapp.reports.write import share_study
from tests.factories import make_change, make_incident, make_price
from tests.pages import Page
from tests.planted_layouts import plant_layouts
from tests.reports.pages.made_studies import make_study

pytestmark = pytest.mark.django_db
QUESTION = "iops=20000&p99_ms=3&capacity_gb=1000&block_size=4k"


def make_ranking(query: str = QUESTION) -> Study:
    return make_study(panels=[{"kind": "layouts", "query": query, "title": "", "text": ""}])


def post_study(client: Client, query: str) -> Any:
    return client.post(reverse("add_study"), {"kind": "layouts", "query": query, "title": "Disks for orders"})


def test_page_saves_its_question_and_the_study_shows_the_current_answer(editor: Client) -> None:
    plant_layouts()
    page = Page(editor.get(f"/layouts/?{QUESTION}&mb_per_s=&q="))
    (link,) = [link for link in page.links if link.startswith(reverse("add_study"))]
    fields = {
        tag["name"]: tag["value"] for name, tag in Page(editor.get(link)).tags if tag.get("type") == "hidden"
    }

    post_study(editor, str(fields["query"]))

    study = Study.objects.get()
    assert study.panels == [{"kind": "layouts", "query": QUESTION, "title": "", "text": ""}]
    words = Page(editor.get(reverse("study", args=[study.pk]))).words
    assert "8 × gp3 128 GiB" in words and "meets the requirement for USD 643 per month" in words
    assert "Closest miss: xfs on 16 × gp3 64 GiB" in words
    assert "no price of volume type local" in words
    make_price(valid_from="2026-02-01", per_gib_month=0.16)
    assert "for USD 643 per month" not in Page(editor.get(reverse("study", args=[study.pk]))).words


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("p99_ms=3", "iops: state iops or mb_per_s"),
        ("iops=-1", "iops: Ensure this value is greater"),
        ("iops=1&vary=kernel", "vary: Select a valid choice"),
        ("iops=1&q=speed:9", "q: Unknown filter"),
        ("iops=1&block_size=big", "block_size: "),
        ("iops=1&region=mars", "region: 'mars' is not a region with prices"),
    ],
)
def test_question_is_checked_when_it_is_saved(query: str, problem: str, editor: Client) -> None:
    by_page = post_study(editor, query)
    panels = [{"kind": "layouts", "query": QUESTION}, {"kind": "layouts", "query": query}]
    by_api = editor.post(
        "/api/v1/studies",
        {"title": "Disks", "panels": panels},
        content_type="application/json",
        headers={"Sec-Fetch-Site": "same-origin"},
    )

    assert by_page.status_code == 400
    assert problem in Page(by_page).words
    assert (by_api.status_code, by_api.json()["pointer"]) == (400, "/panels/1/query")
    assert problem in by_api.json()["detail"]
    assert not Study.objects.exists()


def test_region_that_was_removed_is_an_error_of_its_panel_only(editor: Client) -> None:
    plant_layouts()
    make_price(region="eu-west-1")
    make_price(region="mars")
    study = make_study(
        panels=[
            {"kind": "layouts", "query": f"{QUESTION}{region}", "title": "", "text": ""}
            for region in ("&region=mars", "")
        ]
    )
    token = share_study(study.pk)
    Price.objects.filter(region="mars").delete()

    words = Page(editor.get(reverse("study", args=[study.pk]))).words
    shared = Page(Client().get(f"/shared/{token}/charts/1")).words

    assert "Chart not available. 'mars' is not a region with prices. Available: eu-west-1." in words
    assert "8 × gp3 128 GiB" in words
    # Readers of the link do not learn the other regions.
    assert "Chart not available. 'mars' is not a region with prices." in shared
    assert "eu-west-1" not in shared
    assert Client().get(f"/shared/{token}/image.png").status_code == 200


def test_stored_question_with_a_parameter_that_is_gone_is_answered_without_it(editor: Client) -> None:
    plant_layouts()
    study = make_ranking(f"{QUESTION}&mixes=interpolated")

    words = Page(editor.get(reverse("study", args=[study.pk]))).words

    assert "meets the requirement for USD 643 per month" in words


@override_settings(PUBLIC_READ=False)
def test_shared_ranking_has_neither_links_nor_incidents_nor_hosts() -> None:
    series = plant_layouts()
    deciding = next(each for each in series if each.volume_size_bytes == 128 * 2**30 and each.iodepth == 32)
    make_incident(changes=[make_change(deciding)])
    token = share_study(make_ranking().pk)

    response = Client().get(f"/shared/{token}/charts/1")

    page, html = Page(response), response.content.decode()
    assert "8 × gp3 128 GiB" in page.words and "USD 643" in page.words
    assert page.has("figure")
    image = f"/shared/{token}/charts/1.png"
    assert {link for link in page.links if not link.startswith("#")} == {f"/shared/{token}/", image}
    assert "incident" not in html and "db-layouts" not in html
    assert '"url": ""' in html and "/series/" not in html
    assert Series.objects.exists()


def test_ranking_of_visitors_and_snapshots_has_times_of_runs_instead_of_ages(editor: Client) -> None:
    plant_layouts(started_at=timezone.now() - timedelta(days=3))
    study = make_ranking()
    token = share_study(study.pk)

    shared = Page(Client().get(f"/shared/{token}/charts/1")).words

    newest = format_moment(max(Measurement.objects.values_list("started_at", flat=True)))
    assert f"3 runs, the newest {newest}" in shared
    assert "Newest run" in shared and " ago" not in shared
    assert "the newest 2 d ago" in Page(editor.get(reverse("study", args=[study.pk]))).words


@pytest.mark.parametrize("has_prices", [False, True])
def test_preview_is_the_chart_of_the_ranking(has_prices: bool) -> None:
    plant_layouts(has_prices=has_prices)
    token = share_study(make_ranking().pk)

    image = Client().get(f"/shared/{token}/image.png")

    assert (image.status_code, image.content[:4]) == (200, b"\x89PNG")
