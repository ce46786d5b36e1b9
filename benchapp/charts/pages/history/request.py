"""Query parameters of the history pages: series, metric, time range, display."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from django.http import QueryDict

from benchapp.catalog.dimensions import FACT_NAMES, find_dimension
from benchapp.catalog.metrics import CATALOG, Metric
from benchapp.charts.read.history import IDS_MAXIMUM
from benchapp.framework.pages.filter_forms import Span
from benchapp.framework.pages.time_range import AskedRange, read_time_range

ZONES: Final = ("utc", "own", "host")
# Metrics of the panels below the main chart.
_LINKED: Final = ("iops", "bandwidth_bytes_per_s", "latency_p99_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest(AskedRange):
    """One chart. ids: None if a filter selects the series.

    zone: "" for that of the page, utc, own (of the browser) or host. color: a fact of the environment that colors runs,
    or None. errors: invalid parameters, one sentence each.
    """

    metric: Metric
    ids: tuple[int, ...] | None = None
    is_log: bool = False
    is_linked: bool = True
    zone: str = ""
    color: str | None = None
    errors: tuple[str, ...] = field(default=())

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics of all panels, main metric first."""
        if not self.is_linked or self.metric.name == "elapsed_s":
            return (self.metric,)
        others = [name for name in _LINKED if name != self.metric.name]
        # A latency as the main metric replaces the p99 panel.
        if self.metric.unit == "ns":
            others = [name for name in others if CATALOG[name].unit != "ns"]
        return (self.metric, *(CATALOG[name] for name in others))

    @property
    def span(self) -> Span:
        """Return the time range for queries."""
        return {"from_at": self.from_at, "to_at": self.to_at}


def read_history_request(query: QueryDict, *, default: Metric | None = None) -> HistoryRequest:
    """Parse query parameters; default: the metric if none is given (IOPS). Invalid ones are ignored and reported."""
    errors: list[str] = []
    metric = _read_metric(query, default or CATALOG["iops"], errors)
    asked = read_time_range(query, errors)
    return HistoryRequest(
        metric=metric,
        ids=_read_ids(query.get("series", ""), errors),
        from_at=asked.from_at,
        to_at=asked.to_at,
        from_text=asked.from_text,
        to_text=asked.to_text,
        is_log=query.get("scale") == "log",
        is_linked=query.get("panels") != "one",
        zone=next((zone for zone in ZONES if zone == query.get("tz")), ""),
        color=_read_color(query.get("color", ""), errors),
        errors=tuple(errors),
    )


def write_query(**parameters: object) -> str:
    """Return a query string without parameters that are None or empty."""
    return urlencode(
        {name: value for name, value in parameters.items() if value not in (None, "")}, safe=":,"
    )


def _read_metric(query: QueryDict, default: Metric, errors: list[str]) -> Metric:
    metric = CATALOG.get(query.get("metric", default.name))
    if metric is None:
        errors.append(f"Unknown metric. Available: {', '.join(CATALOG)}.")
        return default
    return metric


def _read_color(name: str, errors: list[str]) -> str | None:
    if not name:
        return None
    dimension = find_dimension(name)
    if dimension is None or not dimension.is_environment:
        errors.append(
            f"Color: {name[:40]!r} is not a fact of the environment. Available: {', '.join(FACT_NAMES)}."
        )
        return None
    return dimension.name


def _read_ids(text: str, errors: list[str]) -> tuple[int, ...] | None:
    if not text.strip():
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    wrong = next((part for part in parts if not (part.isascii() and part.isdigit() and len(part) < 19)), None)
    if wrong is not None:
        errors.append(f"{wrong[:40]!r} is not a valid series id. Separate ids by commas: 1,2,3.")
        return None
    return tuple(dict.fromkeys(map(int, parts)))[:IDS_MAXIMUM]
