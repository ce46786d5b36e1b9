"""Saved views: those of a user, and those that are shared."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q, QuerySet

from benchapp.models import SavedView, User
from benchapp.queries.studies import PanelRow

LISTED_MAXIMUM: Final = 500


@dataclass(frozen=True, slots=True)
class SavedViewRow:
    """One view. panel: its chart page; is_own: it belongs to the visitor, who may change it."""

    id: int
    name: str
    panel: PanelRow
    owner_name: str
    is_shared: bool
    is_own: bool


def list_saved_views(visitor: User | None) -> list[SavedViewRow]:
    """Return the views of a visitor and the shared ones, by name, at most LISTED_MAXIMUM; one query.

    visitor: None for shared ones only.
    """
    visible = Q(is_shared=True) if visitor is None else Q(is_shared=True) | Q(owner=visitor)
    return _make_rows(SavedView.objects.filter(visible, removed_at__isnull=True), visitor)


def list_removed_views(owner: User, *, since: datetime) -> list[SavedViewRow]:
    """Return the views that a user deleted since a time, by name; one query."""
    return _make_rows(SavedView.objects.filter(owner=owner, removed_at__gte=since), owner)


def _make_rows(views: QuerySet[SavedView], visitor: User | None) -> list[SavedViewRow]:
    rows = views.order_by("name", "id").values_list(
        "id", "name", "kind", "query", "owner_id", "owner__username", "is_shared"
    )
    return [
        SavedViewRow(
            id=view_id,
            name=name,
            panel=PanelRow(kind=kind, query=query, title=name, text=""),
            owner_name=owner_name,
            is_shared=is_shared,
            is_own=visitor is not None and owner_id == visitor.pk,
        )
        for view_id, name, kind, query, owner_id, owner_name, is_shared in rows[:LISTED_MAXIMUM]
    ]
