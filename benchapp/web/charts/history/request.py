"""What the address of a history asks for: which series, which metric, which part, how drawn."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from benchapp.metrics import CATALOGUE, Metric
from benchapp.queries.charts.history import IDS_MAXIMUM
from benchapp.web.site.filter_forms import Span

ZONES: Final = ("utc", "own", "host")
# What stands below the picture of one metric, in the same time.
_LINKED: Final = ("iops", "bandwidth_bytes_per_s", "latency_p99_ns")
_EXAMPLE: Final = "write it as 2026-05-12, or as 2026-05-12T02:10Z"


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """One picture. ids: None where a filter chooses. from_at inclusive, to_at exclusive; None is open.

    zone: utc, own (the reader's) or host. errors: what was wrong with the address, each a sentence.
    """

    metric: Metric
    ids: tuple[int, ...] | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None
    is_log: bool = False
    is_linked: bool = True
    zone: str = "utc"
    errors: tuple[str, ...] = field(default=())

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics that are drawn, the one in question first."""
        if not self.is_linked or self.metric.name == "elapsed_s":
            return (self.metric,)
        others = [name for name in _LINKED if name != self.metric.name]
        # Of the latencies the one in question is shown, p99 beside rates.
        if self.metric.unit == "ns":
            others = [name for name in others if CATALOGUE[name].unit != "ns"]
        return (self.metric, *(CATALOGUE[name] for name in others))

    @property
    def span(self) -> Span:
        """Return the part, as queries take it."""
        return {"from_at": self.from_at, "to_at": self.to_at}

    @property
    def first_day(self) -> date | None:
        """Return the first day of the part, for a field of days."""
        return None if self.from_at is None else self.from_at.date()

    @property
    def last_day(self) -> date | None:
        """Return the last day of the part, for a field of days."""
        return None if self.to_at is None else (self.to_at - timedelta(microseconds=1)).date()

    @property
    def bounds(self) -> dict[str, str]:
        """Return the part as parameters of an address, as far as it is given."""
        bounds = {"from": self.from_at, "to": self.to_at}
        return {name: format_request_time(moment) for name, moment in bounds.items() if moment is not None}


def read_history_request(query: QueryDict, *, usual: Metric | None = None) -> HistoryRequest:
    """Read an address; usual: the metric of one that names none (IOPS). What makes no sense is left out and said."""
    errors: list[str] = []
    metric = _read_metric(query, usual or CATALOGUE["iops"], errors)
    from_at = _read_bound(query.get("from", ""), "From", errors)
    to_at = _read_bound(query.get("to", ""), "To", errors)
    if from_at and to_at and from_at >= to_at:
        errors.append("From is after To: swap the two.")
        from_at = to_at = None
    return HistoryRequest(
        metric=metric,
        ids=_read_ids(query.get("series", ""), errors),
        from_at=from_at,
        to_at=to_at,
        is_log=query.get("scale") == "log",
        is_linked=query.get("panels") != "one",
        zone=next((zone for zone in ZONES if zone == query.get("tz")), "utc"),
        errors=tuple(errors),
    )


def format_request_time(at: datetime) -> str:
    """Write a moment as the API reads it."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def write_query(**parameters: object) -> str:
    """Write parameters of an address, without those that are None or empty."""
    return urlencode(
        {name: value for name, value in parameters.items() if value not in (None, "")}, safe=":,"
    )


def _read_metric(query: QueryDict, usual: Metric, errors: list[str]) -> Metric:
    metric = CATALOGUE.get(query.get("metric", usual.name))
    if metric is None:
        errors.append(f"There is no such metric; there are: {', '.join(CATALOGUE)}. Here is {usual.label}.")
        return usual
    return metric


def _read_ids(text: str, errors: list[str]) -> tuple[int, ...] | None:
    if not text.strip():
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    wrong = next((part for part in parts if not (part.isascii() and part.isdigit() and len(part) < 19)), None)
    if wrong is not None:
        errors.append(f"{wrong[:40]!r} is no series: write their numbers as 1,2,3.")
        return None
    return tuple(dict.fromkeys(map(int, parts)))[:IDS_MAXIMUM]


def _read_bound(text: str, label: str, errors: list[str]) -> datetime | None:
    """Read a day or a moment; a day as To is the whole of it."""
    text = text.strip()
    if not text:
        return None
    try:
        if "T" not in text and " " not in text:
            day = datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)
            return day + timedelta(days=1) if label == "To" else day
        moment = parse_datetime(text)
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        errors.append(f"{label} is no day: {_EXAMPLE}.")
        return None
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        errors.append(f"{label} is no day: {_EXAMPLE}.")
        return None
