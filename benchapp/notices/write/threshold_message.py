"""Messages about violated thresholds. Reads no database."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import median
from typing import Any, Final
from urllib.parse import urlencode

from benchapp.catalog.metrics import format_count, format_with_unit, show_rates_in
from benchapp.catalog.thresholds import NEWEST_RUNS, Threshold
from benchapp.framework.times import format_utc_moment, to_iso
from benchapp.models import Series
from benchapp.notices.channels.message import Message, to_one_line
from benchapp.notices.write.incident_message import name_series_briefly

# The page of the subscription has all of them.
SERIES_SHOWN: Final = 10
SERIES_LISTED: Final = 100


@dataclass(frozen=True, slots=True)
class ViolatingSeries:
    """A series that violates a threshold, or did until now. newest: its newest values; since_at: of the violation."""

    series: Series
    newest: Sequence[float]
    since_at: datetime

    @property
    def value(self) -> float:
        """Return the median of the newest runs."""
        return median(self.newest)

    @property
    def name(self) -> str:
        """Return a short name."""
        return to_one_line(name_series_briefly(self.series))


class ThresholdEvent(StrEnum):
    """What happened to series that violate a threshold, as the kind of the message."""

    VIOLATED = "threshold.violated"
    MET = "threshold.met"
    UNMATCHED = "threshold.unmatched"


@dataclass(frozen=True, slots=True)
class _Texts:
    """Subject and sentence about one series, and about several. Fields: those of `make_threshold_message`."""

    subject: str
    sentence: str
    subject_of_several: str
    sentence_of_several: str


_TEXTS: Final = {
    ThresholdEvent.VIOLATED: _Texts(
        "Threshold violated: {threshold}: {name}",
        "{metric} {value}, median of the newest {runs} runs, does not meet {threshold}, since {since} ({name}).",
        "Threshold violated in {count}: {threshold}",
        "The median of the newest {runs} runs of {count} does not meet {threshold}.",
    ),
    ThresholdEvent.MET: _Texts(
        "Threshold met: {threshold}: {name}",
        "The newest {runs} runs meet {threshold}: {metric} {value} (median). It was violated since {since} ({name}).",
        "Threshold met in {count}: {threshold}",
        "The newest {runs} runs of {count} that violated {threshold} meet it.",
    ),
    ThresholdEvent.UNMATCHED: _Texts(
        "Threshold no longer applies: {threshold}: {name}",
        "The violation ended, as the series no longer matches the filter of the subscription ({name}). Not all of the"
        " newest {runs} runs meet {threshold}: {metric} {value} (median). It was violated since {since}.",
        "Threshold no longer applies to {count}: {threshold}",
        "The violations of {count} ended, as they no longer match the filter of the subscription. Not all of their"
        " newest {runs} runs meet {threshold}.",
    ),
}


@show_rates_in("si")
def make_threshold_message(
    event: ThresholdEvent,
    threshold: Threshold,
    concerned: Sequence[ViolatingSeries],
    *,
    subscription_id: int,
    base_url: str,
) -> Message:
    """Return the message about an event of one or more series; base_url: "" if unknown."""
    first, is_one = concerned[0], len(concerned) == 1
    texts = _TEXTS[event]
    fields = {
        "threshold": threshold.text,
        "metric": threshold.entry.label,
        "value": format_with_unit(first.value, threshold.entry),
        "since": format_utc_moment(first.since_at),
        "name": first.name,
        "count": format_count(len(concerned), "series"),
        "runs": NEWEST_RUNS,
    }
    page = f"{base_url}/subscriptions/{subscription_id}/"
    return Message(
        kind=event.value,
        subject=(texts.subject if is_one else texts.subject_of_several).format_map(fields),
        sentence=(texts.sentence if is_one else texts.sentence_of_several).format_map(fields),
        details=() if is_one else tuple(_list_details(threshold, concerned)),
        url="" if not base_url else _link(first, threshold, base_url) if is_one else page,
        link_text="Series" if is_one else "Violations",
        settings_url=page if base_url else "",
        thread=f"threshold-{hashlib.sha256(f'{subscription_id} {threshold.text}'.encode()).hexdigest()[:16]}",
        facts=_make_facts(threshold, concerned, base_url),
    )


def _list_details(threshold: Threshold, concerned: Sequence[ViolatingSeries]) -> Iterator[tuple[str, str]]:
    for each in concerned[:SERIES_SHOWN]:
        value = format_with_unit(each.value, threshold.entry)
        yield each.name, f"{value}, violated since {format_utc_moment(each.since_at)}"
    if len(concerned) > SERIES_SHOWN:
        yield "and", f"{len(concerned) - SERIES_SHOWN} more"


def _link(each: ViolatingSeries, threshold: Threshold, base_url: str) -> str:
    return f"{base_url}/series/{each.series.pk}/?{urlencode({'metric': threshold.metric})}"


def _make_facts(threshold: Threshold, concerned: Sequence[ViolatingSeries], base_url: str) -> dict[str, Any]:
    """Return the values for programs: base units, ISO times; the first hundred series."""
    return {
        "threshold": {
            "text": threshold.text,
            "metric": threshold.metric,
            "comparison": threshold.comparison,
            "value": threshold.limit,
        },
        "series_count": len(concerned),
        "series": [
            {
                "id": each.series.pk,
                "name": each.name,
                "value": each.value,
                "since_at": to_iso(each.since_at),
                "url": _link(each, threshold, base_url) if base_url else None,
            }
            for each in concerned[:SERIES_LISTED]
        ],
    }
