"""Saved views: those of a user, and those that are shared."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet

from benchapp.models import SavedView, StudyPanel, User, name_person

LISTED_MAXIMUM: Final = 500


@dataclass(frozen=True, slots=True)
class SavedViewRow:
    """One view. panel: its chart page; is_own: it belongs to the visitor, who may change it."""

    id: int
    name: str
    panel: StudyPanel
    owner_name: str
    is_shared: bool
    is_own: bool


@dataclass(frozen=True, slots=True)
class SavedViewList:
    """At most LISTED_MAXIMUM views. is_cut: further shared views are left out."""

    rows: list[SavedViewRow]
    is_cut: bool


def list_saved_views(visitor: User | None) -> SavedViewList:
    """Return the views of a visitor, then the shared ones of others, each by name; one query.

    visitor: None for shared ones only. A user has fewer views than LISTED_MAXIMUM, so that none of them is left out.
    """
    views = SavedView.objects.filter(removed_at__isnull=True)
    if visitor is None:
        ordered = views.filter(is_shared=True).order_by("name", "id")
    else:
        is_own = ExpressionWrapper(Q(owner=visitor), BooleanField())
        ordered = views.filter(Q(is_shared=True) | Q(owner=visitor)).order_by(is_own.desc(), "name", "id")
    rows = _make_rows(ordered[: LISTED_MAXIMUM + 1], visitor)
    return SavedViewList(rows[:LISTED_MAXIMUM], is_cut=len(rows) > LISTED_MAXIMUM)


def list_removed_views(owner: User, *, since: datetime) -> list[SavedViewRow]:
    """Return the views that a user deleted since a time, by name, at most LISTED_MAXIMUM; one query."""
    removed = SavedView.objects.filter(owner=owner, removed_at__gte=since).order_by("name", "id")
    return _make_rows(removed[:LISTED_MAXIMUM], owner)


def _make_rows(views: QuerySet[SavedView], visitor: User | None) -> list[SavedViewRow]:
    rows = views.values_list("id", "name", "kind", "query", "owner_id", "owner__username", "is_shared")
    return [
        SavedViewRow(
            id=view_id,
            name=name,
            panel=StudyPanel(kind=kind, query=query, title=name),
            owner_name=name_person(owner_name),
            is_shared=is_shared,
            is_own=visitor is not None and owner_id == visitor.pk,
        )
        for view_id, name, kind, query, owner_id, owner_name, is_shared in rows
    ]
