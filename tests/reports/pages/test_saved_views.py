"""Saved views: save a chart page under a name, list, rename, share, delete and restore it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from benchapp.framework.write.conflicts import BadValue
from benchapp.models import AuditRecord, Role, SavedView, User
from benchapp.reports import read as queries
from benchapp.reports.write import RESTORABLE, VIEWS_MAXIMUM, restore_view, save_view
from tests.factories import make_measured_volumes, make_user
from tests.pages import Page
from tests.shared_rows import shared_rows

measured = shared_rows(make_measured_volumes)

QUERY = "q=host%3Adb-1&metric=iops"
ADDRESS = f"/scaling/?{QUERY}"


def save(client: Client, name: str = "My chart", **fields: str) -> Page:
    given = {"kind": "scaling", "query": QUERY, "name": name, **fields}
    return Page(client.post(reverse("add_saved_view"), given, follow=True))


def change(client: Client, do: str, name: str = "My chart", **fields: str) -> Page:
    view = SavedView.objects.get(name=name)
    return Page(client.post(reverse("change_saved_view", args=[view.pk]), {"do": do, **fields}, follow=True))


def list_views(client: Client) -> list[str]:
    return [link for link in Page(client.get(reverse("saved_views"))).links if link.startswith(ADDRESS)]


@pytest.mark.parametrize("name", ["scaling", "matrix", "history", "compare", "layouts"])
def test_chart_page_has_the_form_that_saves_it(viewer: Client, measured: None, name: str) -> None:
    queries = {"compare": "?a=volume_count:1&b=volume_count:2", "layouts": "?iops=500&q=host:db-1"}
    page = Page(viewer.get(reverse(name) + queries.get(name, "?q=host:db-1")))

    assert ("form", reverse("add_saved_view")) in [(tag, named.get("action")) for tag, named in page.tags]


def test_view_is_listed_on_its_page_and_in_the_search(viewer: Client, measured: None) -> None:
    page = save(viewer, "  Reads of   db-1 ", next="/scaling/")

    assert "View saved." in page.words
    assert list_views(viewer) == [ADDRESS]
    found = Page(viewer.get(reverse("search_results"), {"text": "reads of"}))
    assert ADDRESS in found.links
    assert "Reads of db-1" in found.words


def test_private_view_is_visible_to_its_owner_only(visitor: Callable[[Role], Client], client: Client) -> None:
    editor, other = visitor(Role.EDITOR), visitor(Role.ADMIN)
    save(editor)

    assert list_views(other) == []
    assert ADDRESS not in Page(other.get(reverse("search_results"), {"text": "My chart"})).links
    change(editor, "share")
    assert list_views(other) == [ADDRESS]
    assert ADDRESS in Page(other.get(reverse("search_results"), {"text": "My chart"})).links
    with override_settings(PUBLIC_READ=True):
        assert list_views(client) == [ADDRESS]
        change(editor, "unshare")
        assert list_views(client) == []


@pytest.mark.parametrize("do", ["rename", "share", "remove", "restore"])
def test_view_of_another_user_cannot_be_changed(do: str, visitor: Callable[[Role], Client]) -> None:
    owner, other = visitor(Role.EDITOR), visitor(Role.ADMIN)
    save(owner, shared="1")

    page = change(other, do, name="My chart")

    assert "aved view" in page.words
    assert list(SavedView.objects.values_list("name", "is_shared", "removed_at")) == [
        ("My chart", True, None)
    ]


def test_sharing_needs_the_role_editor(viewer: Client) -> None:
    assert "requires the role editor" in save(viewer, shared="1").words
    assert not SavedView.objects.exists()


def test_deleted_view_can_be_restored_for_a_day(viewer: Client) -> None:
    save(viewer)

    assert "It can be restored" in change(viewer, "remove").words
    assert list_views(viewer) == []
    change(viewer, "restore")
    assert list_views(viewer) == [ADDRESS]
    change(viewer, "remove")
    SavedView.objects.update(removed_at=timezone.now() - RESTORABLE - timedelta(minutes=1))
    assert "cannot be restored" in change(viewer, "restore").words
    save(viewer, "Other")
    change(viewer, "remove", "Other")
    assert list(SavedView.objects.values_list("name", flat=True)) == ["Other"]


def test_names_are_unique_for_each_user_and_free_after_deletion(viewer: Client, editor: Client) -> None:
    save(viewer)
    save(editor)

    assert "you have a view named “My chart”" in save(viewer).words
    save(viewer, "Second")
    assert (
        "ou have a view named “Second”"
        in Page(
            viewer.post(
                reverse(
                    "change_saved_view", args=[SavedView.objects.filter(name="My chart").earliest("id").pk]
                ),
                {"do": "rename", "name": "Second"},
                follow=True,
            )
        ).words
    )
    view = SavedView.objects.get(name="Second")
    viewer.post(reverse("change_saved_view", args=[view.pk]), {"do": "rename", "name": "Third"})
    assert set(SavedView.objects.values_list("name", flat=True)) == {"My chart", "Third"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": " "}, "a name is required"),
        ({"name": "a" * 101}, "the name has 101 characters; at most 100"),
        ({"kind": "pie"}, "not a valid kind"),
        ({"query": "q=" + "a" * 4000}, "4000"),
        ({"do": "x"}, "View saved."),
    ],
)
def test_bad_view_is_refused_with_the_reason(fields: dict[str, str], words: str, viewer: Client) -> None:
    page = save(viewer, **{"name": "n", **fields})

    assert words.replace("4000", "") in page.words
    assert SavedView.objects.exists() == (words == "View saved.")


def test_number_of_views_is_limited(db: None) -> None:
    owner = make_user(Role.VIEWER)
    SavedView.objects.bulk_create(
        SavedView(owner=owner, name=str(place), kind="scaling") for place in range(VIEWS_MAXIMUM)
    )

    with pytest.raises(BadValue, match="100 views are saved, the maximum"):
        save_view(SavedView(name="one more", kind="scaling"), owner=owner)


def test_restored_view_counts_toward_the_maximum(db: None) -> None:
    owner = make_user(Role.VIEWER)
    removed = SavedView.objects.create(owner=owner, name="old", kind="scaling", removed_at=timezone.now())
    SavedView.objects.bulk_create(
        SavedView(owner=owner, name=str(place), kind="scaling") for place in range(VIEWS_MAXIMUM)
    )

    with pytest.raises(BadValue, match="100 views are saved, the maximum"):
        restore_view(owner, removed.pk)

    removed.refresh_from_db()
    assert removed.removed_at is not None


def test_shared_view_is_restored_as_private_by_an_owner_who_is_no_longer_an_editor(editor: Client) -> None:
    save(editor, shared="1")
    change(editor, "remove")
    assert "It is private" not in change(editor, "restore").words
    change(editor, "remove")
    User.objects.update(role=Role.VIEWER)

    assert "View restored. It is private." in change(editor, "restore").words
    assert list(SavedView.objects.values_list("is_shared", "removed_at")) == [(False, None)]
    assert AuditRecord.objects.filter(action="restored").latest("at").after["is_shared"] is False


def test_own_views_come_before_the_shared_ones_which_are_cut(
    monkeypatch: pytest.MonkeyPatch, viewer: Client
) -> None:
    assert VIEWS_MAXIMUM < queries.LISTED_MAXIMUM
    monkeypatch.setattr(queries, "LISTED_MAXIMUM", 3)
    other = make_user(Role.EDITOR)
    for name in ("a", "b"):
        SavedView.objects.create(owner=other, name=name, kind="scaling", query=QUERY, is_shared=True)
    save(viewer, "z")
    owner = SavedView.objects.get(name="z").owner

    assert [row.name for row in queries.list_saved_views(owner)[0]] == ["z", "a", "b"]
    assert "shared views are left out" not in Page(viewer.get(reverse("saved_views"))).words
    SavedView.objects.create(owner=other, name="c", kind="scaling", query=QUERY, is_shared=True)
    assert [row.name for row in queries.list_saved_views(owner)[0]] == ["z", "a", "b"]
    assert [row.name for row in queries.list_saved_views(None)[0]] == ["a", "b", "c"]
    assert "shared views are left out" in Page(viewer.get(reverse("saved_views"))).words


def test_markup_in_a_name_is_text(viewer: Client) -> None:
    save(viewer, "<script>alert(1)</script>")

    for name in ("saved_views", "home", "search"):
        content = viewer.get(reverse(name), {"text": "alert"}).content.decode()
        assert "<script>alert" not in content
