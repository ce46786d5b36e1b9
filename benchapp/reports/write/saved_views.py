"""Save chart pages under a name; rename, share, delete and restore them. Each change locks the owner's row."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from benchapp.framework.write.audit import record_write, snapshot
from benchapp.models import AuditKind, Role, SavedView, StudyPanel, User

VIEWS_MAXIMUM: Final = 100
NAME_MAXIMUM: Final = 100
# How long a deleted view can be restored.
RESTORABLE: Final = timedelta(days=1)


class BadView(Exception):
    """A view that cannot be saved or changed, with the reason."""


class UnknownView(Exception):
    """The user has no saved view with this id."""


def save_view(owner: User, name: str, panel: StudyPanel, *, is_shared: bool = False) -> SavedView:
    """Save a chart page. Raises BadView: the name is taken or not valid, or there are VIEWS_MAXIMUM views."""
    name = read_view_name(name)
    with _lock_views(owner) as views:
        _check_free(views, name)
        _check_count(views)
        _check_sharing(owner, is_shared=is_shared)
        view = SavedView.objects.create(
            owner=owner, name=name, kind=panel.kind, query=panel.query, is_shared=is_shared
        )
        _record(view, "created", after=snapshot(view, "name", "kind", "query", "is_shared"))
        return view


def rename_view(owner: User, view_id: int, name: str) -> None:
    """Rename a view. Raises BadView and UnknownView."""
    name = read_view_name(name)
    with _lock_views(owner) as views:
        view = _find(views, view_id)
        _check_free([each for each in views if each.pk != view_id], name)
        _record(view, "renamed", before={"name": view.name}, after={"name": name})
        view.name = name
        view.save(update_fields=["name"])


def share_view(owner: User, view_id: int, *, is_shared: bool) -> None:
    """List a view for everybody who may read, or for its owner only. Raises BadView and UnknownView."""
    _check_sharing(owner, is_shared=is_shared)
    with _lock_views(owner) as views:
        view = _find(views, view_id)
        _record(
            view,
            "shared" if is_shared else "made private",
            before={"is_shared": view.is_shared},
            after={"is_shared": is_shared},
        )
        view.is_shared = is_shared
        view.save(update_fields=["is_shared"])


def remove_view(owner: User, view_id: int) -> None:
    """Delete a view, which can be restored for RESTORABLE; older ones are gone then. Raises UnknownView."""
    now = timezone.now()
    with _lock_views(owner) as views:
        view = _find(views, view_id)
        _record(view, "removed", before=snapshot(view, "name", "kind", "query", "is_shared"))
        view.removed_at = now
        view.save(update_fields=["removed_at"])
        SavedView.objects.filter(owner=owner, removed_at__lt=now - RESTORABLE).delete()


def restore_view(owner: User, view_id: int) -> SavedView:
    """Restore a view that was deleted within RESTORABLE; as private if its owner may no longer share.

    Raises BadView: the name is taken, or there are VIEWS_MAXIMUM views. Raises UnknownView.
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
        _record(removed, "restored", after=snapshot(removed, "name", "kind", "query", "is_shared"))
        removed.removed_at = None
        removed.save(update_fields=["is_shared", "removed_at"])
        return removed


def read_view_name(text: str) -> str:
    """Return a name in one line. Raises BadView."""
    name = " ".join(text.replace("\x00", "").split())
    if not name:
        raise BadView("a name is required")
    if len(name) > NAME_MAXIMUM:
        raise BadView(f"the name has {len(name)} characters; at most {NAME_MAXIMUM} are allowed")
    return name


def _check_sharing(owner: User, *, is_shared: bool) -> None:
    if is_shared and not _may_share(owner):
        raise BadView("sharing a view requires the role editor")


def _may_share(owner: User) -> bool:
    return owner.has_role(Role.EDITOR)


def _check_count(views: list[SavedView]) -> None:
    if len(views) >= VIEWS_MAXIMUM:
        raise BadView(f"{VIEWS_MAXIMUM} views are saved, the maximum; delete one")


def _check_free(views: list[SavedView], name: str) -> None:
    if any(view.name == name for view in views):
        raise BadView(f"you have a view named “{name}”; choose another name")


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
