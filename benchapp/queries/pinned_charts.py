"""Charts that users pinned to their overview, and the series of pinned histories."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import QuerySet
from django.http import QueryDict

from benchapp.grammar import BadFilter, parse_filter
from benchapp.models import PanelKind, PinnedChart, User
from benchapp.models.filtering import match_series
from benchapp.queries.series.series import SeriesRow, list_rows, with_points
from benchapp.queries.studies import PanelRow

# Each is a label set of the metrics: a monitoring system keeps one time series for each.
PINNED_SERIES_MAXIMUM: Final = 100
# As many as a history shows, and as many charts as fill the maximum.
_SERIES_OF_A_CHART: Final = 12
_CHARTS_MAXIMUM: Final = 50


@dataclass(frozen=True, slots=True)
class PinnedChartRow:
    """One pinned chart."""

    id: int
    panel: PanelRow


def list_pinned_charts(owner: User) -> list[PinnedChartRow]:
    """Return the pinned charts of a user in their order; one query."""
    return _make_rows(PinnedChart.objects.filter(owner=owner))


def read_pinned_chart(owner: User, pin_id: int) -> PinnedChartRow | None:
    """Return one pinned chart of a user; None if there is none with this id."""
    return next(iter(_make_rows(PinnedChart.objects.filter(owner=owner, pk=pin_id))), None)


def list_pinned_series() -> list[SeriesRow]:
    """Return the series of the pinned histories of all users, at most PINNED_SERIES_MAXIMUM, first pinned first.

    Of at most 50 charts, the newest 12 series of each; a query for each chart with another query string.
    """
    pins = PinnedChart.objects.filter(kind=PanelKind.HISTORY).order_by("id").values_list("query", flat=True)
    found: dict[int, SeriesRow] = {}
    for query in dict.fromkeys(pins[:_CHARTS_MAXIMUM]):
        for row in _list_series(QueryDict(query)):
            found.setdefault(row.id, row)
    return list(found.values())[:PINNED_SERIES_MAXIMUM]


def _list_series(query: QueryDict) -> Sequence[SeriesRow]:
    ids = [part for part in query.get("series", "").split(",") if part.isascii() and part.isdigit()]
    if ids:
        wanted = with_points().filter(pk__in=[int(each) for each in ids if len(each) < 19])
    else:
        try:
            wanted = with_points().filter(match_series(parse_filter(query.get("q", "")), runs="any"))
        except BadFilter:
            # The chart itself reports it.
            return ()
    return list_rows(wanted, limit=_SERIES_OF_A_CHART)


def _make_rows(pins: QuerySet[PinnedChart]) -> list[PinnedChartRow]:
    return [
        PinnedChartRow(pin.pk, PanelRow(kind=pin.kind, query=pin.query, title=pin.title, text=""))
        for pin in pins.order_by("position", "id")
    ]
