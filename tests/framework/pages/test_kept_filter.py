"""The navigation bar keeps the filter and the time range of the page."""

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import make_host, make_series
from tests.pages import Page

KEEPING = ("scaling", "matrix", "history", "runs", "hosts", "incidents")
RANGE = {"from": "2026-05-01", "to": "2026-06-01", "zone": "Europe/Berlin"}
KEPT = "?q=host%3Adb-01&from=2026-05-01&to=2026-06-01&zone=Europe%2FBerlin"

pytestmark = pytest.mark.django_db


def list_places(page: Page) -> set[str]:
    """Return the links of the navigation bar and of the tabs, which come before the content."""
    tags = [tag["href"] if name == "a" else name for name, tag in page.tags if name in ("a", "main")]
    return set(tags[: tags.index("main")])


@pytest.mark.parametrize("name", [*KEEPING, "home", "series_list"])
def test_filter_and_time_range_are_kept_between_pages(name: str, viewer: Client) -> None:
    make_series([1.0], host=make_host("db-01"))

    places = list_places(Page(viewer.get(reverse(name), {"q": "host:db-01", **RANGE, "after": "x"})))

    assert {f"{reverse(each)}{KEPT}" for each in ("home", "scaling", "incidents", "hosts")} <= places
    assert {reverse(each) for each in ("layouts", "studies")} <= places


def test_tabs_keep_what_they_take(viewer: Client) -> None:
    series, other = (make_series([1.0], host=make_host(name)).pk for name in ("db-01", "db-02"))
    metric, chosen = "metric=latency_p99_ns", f"series={series}%2C{other}"

    from_history = list_places(Page(viewer.get(f"/history/?{metric}&{chosen}&from=2026-05-01")))
    from_compare = list_places(Page(viewer.get(f"/compare/?q=bs:4k&{metric}&{chosen}")))
    from_series = list_places(Page(viewer.get(reverse("series", args=[series]))))

    assert f"/scaling/?from=2026-05-01&{metric}" in from_history
    assert f"/compare/?{metric}&{chosen}" in from_history
    assert "/runs/?from=2026-05-01" in from_history
    assert f"/history/?q=bs%3A4k&{metric}&{chosen}" in from_compare
    assert f"/compare/?series={series}" in from_series


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
    assert f"{reverse('hosts')}?q=host%3Adb-07" in list_places(elsewhere)
    assert f"{reverse('home')}?q=host%3Adb-07" in cleared.links, "the brand leads back to the default filter"


def test_invalid_parameter_is_not_kept_but_the_filter_is(viewer: Client) -> None:
    page = Page(viewer.get(reverse("scaling"), {"q": "host:db-01", "from": "soon"}))

    assert f"{reverse('matrix')}?q=host%3Adb-01" in list_places(page)


def test_invalid_filter_is_not_kept(viewer: Client) -> None:
    page = Page(viewer.get(reverse("scaling"), {"q": "speed:4"}))

    assert reverse("matrix") in list_places(page)
