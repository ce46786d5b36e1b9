"""Saved views: those of a user, and those that are shared."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import BooleanField, ExpressionWrapper, Q

from benchapp.models import SavedView, User

LISTED_MAXIMUM: Final = 500


@dataclass(frozen=True, slots=True)
class SavedViewList:
    """At most LISTED_MAXIMUM views. is_cut: further shared views are left out."""

    rows: list[SavedView]
    is_cut: bool


def list_saved_views(visitor: User | None, *, has_people: bool = False) -> SavedViewList:
    """Return the views of a visitor, then the shared ones of others, each by name; one query.

    visitor: None for shared ones only. A user has fewer views than LISTED_MAXIMUM, so that none of them is left out.
    has_people: also their owners.
    """
    views = SavedView.objects.filter(removed_at__isnull=True)
    if visitor is None:
        ordered = views.filter(is_shared=True).order_by("name", "id")
    else:
        is_own = ExpressionWrapper(Q(owner=visitor), BooleanField())
        ordered = views.filter(Q(is_shared=True) | Q(owner=visitor)).order_by(is_own.desc(), "name", "id")
    rows = list((ordered.select_related("owner") if has_people else ordered)[: LISTED_MAXIMUM + 1])
    return SavedViewList(rows[:LISTED_MAXIMUM], is_cut=len(rows) > LISTED_MAXIMUM)


def list_removed_views(owner: User, *, since: datetime) -> list[SavedView]:
    """Return the views that a user deleted since a time, by name, at most LISTED_MAXIMUM; one query."""
    removed = SavedView.objects.filter(owner=owner, removed_at__gte=since).order_by("name", "id")
    return list(removed[:LISTED_MAXIMUM])
