"""Charts that a user pinned to the overview."""

from dataclasses import dataclass

from django.db.models import QuerySet

from benchapp.models import PinnedChart, User
from benchapp.queries.studies import PanelRow


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


def _make_rows(pins: QuerySet[PinnedChart]) -> list[PinnedChartRow]:
    return [
        PinnedChartRow(pin.pk, PanelRow(kind=pin.kind, query=pin.query, title=pin.title, text=""))
        for pin in pins.order_by("position", "id")
    ]
