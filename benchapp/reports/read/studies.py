"""Studies: the list, one by id, and one by the token of its shared link; the images of snapshots."""

from typing import Final

from django.db.models import Func, IntegerField

from benchapp.framework.read.pagination import Page, read_page_by_time
from benchapp.models import Study, StudySnapshotImage, User

# `Study.panel_count`.
_COUNT: Final = {"panel_count": Func("panels", function="jsonb_array_length", output_field=IntegerField())}
_STUDIES: Final = Study.objects.select_related("owner", "snapshot").annotate(**_COUNT)


def list_studies(*, after: str | None = None, limit: int = 100, oldest_first: bool = False) -> Page[Study]:
    """Return a page of studies without texts and panels, most recently updated first; one query. Raises BadCursor."""
    rows = _STUDIES.defer("text", "panels", "snapshot__panels")
    return read_page_by_time(rows, "updated_at", after=after, limit=limit, oldest_first=oldest_first)


def list_own_studies(person: User, *, may_edit_all: bool = False, limit: int = 100) -> list[tuple[int, str]]:
    """Return (id, title) of the studies that a user may add charts to, most recently updated first."""
    studies = Study.objects.all() if may_edit_all else Study.objects.filter(owner=person)
    return list(studies.order_by("-updated_at", "-id").values_list("id", "title")[:limit])


def read_study(study_id: int) -> Study | None:
    """Return one study, None if it does not exist; one query."""
    return _STUDIES.select_related("snapshot__taken_by").filter(pk=study_id).first()


def read_shared_study(token: str) -> Study | None:
    """Return the study of a shared link, None if the link is not valid or was revoked; one query."""
    return _STUDIES.select_related("snapshot__taken_by").filter(share_token=token).first()


def read_snapshot_image(study: Study | None, place: int, theme: str) -> bytes | None:
    """Return a chart of the snapshot of a study as PNG; None if there is none; one query."""
    # Who removes a chart from a study no longer shares it.
    if study is None or place not in {chart.place for chart in study.frozen_charts if chart}:
        return None
    images = StudySnapshotImage.objects.filter(snapshot=study.pk, place=place, theme=theme)
    content = images.values_list("content", flat=True).first()
    return None if content is None else bytes(content)
