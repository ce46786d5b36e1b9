"""Studies: the list, one by id, and one by the token of its shared link."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from benchapp.models import Study, User
from benchapp.queries.binary_columns import fetch_rows
from benchapp.queries.pagination import Cursor, Page, cut_page, read_cursor


@dataclass(frozen=True, slots=True)
class PanelRow:
    """One chart of a study. query: query string of its page; title: "" for the automatic title."""

    kind: str
    query: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One study in the list; owner_name: "" for a sample."""

    id: int
    title: str
    owner_name: str
    panel_count: int
    is_shared: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class StudyDetail:
    """One study. text: Markdown source. version: to detect concurrent changes.

    owner_id, owner_name: None and "" for a sample and for a shared link.
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


def list_studies(*, after: str | None = None, limit: int = 100, oldest_first: bool = False) -> Page[StudyRow]:
    """Return the studies after the cursor, most recently updated first; one query. Raises BadCursor."""
    beyond, order = (">", "ASC") if oldest_first else ("<", "DESC")
    cursor = read_cursor(after)
    behind, values = "", []
    if cursor is not None:
        behind, values = f"WHERE (study.updated_at, study.id) {beyond} (%s, %s)", [cursor.at, cursor.id]
    rows = fetch_rows(
        "SELECT study.id, title, owner.username, jsonb_array_length(panels), share_token, study.created_at,"  # nosec B608
        " study.updated_at FROM benchapp_study study LEFT JOIN benchapp_user owner ON owner.id = owner_id"
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
    study = Study.objects.filter(pk=study_id).select_related("owner").first()
    return None if study is None else _make_detail(study, owner=study.owner)


def read_shared_study(token: str) -> StudyDetail | None:
    """Return the study of a shared link, None if the link is not valid or was revoked; one query.

    Without its owner: readers of a shared link must not learn sign-in names.
    """
    study = Study.objects.filter(share_token=token).first()
    return None if study is None else _make_detail(study, owner=None)


def _make_row(row: Sequence[Any]) -> StudyRow:
    study_id, title, owner_name, panel_count, share_token, created_at, updated_at = row
    return StudyRow(
        study_id, title, owner_name or "", panel_count, share_token is not None, created_at, updated_at
    )


def _make_detail(study: Study, *, owner: User | None) -> StudyDetail:
    return StudyDetail(
        id=study.pk,
        title=study.title,
        text=study.text,
        owner_id=owner.pk if owner else None,
        owner_name=owner.username if owner else "",
        panels=tuple(PanelRow(**panel) for panel in study.panels),
        share_token=study.share_token,
        created_at=study.created_at,
        updated_at=study.updated_at,
        version=study.updated_at.isoformat(),
    )
