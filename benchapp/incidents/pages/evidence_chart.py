"""Evidence of a change: the history around it, and the runs before and after it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from benchapp.catalog.metrics import CATALOG, Metric
from benchapp.charts.pages.history.figure import HistoryFigure, make_history_figure
from benchapp.charts.pages.history.request import HistoryRequest, write_query
from benchapp.framework.times import to_iso
from benchapp.incidents.read.changes import ChangeRow, SidePoint, read_sides, summarize_side

# Time shown before the oldest run of the evidence, as a share of the time to the change.
_MARGIN_SHARE: Final = 0.1
_MARGIN_MINIMUM: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class EvidenceChart:
    """Charts of the largest change of an incident. document: the runs before and after. image_url: of these."""

    change: ChangeRow
    metric: Metric
    figure: HistoryFigure
    document: dict[str, Any]
    image_url: str


def make_evidence(change: ChangeRow, *, title: str, base_url: str) -> EvidenceChart:
    """Return the charts of one change; one query."""
    metric = CATALOG[change.metric]
    sides = read_sides(change)
    from_at = change.points_from_at
    if from_at is not None:
        from_at -= max((change.started_at - from_at) * _MARGIN_SHARE, _MARGIN_MINIMUM)
    asked = HistoryRequest(metric=metric, ids=(change.series.id,), from_at=from_at, is_linked=False)
    figure = make_history_figure(
        asked,
        choice=write_query(series=change.series.id),
        base_url=base_url,
        title=title,
        filter=f"{change.series.scope_name}: {change.series.workload_title}",
        file_name=f"change-{change.id}",
        owns_address=False,
    )
    document = {
        "metric": {"name": metric.name, "unit": metric.unit, "label": metric.label},
        "is_regression": change.is_regression,
        "before": _describe_side(sides.before),
        "after": _describe_side(sides.after),
    }
    return EvidenceChart(
        change, metric, figure, document, f"/api/v1/charts/incident.png?incident={change.incident_id}"
    )


def _describe_side(points: tuple[SidePoint, ...]) -> dict[str, Any]:
    spread = summarize_side(points)
    return {
        "median": spread and spread.median,
        "p10": spread and spread.p10,
        "p90": spread and spread.p90,
        "points": [{"run": point.run_id, "at": to_iso(point.at), "value": point.value} for point in points],
    }
