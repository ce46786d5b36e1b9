"""Create, change, share, freeze and delete studies: each change is one statement or one locked row."""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
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
    Study,
    StudyPanel,
    StudySnapshot,
    StudySnapshotImage,
    User,
)
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
        query,
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
    _record(study, "created", after=_snapshot(study))
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
        _record(study, "changed", before=before, after=_snapshot(study))
        return study


def add_panel(study_id: int, panel: StudyPanel) -> Study:
    """Append a chart to a study. Raises BadValue if it is full, StudyChanged if it was deleted."""
    with transaction.atomic():
        study = _lock(study_id, None)
        if len(study.panels) >= PANELS_MAXIMUM:
            raise BadValue("panels", f"the study has {PANELS_MAXIMUM} panels, the maximum")
        study.panels = [*study.panels, asdict(panel)]
        study.save(update_fields=["panels", "updated_at"])
        _record(study, "chart_added", after=asdict(panel))
        return study


def share_study(study_id: int) -> str:
    """Return the token of the shared link, the existing or a new one."""
    with transaction.atomic():
        study = _lock(study_id, None)
        if study.share_token is None:
            study.share_token = secrets.token_urlsafe(32)
            study.save(update_fields=["share_token"])
            _record(study, "shared", before={"is_shared": False}, after={"is_shared": True})
        return study.share_token


@transaction.atomic
def stop_sharing(study_id: int) -> bool:
    """Revoke the shared link of a study; False if it was not shared."""
    study = Study.objects.select_for_update().filter(pk=study_id, share_token__isnull=False).first()
    if study is None:
        return False
    Study.objects.filter(pk=study_id).update(share_token=None)
    _record(study, "sharing_stopped", before={"is_shared": True}, after={"is_shared": False})
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
        _record(study, "snapshot_taken", before=before, after={"taken_at": stored.taken_at})
        return stored


@transaction.atomic
def remove_snapshot(study_id: int) -> bool:
    """Delete the snapshot of a study, which shows current data again; False if it has none."""
    stored = StudySnapshot.objects.select_for_update(of=("self",)).filter(pk=study_id).first()
    if stored is None:
        return False
    _record(stored.study, "snapshot_removed", before={"taken_at": stored.taken_at}, after={"taken_at": None})
    stored.delete()
    return True


@transaction.atomic
def delete_study(study_id: int) -> bool:
    """Delete a study; measurements are not affected. False if it does not exist."""
    study = Study.objects.select_for_update().filter(pk=study_id).first()
    if study is None:
        return False
    _record(study, "deleted", before=_snapshot(study))
    study.delete()
    return True


def _snapshot(study: Study) -> dict[str, Any]:
    return snapshot(study, *Study.given)


def _record(
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
