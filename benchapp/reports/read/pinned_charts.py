"""Charts that users pinned to their overview, and the series of pinned histories."""

import time
from collections.abc import Sequence
from typing import Final

from django.db import connection, transaction
from django.http import QueryDict

from benchapp.catalog.grammar import BadFilter, Filter, parse_filter
from benchapp.charts.read.history import choose_series
from benchapp.models import PanelKind, PinnedChart, User
from benchapp.series.read.series import SeriesRow

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
    try:
        return choose_series(parse_filter(query.get("q", ""))).rows
    except BadFilter:
        # The chart itself reports it.
        return ()
