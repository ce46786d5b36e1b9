"""Studies, saved views and pinned charts that a reader sees."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django.db import connection, transaction
from django.db.models import BooleanField, ExpressionWrapper, Func, IntegerField, Q
from django.http import QueryDict

from benchapp.catalog.grammar import BadFilter, Filter, parse_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.charts.read.history import choose_series
from benchapp.framework.read.pagination import Page, read_page_by_time
from benchapp.models import PanelKind, PinnedChart, SavedView, Study, StudySnapshotImage, User
from benchapp.series.read.series import SeriesRow

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


LISTED_MAXIMUM: Final = 500


def list_saved_views(visitor: User | None, *, has_people: bool = False) -> tuple[list[SavedView], bool]:
    """Return the views of a visitor, then the shared ones of others, each by name; and whether some are left out.

    One query. visitor: None for shared ones only. A user has fewer views than LISTED_MAXIMUM: none of them is left out.
    has_people: also their owners.
    """
    views = SavedView.objects.filter(removed_at__isnull=True)
    if visitor is None:
        ordered = views.filter(is_shared=True).order_by("name", "id")
    else:
        is_own = ExpressionWrapper(Q(owner=visitor), BooleanField())
        ordered = views.filter(Q(is_shared=True) | Q(owner=visitor)).order_by(is_own.desc(), "name", "id")
    rows = list((ordered.select_related("owner") if has_people else ordered)[: LISTED_MAXIMUM + 1])
    return rows[:LISTED_MAXIMUM], len(rows) > LISTED_MAXIMUM


def list_removed_views(owner: User, *, since: datetime) -> list[SavedView]:
    """Return the views that a user deleted since a time, by name, at most LISTED_MAXIMUM; one query."""
    removed = SavedView.objects.filter(owner=owner, removed_at__gte=since).order_by("name", "id")
    return list(removed[:LISTED_MAXIMUM])


# Each is a label set of the metrics: a monitoring system keeps one time series for each.
PINNED_SERIES_MAXIMUM: Final = 100
_CHARTS_MAXIMUM: Final = 50
# A scrape waits for 10 s by default.
SERIES_TIMEOUT_S: Final = 3.0


def list_pinned_charts(owner: User) -> list[PinnedChart]:
    """Return the pinned charts of a user in their order; one query."""
    return list(PinnedChart.objects.filter(owner=owner).order_by("position", "id"))


def read_pinned_chart(owner: User, pin_id: int) -> PinnedChart | None:
    """Return one pinned chart of a user; None if there is none with this id."""
    return PinnedChart.objects.filter(owner=owner, pk=pin_id).first()


def list_pinned_series() -> list[SeriesRow]:
    """Return the series of the pinned histories of all users, at most PINNED_SERIES_MAXIMUM, first pinned first.

    Of at most 50 charts, the series that each shows; four queries for each chart with another query string. Raises
    OperationalError if one takes longer than what is left of SERIES_TIMEOUT_S when its chart begins: any user can pin
    any filter.
    """
    pins = PinnedChart.objects.filter(kind=PanelKind.HISTORY).order_by("id").values_list("query", flat=True)
    found: dict[int, SeriesRow] = {}
    ends_s = time.monotonic() + SERIES_TIMEOUT_S
    with transaction.atomic(), connection.cursor() as cursor:
        for query in dict.fromkeys(pins[:_CHARTS_MAXIMUM]):
            left_ms = max(1, int((ends_s - time.monotonic()) * 1000))
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [f"{left_ms}ms"])
            for row in _choose_series(QueryDict(query)):
                found.setdefault(row.id, row)
    return list(found.values())[:PINNED_SERIES_MAXIMUM]


def _choose_series(query: QueryDict) -> Sequence[SeriesRow]:
    ids = [part for part in query.get("series", "").split(",") if part.isascii() and part.isdigit()]
    if ids:
        return choose_series(Filter(), ids=[int(each) for each in ids if len(each) < 19]).rows
    metric = CATALOG.get(query.get("metric", ""), CATALOG["iops"]).name
    try:
        return choose_series(parse_filter(query.get("q", "")), metric=metric).rows
    except BadFilter:
        # The chart itself reports it.
        return ()
