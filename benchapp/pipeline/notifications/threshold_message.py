"""Messages about violated thresholds. Reads no database."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any, Final
from urllib.parse import urlencode

from benchapp.metrics import format_count, format_with_unit, show_rates_in
from benchapp.models import Series
from benchapp.pipeline.notifications.incident_message import name_series_briefly
from benchapp.pipeline.notifications.message import Message, to_one_line
from benchapp.thresholds import NEWEST_RUNS, Threshold
from benchapp.times import format_utc_moment, to_iso

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


@show_rates_in("si")
def make_violation_message(
    threshold: Threshold, violating: Sequence[ViolatingSeries], *, subscription_id: int, base_url: str
) -> Message:
    """Return the message that series violate a threshold; one or more."""
    first = violating[0]
    value = format_with_unit(first.value, threshold.entry)
    if len(violating) == 1:
        subject = f"Threshold violated: {threshold.text}: {first.name}"
        sentence = (
            f"{threshold.entry.label} {value}, median of the newest {NEWEST_RUNS} runs, does not meet"
            f" {threshold.text}, since {format_utc_moment(first.since_at)} ({first.name})."
        )
    else:
        count = format_count(len(violating), "series")
        subject = f"Threshold violated in {count}: {threshold.text}"
        sentence = f"The median of the newest {NEWEST_RUNS} runs of {count} does not meet {threshold.text}."
    return _make_message(
        "threshold.violated", subject, sentence, threshold, violating, (subscription_id, base_url)
    )


@show_rates_in("si")
def make_met_message(
    threshold: Threshold, met: Sequence[ViolatingSeries], *, subscription_id: int, base_url: str
) -> Message:
    """Return the message that series meet a threshold again; one or more."""
    first = met[0]
    value = format_with_unit(first.value, threshold.entry)
    if len(met) == 1:
        subject = f"Threshold met: {threshold.text}: {first.name}"
        sentence = (
            f"The newest {NEWEST_RUNS} runs meet {threshold.text}: {threshold.entry.label} {value} (median). It was"
            f" violated since {format_utc_moment(first.since_at)} ({first.name})."
        )
    else:
        count = format_count(len(met), "series")
        subject = f"Threshold met in {count}: {threshold.text}"
        sentence = f"The newest {NEWEST_RUNS} runs of {count} that violated {threshold.text} meet it."
    return _make_message("threshold.met", subject, sentence, threshold, met, (subscription_id, base_url))


@show_rates_in("si")
def make_unmatched_message(
    threshold: Threshold, ended: Sequence[ViolatingSeries], *, subscription_id: int, base_url: str
) -> Message:
    """Return the message that series that violate a threshold no longer match the filter; one or more."""
    first = ended[0]
    value = format_with_unit(first.value, threshold.entry)
    if len(ended) == 1:
        subject = f"Threshold no longer applies: {threshold.text}: {first.name}"
        sentence = (
            f"The violation ended, as the series no longer matches the filter of the subscription ({first.name})."
            f" Not all of the newest {NEWEST_RUNS} runs meet {threshold.text}: {threshold.entry.label} {value}"
            f" (median). It was violated since {format_utc_moment(first.since_at)}."
        )
    else:
        count = format_count(len(ended), "series")
        subject = f"Threshold no longer applies to {count}: {threshold.text}"
        sentence = (
            f"The violations of {count} ended, as they no longer match the filter of the subscription. Not all of their"
            f" newest {NEWEST_RUNS} runs meet {threshold.text}."
        )
    return _make_message(
        "threshold.unmatched", subject, sentence, threshold, ended, (subscription_id, base_url)
    )


def _make_message(
    kind: str,
    subject: str,
    sentence: str,
    threshold: Threshold,
    concerned: Sequence[ViolatingSeries],
    origin: tuple[int, str],
) -> Message:
    subscription_id, base_url = origin
    shown = concerned[:SERIES_SHOWN] if len(concerned) > 1 else []
    details = [
        (
            each.name,
            f"{format_with_unit(each.value, threshold.entry)}, violated since {format_utc_moment(each.since_at)}",
        )
        for each in shown
    ]
    if len(concerned) > len(shown) > 0:
        details.append(("and", f"{len(concerned) - len(shown)} more"))
    page = f"{base_url}/subscriptions/{subscription_id}/"
    return Message(
        kind=kind,
        subject=subject,
        sentence=sentence,
        details=tuple(details),
        url="" if not base_url else _link(concerned[0], threshold, base_url) if not shown else page,
        link_text="Series" if not shown else "Violations",
        settings_url=page if base_url else "",
        thread=f"threshold-{hashlib.sha256(f'{subscription_id} {threshold.text}'.encode()).hexdigest()[:16]}",
        facts=_make_facts(threshold, concerned, base_url),
    )


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
