"""The navigation bar keeps the filter and the time range of the page."""

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import make_host, make_series
from tests.pages import Page

KEEPING = ("scaling", "matrix", "series_list", "runs", "hosts", "incidents")
RANGE = {"from": "2026-05-01", "to": "2026-06-01", "zone": "Europe/Berlin"}
KEPT = "?q=host%3Adb-01&from=2026-05-01&to=2026-06-01&zone=Europe%2FBerlin"

pytestmark = pytest.mark.django_db


def list_places(page: Page) -> list[str]:
    """Return the links of the navigation bar, which come before all others but that of the brand."""
    paths = {reverse(name) for name in (*KEEPING, "compare", "studies", "uploads")}
    links = [link for link in page.links if link.partition("?")[0] in paths]
    return links[: len(paths)]


@pytest.mark.parametrize("name", [*KEEPING, "home", "history", "benchmark_health"])
def test_filter_and_time_range_are_kept_between_pages(name: str, viewer: Client) -> None:
    make_series([1.0], host=make_host("db-01"))

    places = list_places(Page(viewer.get(reverse(name), {"q": "host:db-01", **RANGE, "after": "x"})))

    assert {f"{reverse(each)}{KEPT}" for each in KEEPING} <= set(places)
    assert {reverse(each) for each in ("compare", "studies", "uploads")} <= set(places)


def test_page_opened_by_a_kept_link_shows_the_filter_and_the_range(viewer: Client) -> None:
    make_series([1.0], host=make_host("db-01"))

    for name in KEEPING:
        response = viewer.get(f"{reverse(name)}{KEPT}")
        fields = {
            tag.get("name"): tag.get("value") for tag_name, tag in Page(response).tags if tag_name == "input"
        }
        assert response.status_code == 200
        assert (fields["q"], fields["from"], fields["to"]) == ("host:db-01", "2026-05-01", "2026-06-01")


def test_page_without_filter_has_links_without_one(viewer: Client) -> None:
    viewer.post(
        reverse("change_preferences"),
        {"time_zone": "", "rate_units": "si", "theme": "system", "default_filter": "host:db-07"},
    )

    cleared, elsewhere = (Page(viewer.get(reverse(name))) for name in ("scaling", "studies"))

    assert reverse("matrix") in list_places(cleared)
    assert f"{reverse('matrix')}?q=host%3Adb-07" in list_places(elsewhere)
    assert f"{reverse('home')}?q=host%3Adb-07" in cleared.links, "the brand leads back to the default filter"


def test_invalid_parameter_is_not_kept_but_the_filter_is(viewer: Client) -> None:
    page = Page(viewer.get(reverse("scaling"), {"q": "host:db-01", "from": "soon"}))

    assert f"{reverse('matrix')}?q=host%3Adb-01" in list_places(page)


def test_invalid_filter_is_not_kept(viewer: Client) -> None:
    page = Page(viewer.get(reverse("scaling"), {"q": "speed:4"}))

    assert reverse("matrix") in list_places(page)
