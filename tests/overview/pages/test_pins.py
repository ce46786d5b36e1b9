"""Charts pinned to the overview: pin, show, move, rename, remove."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.test import Client, override_settings
from django.urls import reverse

from benchapp.models import PinnedChart, Role, User
from benchapp.reports.write import PINS_MAXIMUM, BadPin, pin_chart, read_panel
from tests.factories import make_measured_volumes, make_user
from tests.pages import Page
from tests.shared_rows import shared_rows

measured = shared_rows(make_measured_volumes)

CHART_PAGES = ("scaling", "matrix", "history", "compare", "layouts")
QUERIES = {"compare": "?a=volume_count:1&b=volume_count:2", "layouts": "?iops=500&q=host:db-1"}


def pin(client: Client, kind: str = "scaling", query: str = "q=host:db-1", **fields: str) -> Page:
    return Page(client.post(reverse("add_pin"), {"kind": kind, "query": query, **fields}, follow=True))


def change(client: Client, pin_id: int, do: str, **fields: str) -> Page:
    return Page(client.post(reverse("change_pin", args=[pin_id]), {"do": do, **fields}, follow=True))


def list_pins() -> list[str]:
    return list(PinnedChart.objects.order_by("position").values_list("query", flat=True))


def list_shown(page: Page) -> list[str | None]:
    return [named["data-deferred"] for _, named in page.tags if "data-kind" in named]


@pytest.mark.parametrize("name", CHART_PAGES)
def test_chart_page_pins_itself(viewer: Client, measured: None, name: str) -> None:
    page = Page(viewer.get(reverse(name) + QUERIES.get(name, "?q=host:db-1")))
    assert [reverse("add_pin")] == [named["formaction"] for _, named in page.tags if "formaction" in named]
    form = next(
        place
        for place, (_, named) in enumerate(page.tags)
        if named.get("action") == reverse("add_saved_view")
    )
    fields = {
        str(named["name"]): str(named["value"])
        for tag, named in page.tags[form:]
        if named.get("type") == "hidden"
    }

    answer = viewer.post(reverse("add_pin"), {name: fields[name] for name in ("kind", "query", "next")})

    assert answer["Location"].startswith(reverse(name))
    row = PinnedChart.objects.get()
    assert row.kind == name
    shown = Page(viewer.get(reverse("pinned_chart", args=[row.pk])))
    assert "Chart not available" not in shown.words
    assert "ignored" not in shown.words
    # Layouts without prices have no chart.
    assert shown.has("table" if name == "layouts" else "figure")


def test_overview_has_a_place_for_each_pinned_chart(viewer: Client, measured: None) -> None:
    assert "Pinned charts" not in Page(viewer.get(reverse("home"))).words

    pin(viewer)
    page = pin(viewer, kind="matrix")

    assert "Pinned to your overview." in page.words
    assert list_shown(page) == [
        reverse("pinned_chart", args=[row.pk]) for row in PinnedChart.objects.order_by("position")
    ]


def test_pinned_charts_are_moved_renamed_and_removed(viewer: Client, measured: None) -> None:
    for query in ("q=host:a", "q=host:b", "q=host:c"):
        pin(viewer, query=query)
    first, second, third = PinnedChart.objects.order_by("position")

    change(viewer, third.pk, "up")
    assert list_pins() == ["q=host:a", "q=host:c", "q=host:b"]
    change(viewer, first.pk, "up")
    change(viewer, first.pk, "down")
    assert list_pins() == ["q=host:c", "q=host:a", "q=host:b"]
    assert "Title saved." in change(viewer, second.pk, "rename", title="  My   disks ").words
    assert PinnedChart.objects.get(pk=second.pk).title == "My disks"
    assert "Chart removed" in change(viewer, first.pk, "remove").words
    assert list_pins() == ["q=host:c", "q=host:b"]


def test_same_chart_is_pinned_once(viewer: Client, measured: None) -> None:
    pin(viewer)

    assert "Not pinned: this chart is already pinned to your overview." in pin(viewer).words
    assert PinnedChart.objects.count() == 1


def test_no_more_than_twelve_charts_are_pinned(viewer: Client, measured: None) -> None:
    for number in range(PINS_MAXIMUM):
        pin(viewer, query=f"q=host:db-{number}")

    assert "12 charts are pinned, the maximum" in pin(viewer, query="q=host:more").words
    assert PinnedChart.objects.count() == PINS_MAXIMUM


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "pie"}, "not a valid kind. Valid values: scaling, matrix, history, compare"),
        ({"query": "q=" + "x" * 5000}, "at most 4000 are allowed"),
        ({"query": "q=\x01"}, "control characters"),
    ],
)
def test_chart_that_is_none_is_refused(
    viewer: Client, measured: None, fields: dict[str, str], reason: str
) -> None:
    assert reason in pin(viewer, **fields).words
    assert not PinnedChart.objects.exists()


def test_bad_change_is_refused_with_its_reason(viewer: Client, measured: None) -> None:
    pin(viewer)
    row = PinnedChart.objects.get()

    assert (
        "'swap' is not a valid change. Valid: up, down, rename, remove."
        in change(viewer, row.pk, "swap").words
    )
    assert "at most 200 are allowed" in change(viewer, row.pk, "rename", title="x" * 201).words
    assert "not found: it may have been removed" in change(viewer, row.pk + 1, "remove").words


def test_pinned_charts_of_others_are_neither_shown_nor_changed(viewer: Client, measured: None) -> None:
    other = pin_chart(make_user(), read_panel({"kind": "scaling", "query": "q=host:secret"}))

    assert viewer.get(reverse("pinned_chart", args=[other.pk])).status_code == 404
    change(viewer, other.pk, "remove")

    assert PinnedChart.objects.filter(pk=other.pk).exists()
    assert list_shown(Page(viewer.get(reverse("home")))) == []


def test_invalid_filter_of_a_pinned_chart_is_named(viewer: Client, measured: None) -> None:
    pin(viewer, query="q=flavour:x")

    words = Page(viewer.get(reverse("pinned_chart", args=[PinnedChart.objects.get().pk]))).words

    assert "Chart not available" in words
    assert "flavour" in words


def test_title_is_escaped(viewer: Client, measured: None) -> None:
    pin(viewer)
    row = PinnedChart.objects.get()

    change(viewer, row.pk, "rename", title="<b>x</b>")

    assert b"<b>x</b>" not in viewer.get(reverse("home")).content
    assert b"<b>x</b>" not in viewer.get(reverse("pinned_chart", args=[row.pk])).content


def test_anonymous_readers_are_asked_to_sign_in(client: Client, measured: None) -> None:
    with override_settings(PUBLIC_READ=True):
        assert "Pin to overview" not in Page(client.get(reverse("scaling"))).words


def test_pinned_charts_end_with_their_owner(viewer: Client, measured: None) -> None:
    pin(viewer)

    User.objects.get(role=Role.VIEWER).delete()

    assert not PinnedChart.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_same_chart_pinned_twice_at_once_is_stored_once() -> None:
    person = make_user()

    def attempt(_: int) -> bool:
        try:
            pin_chart(person, read_panel({"kind": "scaling", "query": "q=host:db-1"}))
        except BadPin:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(attempt, range(2))) == [False, True]

    assert PinnedChart.objects.count() == 1
