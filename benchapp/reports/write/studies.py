"""Create, change, share, freeze and delete studies: each change is one statement or one locked row."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import AuditKind, PanelKind, Study, StudySnapshot, StudySnapshotImage, User

TITLE_LENGTH: Final = 200
TEXT_LENGTH: Final = 20_000
PANEL_TEXT_LENGTH: Final = 5_000
QUERY_LENGTH: Final = 4_000
# Far more than any chart has; Django would reject a study with a thousand each time it is read.
PARAMETERS_MAXIMUM: Final = 100
PANELS_MAXIMUM: Final = 40
_MEMBERS: Final = ("kind", "query", "title", "text")


class BadStudy(BadValue):
    """Not a valid study. pointer: JSON pointer of the value."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(pointer.removeprefix("/"), message)


class StudyChanged(Exception):
    """The study was changed or deleted by someone else since it was shown."""


@dataclass(frozen=True, slots=True)
class StudyPanel:
    """One chart of a study. query: query string of its page; title: "" for the automatic title."""

    kind: PanelKind
    query: str
    title: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class FrozenPanel:
    """One chart of a snapshot, as of `StudySnapshot`; images: PNG by theme."""

    kind: str
    query: str
    title: str
    content: str
    width: int
    height: int
    images: Mapping[str, bytes]


def read_panel(given: Mapping[str, Any], pointer: str = "") -> StudyPanel:
    """Validate a panel; raises BadStudy."""
    for name in given:
        if name not in _MEMBERS:
            raise BadStudy(
                f"{pointer}/{name[:80]}",
                f"unknown member {name[:80]!r}. Valid members: {', '.join(_MEMBERS)}",
            )
    kind = given.get("kind")
    if kind not in PanelKind.values:
        raise BadStudy(f"{pointer}/kind", f"not a valid kind. Valid values: {', '.join(PanelKind.values)}")
    query = _read_text(given.get("query"), f"{pointer}/query", maximum=QUERY_LENGTH).lstrip("?")
    if query.count("&") >= PARAMETERS_MAXIMUM:
        raise BadStudy(f"{pointer}/query", f"the address has more than {PARAMETERS_MAXIMUM} parameters")
    if any(not letter.isprintable() for letter in query):
        raise BadStudy(f"{pointer}/query", "the address has control characters; remove them")
    return StudyPanel(
        PanelKind(kind),
        query,
        _read_text(given.get("title"), f"{pointer}/title", maximum=TITLE_LENGTH),
        _read_text(given.get("text"), f"{pointer}/text", maximum=PANEL_TEXT_LENGTH),
    )


def read_panels(given: Any, pointer: str = "/panels") -> tuple[StudyPanel, ...]:
    """Validate a list of panels; raises BadStudy."""
    if not isinstance(given, list | tuple):
        raise BadStudy(pointer, "panels must be a list")
    if len(given) > PANELS_MAXIMUM:
        raise BadStudy(pointer, f"{len(given)} panels; at most {PANELS_MAXIMUM} are allowed")
    panels = []
    for place, each in enumerate(given):
        if not isinstance(each, Mapping):
            raise BadStudy(f"{pointer}/{place}", "a panel must be an object")
        panels.append(read_panel(each, f"{pointer}/{place}"))
    return tuple(panels)


@transaction.atomic
def create_study(
    title: str, *, text: str = "", panels: Sequence[StudyPanel] = (), owner: User | None = None
) -> Study:
    """Create a study; raises BadStudy."""
    study = Study.objects.create(
        title=read_title(title),
        text=read_study_text(text),
        owner=owner,
        panels=[asdict(panel) for panel in panels],
    )
    _record(study, "created", after=_snapshot(study))
    return study


def change_study(study_id: int, *, version: str | None = None, **changes: Any) -> Study:
    """Change title, text or panels (StudyPanel) of a study. Raises BadStudy and StudyChanged.

    version: `version_of` the study as it was shown; None skips the check.
    """
    with transaction.atomic():
        study = _lock(study_id, version)
        before = _snapshot(study)
        if "title" in changes:
            study.title = read_title(changes["title"])
        if "text" in changes:
            study.text = read_study_text(changes["text"])
        if "panels" in changes:
            study.panels = [asdict(panel) for panel in changes["panels"]]
        study.save(update_fields=["title", "text", "panels", "updated_at"])
        _record(study, "changed", before=before, after=_snapshot(study))
        return study


def add_panel(study_id: int, panel: StudyPanel) -> Study:
    """Append a chart to a study. Raises BadStudy if it is full, StudyChanged if it was deleted."""
    with transaction.atomic():
        study = _lock(study_id, None)
        if len(study.panels) >= PANELS_MAXIMUM:
            raise BadStudy("/panels", f"the study has {PANELS_MAXIMUM} panels, the maximum")
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
                {name: value for name, value in asdict(panel).items() if name != "images"} for panel in panels
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
    return snapshot(study, "title", "text", "panels")


def _record(
    study: Study,
    action: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    record_write(AuditKind.STUDY, action, object_id=study.pk, name=study.title, before=before, after=after)


def version_of(study: Study) -> str:
    """Return the version of a study, to detect concurrent changes."""
    return study.updated_at.isoformat()


def read_title(value: Any) -> str:
    """Return a title of 1 to 200 characters on one line; raises BadStudy."""
    text = " ".join(_read_text(value, "/title", maximum=TITLE_LENGTH).split())
    if not text:
        raise BadStudy("/title", "the title is required")
    return text


def read_study_text(value: Any) -> str:
    """Return Markdown source of at most 20 000 characters; raises BadStudy."""
    return _read_text(value, "/text", maximum=TEXT_LENGTH)


def _read_text(value: Any, pointer: str, *, maximum: int) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadStudy(pointer, "must be text")
    text = value.replace("\r\n", "\n").strip()
    if "\x00" in text:
        raise BadStudy(pointer, "the text has a NUL character; remove it")
    if len(text) > maximum:
        raise BadStudy(pointer, f"{len(text)} characters; at most {maximum} are allowed")
    return text


def _lock(study_id: int, version: str | None) -> Study:
    study = Study.objects.select_for_update().filter(pk=study_id).first()
    if study is None:
        raise StudyChanged("this study was deleted")
    if version is not None and version != version_of(study):
        raise StudyChanged("this study was changed by someone else since you opened it; reload the page")
    return study
