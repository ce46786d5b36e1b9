"""Studies: the list, one by id, and one by the token of its shared link; the images of snapshots."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.read.pagination import Cursor, Page, cut_page, read_cursor
from benchapp.models import Study, StudySnapshot, StudySnapshotImage, User, name_person, shown_to


@dataclass(frozen=True, slots=True)
class PanelRow:
    """One chart of a study. query: query string of its page; title: "" for the automatic title."""

    kind: str
    query: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class FrozenPanelRow:
    """One chart of a snapshot, as of `StudySnapshot`. place: in the snapshot, from 1."""

    place: int
    kind: str
    query: str
    title: str
    content: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class SnapshotDetail:
    """The snapshot of a study. taken_by_name: "" if unknown."""

    taken_at: datetime
    taken_by_name: str
    panels: tuple[FrozenPanelRow, ...]

    def find_panel(self, panel: PanelRow) -> FrozenPanelRow | None:
        """Return the chart with the kind and query of a panel; None for one that was added or changed since."""
        return next(
            (each for each in self.panels if (each.kind, each.query) == (panel.kind, panel.query)), None
        )


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One study in the list; owner_name: "" for a sample. snapshot_at: None for current data."""

    id: int
    title: str
    owner_name: str
    panel_count: int
    is_shared: bool
    created_at: datetime
    updated_at: datetime
    snapshot_at: datetime | None


@dataclass(frozen=True, slots=True)
class StudyDetail:
    """One study. text: Markdown source. version: to detect concurrent changes. snapshot: None for current data.

    owner_id, owner_name: None and "" for a sample.
    """

    id: int
    title: str
    text: str
    owner_id: int | None
    owner_name: str
    panels: tuple[PanelRow, ...]
    share_token: str | None
    created_at: datetime
    updated_at: datetime
    version: str
    snapshot: SnapshotDetail | None

    @property
    def snapshot_at(self) -> datetime | None:
        """Return when the numbers were frozen; None for current data."""
        return self.snapshot.taken_at if self.snapshot else None

    @property
    def frozen_places(self) -> frozenset[int]:
        """Return the places in the snapshot of the charts that the study still has."""
        if self.snapshot is None:
            return frozenset()
        found = (self.snapshot.find_panel(panel) for panel in self.panels)
        return frozenset(each.place for each in found if each is not None)

    @property
    def state(self) -> str:
        """Return what changes with the study or its snapshot."""
        return f"{self.version} {self.snapshot_at}"


def list_studies(*, after: str | None = None, limit: int = 100, oldest_first: bool = False) -> Page[StudyRow]:
    """Return the studies after the cursor, most recently updated first; one query. Raises BadCursor."""
    beyond, order = (">", "ASC") if oldest_first else ("<", "DESC")
    cursor = read_cursor(after)
    behind, values = "", []
    if cursor is not None:
        behind, values = f"WHERE (study.updated_at, study.id) {beyond} (%s, %s)", [cursor.at, cursor.id]
    rows = fetch_rows(
        "SELECT study.id, title, owner.username, jsonb_array_length(study.panels), share_token, study.created_at,"  # noqa: S608
        " study.updated_at, taken_at FROM benchapp_study study LEFT JOIN benchapp_user owner ON owner.id = owner_id"
        " LEFT JOIN benchapp_studysnapshot snapshot ON snapshot.study_id = study.id"
        f" {behind} ORDER BY study.updated_at {order}, study.id {order} LIMIT %s",
        [*values, limit + 1],
    )
    return cut_page(
        [_make_row(row) for row in rows], limit, cursor_of=lambda study: Cursor(study.updated_at, study.id)
    )


def list_own_studies(person: User, *, may_edit_all: bool = False, limit: int = 100) -> list[tuple[int, str]]:
    """Return (id, title) of the studies that a user may add charts to, most recently updated first."""
    studies = Study.objects.all() if may_edit_all else Study.objects.filter(owner=person)
    return list(studies.order_by("-updated_at", "-id").values_list("id", "title")[:limit])


def read_study(study_id: int) -> StudyDetail | None:
    """Return one study, None if it does not exist; one query."""
    study = Study.objects.filter(pk=study_id).select_related("owner", "snapshot__taken_by").first()
    return None if study is None else _make_detail(study)


def read_shared_study(token: str) -> StudyDetail | None:
    """Return the study of a shared link, None if the link is not valid or was revoked; one query.

    Names are those that strangers see: the page is the same for all its readers.
    """
    study = Study.objects.filter(share_token=token).select_related("owner", "snapshot__taken_by").first()
    with shown_to(lambda: True):
        return None if study is None else _make_detail(study)


def read_snapshot_image(study_id: int, place: int, theme: str) -> bytes | None:
    """Return a chart of a snapshot as PNG; None if there is none, or if it is no longer in the study; two queries."""
    return _read_image(read_study(study_id), place, theme)


def read_shared_snapshot_image(token: str, place: int, theme: str) -> bytes | None:
    """Return a chart of the snapshot of a shared study as PNG, None as above; two queries."""
    return _read_image(read_shared_study(token), place, theme)


def _read_image(study: StudyDetail | None, place: int, theme: str) -> bytes | None:
    # Who removes a chart from a study no longer shares it.
    if study is None or place not in study.frozen_places:
        return None
    images = StudySnapshotImage.objects.filter(snapshot=study.id, place=place, theme=theme)
    content = images.values_list("content", flat=True).first()
    return None if content is None else bytes(content)


def _make_row(row: Sequence[Any]) -> StudyRow:
    study_id, title, owner_name, panel_count, share_token, created_at, updated_at, taken_at = row
    return StudyRow(
        study_id,
        title,
        name_person(owner_name),
        panel_count,
        share_token is not None,
        created_at,
        updated_at,
        taken_at,
    )


def _make_detail(study: Study) -> StudyDetail:
    return StudyDetail(
        id=study.pk,
        title=study.title,
        text=study.text,
        owner_id=study.owner_id,
        owner_name=name_person(study.owner),
        panels=tuple(PanelRow(**panel) for panel in study.panels),
        share_token=study.share_token,
        created_at=study.created_at,
        updated_at=study.updated_at,
        version=study.updated_at.isoformat(),
        snapshot=_make_snapshot(study),
    )


def _make_snapshot(study: Study) -> SnapshotDetail | None:
    # Joined with the study: no query.
    stored: StudySnapshot | None = getattr(study, "snapshot", None)
    if stored is None:
        return None
    return SnapshotDetail(
        taken_at=stored.taken_at,
        taken_by_name=name_person(stored.taken_by),
        panels=tuple(FrozenPanelRow(place, **panel) for place, panel in enumerate(stored.panels, start=1)),
    )
