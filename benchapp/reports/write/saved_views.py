"""Save chart pages under a name; rename, share, delete and restore them. Each change locks the owner's row."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import AuditKind, Role, SavedView, User

VIEWS_MAXIMUM: Final = 100
NAME_MAXIMUM: Final = 100
# How long a deleted view can be restored.
RESTORABLE: Final = timedelta(days=1)


class UnknownView(Exception):
    """The user has no saved view with this id."""


def save_view(view: SavedView, *, owner: User) -> None:
    """Save a new view. Raises BadValue: the name is taken or not valid, or there are VIEWS_MAXIMUM views."""
    view.owner, view.name = owner, read_view_name(view.name)
    with _lock_views(owner) as views:
        _check_free(views, view.name)
        _check_count(views)
        _check_sharing(owner, is_shared=view.is_shared)
        view.save(force_insert=True)
        _record(view, "created", after=snapshot(view, *SavedView.given))


def change_view(owner: User, view_id: int, action: str, **changes: Any) -> None:
    """Rename a view, or list it for everybody who may read. Raises BadValue and UnknownView.

    action: in the audit record.
    """
    if "name" in changes:
        changes["name"] = read_view_name(changes["name"])
    _check_sharing(owner, is_shared=changes.get("is_shared", False))
    with _lock_views(owner) as views:
        view = _find(views, view_id)
        _check_free([each for each in views if each.pk != view_id], changes.get("name", ""))
        _record(view, action, before=snapshot(view, *changes), after=changes)
        for name, value in changes.items():
            setattr(view, name, value)
        view.save(update_fields=list(changes))


def remove_view(owner: User, view_id: int) -> None:
    """Delete a view, which can be restored for RESTORABLE; older ones are gone then. Raises UnknownView."""
    now = timezone.now()
    with _lock_views(owner) as views:
        view = _find(views, view_id)
        _record(view, "removed", before=snapshot(view, *SavedView.given))
        view.removed_at = now
        view.save(update_fields=["removed_at"])
        SavedView.objects.filter(owner=owner, removed_at__lt=now - RESTORABLE).delete()


def restore_view(owner: User, view_id: int) -> SavedView:
    """Restore a view that was deleted within RESTORABLE; as private if its owner may no longer share.

    Raises BadValue: the name is taken, or there are VIEWS_MAXIMUM views. Raises UnknownView.
    """
    with _lock_views(owner) as views:
        removed = SavedView.objects.filter(
            owner=owner, pk=view_id, removed_at__gte=timezone.now() - RESTORABLE
        ).first()
        if removed is None:
            raise UnknownView(f"saved view {view_id} cannot be restored")
        _check_free(views, removed.name)
        _check_count(views)
        removed.is_shared = removed.is_shared and _may_share(owner)
        _record(removed, "restored", after=snapshot(removed, *SavedView.given))
        removed.removed_at = None
        removed.save(update_fields=["is_shared", "removed_at"])
        return removed


def read_view_name(text: str) -> str:
    """Return a name in one line. Raises BadValue."""
    name = " ".join(text.replace("\x00", "").split())
    if not name:
        raise BadValue("name", "a name is required")
    if len(name) > NAME_MAXIMUM:
        raise BadValue("name", f"the name has {len(name)} characters; at most {NAME_MAXIMUM} are allowed")
    return name


def _check_sharing(owner: User, *, is_shared: bool) -> None:
    if is_shared and not _may_share(owner):
        raise BadValue("is_shared", "sharing a view requires the role editor")


def _may_share(owner: User) -> bool:
    return owner.has_role(Role.EDITOR)


def _check_count(views: list[SavedView]) -> None:
    if len(views) >= VIEWS_MAXIMUM:
        raise BadValue("", f"{VIEWS_MAXIMUM} views are saved, the maximum; delete one")


def _check_free(views: list[SavedView], name: str) -> None:
    if any(view.name == name for view in views):
        raise BadValue("name", f"you have a view named “{name}”; choose another name")


def _record(
    view: SavedView,
    action: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    record_write(
        AuditKind.SAVED_VIEW,
        action,
        object_id=view.pk,
        name=view.name,
        before=before,
        after=after,
        by=view.owner,
    )


@contextmanager
def _lock_views(owner: User) -> Iterator[list[SavedView]]:
    """Give the views of a user that are not deleted; concurrent changes wait."""
    with transaction.atomic():
        User.objects.select_for_update().only("pk").get(pk=owner.pk)
        yield list(SavedView.objects.filter(owner=owner, removed_at__isnull=True).order_by("name", "id"))


def _find(views: list[SavedView], view_id: int) -> SavedView:
    for view in views:
        if view.pk == view_id:
            return view
    raise UnknownView(f"saved view {view_id} not found: it may have been deleted, or is another user's")
