"""Studies, saved views and pinned charts: create, change, remove them."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import BadValue
from benchapp.layouts.read.question import BadQuestion
from benchapp.models import (
    AuditKind,
    FrozenPanel,
    PanelKind,
    PinnedChart,
    Role,
    SavedView,
    Study,
    StudyPanel,
    StudySnapshot,
    StudySnapshotImage,
    User,
)
from benchapp.models.filtering import follow_query
from benchapp.models.list_entry import find_column_type

TITLE_LENGTH: Final = 200
PANEL_TEXT_LENGTH: Final = 5_000
QUERY_LENGTH: Final = 4_000
# Far more than any chart has; Django would reject a study with a thousand each time it is read.
PARAMETERS_MAXIMUM: Final = 100
PANELS_MAXIMUM: Final = 40
_MEMBERS: Final = ("kind", "query", "title", "text")


class StudyChanged(Exception):
    """The study was changed or deleted by someone else since it was shown."""


def check_study(study: Study, names: Iterable[str] = Study.given) -> None:
    """Write these columns of a study in their canonical form. Raises BadValue."""
    for field in Study.list_fields():
        if field.name in names and find_column_type(field) is str:
            text = _read_text(getattr(study, field.name), field.name, maximum=field.max_length)
            setattr(study, field.name, text or field.get_default())
    if "title" in names:
        study.title = " ".join(study.title.split())
        if not study.title:
            raise BadValue("title", "the title is required")
    if "panels" in names:
        study.panels = [asdict(panel) for panel in read_panels(study.panels)]


def read_panel(given: Mapping[str, Any], path: str = "") -> StudyPanel:
    """Validate a panel. path: of its members, in errors. Raises BadValue."""
    for name in given:
        if name not in _MEMBERS:
            raise BadValue(
                f"{path}{name[:80]}", f"unknown member {name[:80]!r}. Valid members: {', '.join(_MEMBERS)}"
            )
    kind = given.get("kind")
    if kind not in PanelKind.values:
        raise BadValue(f"{path}kind", f"not a valid kind. Valid values: {', '.join(PanelKind.values)}")
    query = _read_text(given.get("query"), f"{path}query", maximum=QUERY_LENGTH).lstrip("?")
    if query.count("&") >= PARAMETERS_MAXIMUM:
        raise BadValue(f"{path}query", f"the address has more than {PARAMETERS_MAXIMUM} parameters")
    if any(not letter.isprintable() for letter in query):
        raise BadValue(f"{path}query", "the address has control characters; remove them")
    return StudyPanel(
        str(kind),
        follow_query(query),
        _read_text(given.get("title"), f"{path}title", maximum=TITLE_LENGTH),
        _read_text(given.get("text"), f"{path}text", maximum=PANEL_TEXT_LENGTH),
    )


def read_panels(given: Any) -> tuple[StudyPanel, ...]:
    """Validate the panels of a study. Raises BadValue."""
    if not isinstance(given, list | tuple):
        raise BadValue("panels", "panels must be a list")
    if len(given) > PANELS_MAXIMUM:
        raise BadValue("panels", f"{len(given)} panels; at most {PANELS_MAXIMUM} are allowed")
    panels = []
    for place, each in enumerate(given):
        if not isinstance(each, Mapping):
            raise BadValue(f"panels/{place}", "a panel must be an object")
        panels.append(read_panel(each, f"panels/{place}/"))
    return tuple(panels)


def check_questions(
    panels: Sequence[StudyPanel], check: Callable[[str], object], *, stored: Sequence[StudyPanel] = ()
) -> None:
    """Raise BadValue for a new panel with a question about layouts that `check` refuses.

    stored: panels whose questions may have become invalid.
    """
    known = {panel.query for panel in stored if panel.kind == PanelKind.LAYOUTS}
    for place, panel in enumerate(panels):
        try:
            if panel.kind == PanelKind.LAYOUTS and panel.query not in known:
                check(panel.query)
        except BadQuestion as problem:
            raise BadValue(f"panels/{place}/query", str(problem)) from problem


@transaction.atomic
def create_study(study: Study) -> Study:
    """Save a new study. Raises BadValue."""
    check_study(study)
    study.save(force_insert=True)
    _record_study(study, "created", after=_snapshot(study))
    return study


def change_study(study_id: int, *, version: str | None = None, **changes: Any) -> Study:
    """Change columns of a study that its owner gives. Raises BadValue and StudyChanged.

    version: of the study as it was shown; None skips the check.
    """
    with transaction.atomic():
        study = _lock(study_id, version)
        before = _snapshot(study)
        for name, value in changes.items():
            setattr(study, name, value)
        check_study(study, changes)
        study.save(update_fields=[*Study.given, "updated_at"])
        _record_study(study, "changed", before=before, after=_snapshot(study))
        return study


def add_panel(study_id: int, panel: StudyPanel) -> Study:
    """Append a chart to a study. Raises BadValue if it is full, StudyChanged if it was deleted."""
    with transaction.atomic():
        study = _lock(study_id, None)
        if len(study.panels) >= PANELS_MAXIMUM:
            raise BadValue("panels", f"the study has {PANELS_MAXIMUM} panels, the maximum")
        study.panels = [*study.panels, asdict(panel)]
        study.save(update_fields=["panels", "updated_at"])
        _record_study(study, "chart_added", after=asdict(panel))
        return study


def share_study(study_id: int) -> str:
    """Return the token of the shared link, the existing or a new one."""
    with transaction.atomic():
        study = _lock(study_id, None)
        if study.share_token is None:
            study.share_token = secrets.token_urlsafe(32)
            study.save(update_fields=["share_token"])
            _record_study(study, "shared", before={"is_shared": False}, after={"is_shared": True})
        return study.share_token


@transaction.atomic
def stop_sharing(study_id: int) -> bool:
    """Revoke the shared link of a study; False if it was not shared."""
    study = Study.objects.select_for_update().filter(pk=study_id, share_token__isnull=False).first()
    if study is None:
        return False
    Study.objects.filter(pk=study_id).update(share_token=None)
    _record_study(study, "sharing_stopped", before={"is_shared": True}, after={"is_shared": False})
    return True


def store_snapshot(study_id: int, panels: Sequence[FrozenPanel], *, by: User | None) -> StudySnapshot:
    """Store the charts of a study as of now, in place of an earlier snapshot. Raises StudyChanged."""
    with transaction.atomic():
        study = _lock(study_id, None)
        earlier = StudySnapshot.objects.filter(pk=study_id).first()
        before = {"taken_at": earlier.taken_at if earlier else None}
        if earlier is not None:
            earlier.delete()
        stored = StudySnapshot.objects.create(
            study=study,
            taken_at=timezone.now(),
            taken_by=by,
            panels=[
                {name: value for name, value in asdict(panel).items() if name not in ("place", "images")}
                for panel in panels
            ],
        )
        StudySnapshotImage.objects.bulk_create(
            StudySnapshotImage(snapshot=stored, place=place, theme=theme, content=content)
            for place, panel in enumerate(panels, start=1)
            for theme, content in panel.images.items()
        )
        _record_study(study, "snapshot_taken", before=before, after={"taken_at": stored.taken_at})
        return stored


@transaction.atomic
def remove_snapshot(study_id: int) -> bool:
    """Delete the snapshot of a study, which shows current data again; False if it has none."""
    stored = StudySnapshot.objects.select_for_update(of=("self",)).filter(pk=study_id).first()
    if stored is None:
        return False
    _record_study(
        stored.study, "snapshot_removed", before={"taken_at": stored.taken_at}, after={"taken_at": None}
    )
    stored.delete()
    return True


@transaction.atomic
def delete_study(study_id: int) -> bool:
    """Delete a study; measurements are not affected. False if it does not exist."""
    study = Study.objects.select_for_update().filter(pk=study_id).first()
    if study is None:
        return False
    _record_study(study, "deleted", before=_snapshot(study))
    study.delete()
    return True


def _snapshot(study: Study) -> dict[str, Any]:
    return snapshot(study, *Study.given)


def _record_study(
    study: Study,
    action: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    record_write(AuditKind.STUDY, action, object_id=study.pk, name=study.title, before=before, after=after)


def _read_text(value: Any, path: str, *, maximum: int) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadValue(path, "must be text")
    text = value.replace("\r\n", "\n").strip()
    if "\x00" in text:
        raise BadValue(path, "the text has a NUL character; remove it")
    if len(text) > maximum:
        raise BadValue(path, f"{len(text)} characters; at most {maximum} are allowed")
    return text


def _lock(study_id: int, version: str | None) -> Study:
    study = Study.objects.select_for_update().filter(pk=study_id).first()
    if study is None:
        raise StudyChanged("this study was deleted")
    if version is not None and version != study.version:
        raise StudyChanged("this study was changed by someone else since you opened it; reload the page")
    return study


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
        _record_view(view, "created", after=snapshot(view, *SavedView.given))


def change_view(owner: User, view_id: int, action: str, **changes: Any) -> None:
    """Rename a view, or list it for everybody who may read. Raises BadValue and UnknownView.

    action: in the audit record.
    """
    if "name" in changes:
        changes["name"] = read_view_name(changes["name"])
    _check_sharing(owner, is_shared=changes.get("is_shared", False))
    with _lock_views(owner) as views:
        view = _find_view(views, view_id)
        _check_free([each for each in views if each.pk != view_id], changes.get("name", ""))
        _record_view(view, action, before=snapshot(view, *changes), after=changes)
        for name, value in changes.items():
            setattr(view, name, value)
        view.save(update_fields=list(changes))


def remove_view(owner: User, view_id: int) -> None:
    """Delete a view, which can be restored for RESTORABLE; older ones are gone then. Raises UnknownView."""
    now = timezone.now()
    with _lock_views(owner) as views:
        view = _find_view(views, view_id)
        _record_view(view, "removed", before=snapshot(view, *SavedView.given))
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
        _record_view(removed, "restored", after=snapshot(removed, *SavedView.given))
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


def _record_view(
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


def _find_view(views: list[SavedView], view_id: int) -> SavedView:
    for view in views:
        if view.pk == view_id:
            return view
    raise UnknownView(f"saved view {view_id} not found: it may have been deleted, or is another user's")


PINS_MAXIMUM: Final = 12


class BadPin(Exception):
    """A chart that cannot be pinned, with the reason."""


class UnknownPin(Exception):
    """The user has no pinned chart with this id."""


def pin_chart(owner: User, panel: StudyPanel) -> PinnedChart:
    """Append a chart to the overview of a user. Raises BadPin if it is pinned already, or too many are."""
    with _lock_pins(owner) as pins:
        if any((pin.kind, pin.query) == (panel.kind, panel.query) for pin in pins):
            raise BadPin("this chart is already pinned to your overview")
        if len(pins) >= PINS_MAXIMUM:
            raise BadPin(f"{PINS_MAXIMUM} charts are pinned, the maximum; remove one on the overview")
        position = pins[-1].position + 1 if pins else 0
        pin = PinnedChart.objects.create(
            owner=owner, position=position, kind=panel.kind, query=panel.query, title=panel.title
        )
        _record_pin(pin, "created", owner, after=snapshot(pin, "kind", "query", "title"))
        return pin


def move_pin(owner: User, pin_id: int, *, by: int) -> None:
    """Move a pinned chart by so many places, up if negative; it stops at the ends. Raises UnknownPin."""
    with _lock_pins(owner) as pins:
        pin = _find_pin(pins, pin_id)
        place = pins.index(pin)
        pins.remove(pin)
        pins.insert(max(0, place + by), pin)
        for position, each in enumerate(pins):
            each.position = position
        PinnedChart.objects.bulk_update(pins, ["position"])
        _record_pin(pin, "moved", owner, before={"place": place}, after={"place": pins.index(pin)})


def rename_pin(owner: User, pin_id: int, title: str) -> None:
    """Set the title of a pinned chart; "" for the automatic title. Raises UnknownPin."""
    with _lock_pins(owner) as pins:
        pin = _find_pin(pins, pin_id)
        _record_pin(pin, "renamed", owner, before={"title": pin.title}, after={"title": title})
        pin.title = title
        pin.save(update_fields=["title"])


def remove_pin(owner: User, pin_id: int) -> None:
    """Remove a pinned chart. Raises UnknownPin."""
    with _lock_pins(owner) as pins:
        pin = _find_pin(pins, pin_id)
        _record_pin(pin, "removed", owner, before=snapshot(pin, "kind", "query", "title"))
        pin.delete()


def _record_pin(
    pin: PinnedChart,
    action: str,
    owner: User,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    record_write(
        AuditKind.PINNED_CHART,
        action,
        object_id=pin.pk,
        name=pin.title,
        before=before,
        after=after,
        by=owner,
    )


@contextmanager
def _lock_pins(owner: User) -> Iterator[list[PinnedChart]]:
    """Give the pinned charts of a user in their order; concurrent changes wait."""
    with transaction.atomic():
        User.objects.select_for_update().only("pk").get(pk=owner.pk)
        yield list(PinnedChart.objects.filter(owner=owner).order_by("position", "id"))


def _find_pin(pins: list[PinnedChart], pin_id: int) -> PinnedChart:
    for pin in pins:
        if pin.pk == pin_id:
            return pin
    raise UnknownPin(f"pinned chart {pin_id} not found: it may have been removed")
