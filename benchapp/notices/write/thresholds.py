"""Which series begin or cease to violate the thresholds of subscriptions; notices of it in the same transaction.

Evaluated are the newest values that detection stores with the current level of each metric: without failed and excluded
runs and those of maintenance. A violation is a row as long as it lasts, so that it is reported once.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from statistics import median
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from benchapp.catalog.grammar import parse_filter
from benchapp.catalog.metrics import CATALOG, format_count, format_with_unit, show_rates_in
from benchapp.catalog.thresholds import NEWEST_RUNS, Threshold, find_start, is_violated, parse_threshold
from benchapp.framework.times import format_utc_moment, to_iso
from benchapp.models import (
    Measurement,
    NewestValues,
    PlannedEvent,
    PlannedEventKind,
    Series,
    Subscription,
    ThresholdViolation,
)
from benchapp.models.coverage import (
    match_maintenance,
    match_planned_events,
    match_stored_filters,
    read_stored_filter,
    read_stored_threshold,
    select_violating,
)
from benchapp.models.filtering import match_facts, match_series
from benchapp.models.measurement import are_same_kind, select_kind
from benchapp.notices.channels.transport import Message, to_one_line
from benchapp.notices.write.incident_message import name_series_briefly
from benchapp.notices.write.outbox import Draft, lock_existing, put_notices

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


THRESHOLDS_MAXIMUM: Final = 10
# Of all thresholds that are added at once; each is a row, and its history is read: 1 ms.
VIOLATIONS_MAXIMUM: Final = 5_000
# Counting stops here, so that the preview is fast on any history.
SERIES_COUNTED: Final = 1000
EXAMPLES_SHOWN: Final = 5
# Runs in which the first one of a violation is looked for.
_RUNS_READ: Final = 100
_SERIES_AT_ONCE: Final = 500
# Names of columns are those of the catalog.
_READ_RUNS: Final = (
    "SELECT wanted.id, measured.started_at, measured.value, measured.kind FROM unnest(%s::bigint[]) AS wanted(id)"
    ' CROSS JOIN LATERAL (SELECT started_at, id, "{metric}" AS value, {kind} AS kind FROM benchapp_measurement'
    " WHERE series_id = wanted.id AND error = 0"
    ' AND NOT is_excluded AND "{metric}" IS NOT NULL ORDER BY started_at DESC, id DESC LIMIT %s) AS measured'
    " ORDER BY wanted.id, measured.started_at, measured.id"
)
_READ_NEWEST: Final = (
    "SELECT wanted.id, measured.id FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL ("
    "SELECT id FROM benchapp_measurement WHERE series_id = wanted.id ORDER BY started_at DESC, id DESC LIMIT %s"
    ") AS measured"
)
_INSERT: Final = (
    "INSERT INTO benchapp_thresholdviolation (subscription_id, threshold, series_id, since_at, found_at, is_notified)"
    " SELECT subscription_id, threshold, series_id, since_at, %s, is_notified"
    " FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::timestamptz[], %s::boolean[])"
    " AS fresh(subscription_id, threshold, series_id, since_at, is_notified)"
    " ON CONFLICT DO NOTHING RETURNING id, subscription_id, threshold, series_id"
)

# Subscription id, text of the threshold, series id.
_Key = tuple[int, str, int]


class TooManyViolations(Exception):
    """A threshold that more series violate than are stored."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A violation that begins. newest: the newest values of the series."""

    subscription: Subscription
    threshold: Threshold
    text: str
    series_id: int
    newest: Sequence[float]

    @property
    def key(self) -> _Key:
        return (self.subscription.pk, self.text, self.series_id)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A stored violation. newest: as above; empty if no run is left that counts.

    is_unmatched: the series no longer matches the filter of the subscription.
    """

    subscription: Subscription
    threshold: Threshold
    row: ThresholdViolation
    newest: Sequence[float]
    is_unmatched: bool = False

    @property
    def text(self) -> str:
        return self.row.threshold

    @property
    def series_id(self) -> int:
        return self.row.series_id


def notify_violations(series_ids: Collection[int], *, now: datetime | None = None) -> int:
    """Store which of these series begin and cease to violate thresholds, and queue notices; return their number.

    Call it in the transaction that stored the levels of these series, whose rows are locked. One query without
    thresholds, else three; with violations also those of `match_stored_filters`; for those whose newest run does not
    match two, and one for each filter; for those that begin seven, and two for each metric.
    """
    subscriptions = list(
        Subscription.objects.filter(owner__is_active=True, owner__pools=[])
        .exclude(thresholds=[])
        .order_by("pk")
    )
    if not subscriptions or not series_ids:
        return 0
    moment = now or timezone.now()
    begun, ended, lasting = _evaluate(subscriptions, list(series_ids))
    matching = _find_matching([*begun, *lasting])
    begun = [each for each in begun if (each.subscription.filter, each.series_id) in matching]
    lost = [each for each in lasting if (each.subscription.filter, each.series_id) not in matching]
    kept = _find_recently_matching(lost)
    unmatched = [
        replace(each, is_unmatched=True)
        for each in lost
        if (each.subscription.filter, each.series_id) not in kept
    ]
    if not begun and not ended and not unmatched:
        return 0
    existing = lock_existing(
        {each.subscription.pk for concerned in (begun, ended, unmatched) for each in concerned}
    )
    drafts = [
        *_begin(_select_unchanged(begun, existing), now=moment),
        *_end(
            [
                *(each for each in ended if each.subscription.pk in existing),
                *_select_unchanged(unmatched, existing),
            ]
        ),
    ]
    put_notices(drafts, now=moment)
    return len(drafts)


def store_present_violations(subscription: Subscription, *, added: Iterable[str]) -> None:
    """Store which series violate thresholds of a subscription now, without notices, and forget those of other ones.

    added: texts of new thresholds; of all, if the filter changed. Call it with the row of the subscription locked or
    new. Raises TooManyViolations.
    """
    filter, now = parse_filter(subscription.filter), timezone.now()
    stored = ThresholdViolation.objects.filter(subscription=subscription)
    stored.exclude(threshold__in=subscription.thresholds).delete()
    left = VIOLATIONS_MAXIMUM
    for text in added:
        threshold = parse_threshold(text)
        matching = Series.objects.filter(match_series(filter))
        stored.filter(threshold=text).exclude(series_id__in=matching.values("pk")).delete()
        found = select_violating(threshold, filter).order_by("series_id")
        ids = list(found.values_list("series_id", flat=True)[: left + 1])
        if len(ids) > left:
            raise TooManyViolations(
                f"more than {VIOLATIONS_MAXIMUM} violations now, with those of {text}: narrow the filter or choose"
                " another value"
            )
        left -= len(ids)
        for first in range(0, len(ids), _SERIES_AT_ONCE):
            part = ids[first : first + _SERIES_AT_ONCE]
            runs = _read_runs(threshold.metric, part)
            rows = [
                (subscription.pk, text, each, _find_start_at(threshold, runs[each], now=now), False)
                for each in part
            ]
            _insert(rows, now=now)


def preview_thresholds(filter_text: str, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return what each threshold concerns now; three queries each at most. Texts must be valid.

    series, violating: how many it concerns and how many violate it, at most SERIES_COUNTED + 1, which means more:
    is_bounded. examples: ids of some that violate it.
    """
    filter = parse_filter(filter_text)
    previews = []
    for text in texts:
        threshold = parse_threshold(text)
        measured = NewestValues.objects.filter(match_series(filter, "series__"), metric=threshold.metric)
        violating = select_violating(threshold, filter)
        newest = violating.order_by("-to_at", "-id").values_list("series_id", flat=True)
        previews.append(
            {
                "text": threshold.text,
                "metric": threshold.metric,
                "series": (count := _count(measured)),
                "is_bounded": count > SERIES_COUNTED,
                "violating": _count(violating),
                "examples": tuple(newest[:EXAMPLES_SHOWN]),
            }
        )
    return previews


def _count(rows: QuerySet[NewestValues]) -> int:
    return rows.order_by().values("pk")[: SERIES_COUNTED + 1].count()


def _evaluate(
    subscriptions: Sequence[Subscription], series_ids: list[int]
) -> tuple[list[_Begun], list[_Stored], list[_Stored]]:
    """Return the violations that begin, that end, and that last, whether or not their series match the filter."""
    asked = [
        (subscription, threshold, text)
        for subscription in subscriptions
        for text in subscription.thresholds
        if (threshold := read_stored_threshold(text)) is not None
    ]
    newest: dict[str, list[tuple[int, Sequence[float]]]] = defaultdict(list)
    stored_values = NewestValues.objects.filter(
        series_id__in=series_ids, metric__in={threshold.metric for _, threshold, _ in asked}
    )
    for series_id, metric, recent in stored_values.values_list("series_id", "metric", "recent"):
        newest[metric].append((series_id, recent[-NEWEST_RUNS:]))
    known: dict[tuple[int, str], dict[int, ThresholdViolation]] = defaultdict(dict)
    for stored in ThresholdViolation.objects.filter(series_id__in=series_ids):
        known[stored.subscription_id, stored.threshold][stored.series_id] = stored
    begun: list[_Begun] = []
    ended: list[_Stored] = []
    lasting: list[_Stored] = []
    for subscription, threshold, text in asked:
        rows = known[subscription.pk, text]
        for series_id, values in newest[threshold.metric]:
            row = rows.pop(series_id, None)
            is_now = is_violated(threshold, values, was_violated=row is not None)
            if is_now and row is None:
                begun.append(_Begun(subscription, threshold, text, series_id, values))
            elif row is not None:
                (lasting if is_now else ended).append(_Stored(subscription, threshold, row, values))
        # Those whose series has no run left that counts.
        ended += [_Stored(subscription, threshold, row, ()) for row in rows.values()]
    return begun, ended, lasting


_Concerned = TypeVar("_Concerned", _Begun, _Stored)


def _find_matching(concerned: Sequence[_Begun | _Stored]) -> set[tuple[str, int]]:
    """Return which of these series match the filters of their subscriptions: (filter, series id)."""
    if not concerned:
        return set()
    matched = match_stored_filters(
        [each.subscription.filter for each in concerned],
        Series.objects.filter(pk__in={each.series_id for each in concerned}),
    )
    return {(text, series_id) for text, ids in matched.items() for series_id in ids}


def _find_recently_matching(lost: Sequence[_Stored]) -> set[tuple[str, int]]:
    """Return which series had a fact of these filters in one of their newest runs: (filter, series id).

    Hosts of a pool may differ in facts, so that every other run of a series matches.
    """
    wanted: dict[str, set[int]] = defaultdict(set)
    for each in lost:
        wanted[each.subscription.filter].add(each.series_id)
    facts = {
        text: filter.environment_terms
        for text in wanted
        if (filter := read_stored_filter(text)) is not None and filter.environment_terms
    }
    if not facts:
        return set()
    newest: dict[int, list[int]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_READ_NEWEST, [sorted(set().union(*(wanted[text] for text in facts))), NEWEST_RUNS])
        for series_id, measurement_id in cursor.fetchall():
            newest[series_id].append(measurement_id)
    return {
        (text, series_id)
        for text, terms in facts.items()
        for series_id in Measurement.objects.filter(
            match_facts(terms, "run__"), pk__in=[pk for each in wanted[text] for pk in newest[each]]
        ).values_list("series_id", flat=True)
    }


def _select_unchanged(concerned: Sequence[_Concerned], existing: Collection[int]) -> list[_Concerned]:
    """Return those of thresholds and filters that are still set, now that the subscriptions are locked.

    Who changed them stored what they concern: another row would never be deleted.
    """
    if not concerned:
        return []
    rows = Subscription.objects.filter(pk__in=existing).values_list("pk", "filter", "thresholds")
    stored = {(pk, filter, text) for pk, filter, texts in rows for text in texts}
    return [
        each for each in concerned if (each.subscription.pk, each.subscription.filter, each.text) in stored
    ]


def _begin(begun: Sequence[_Begun], *, now: datetime) -> list[Draft]:
    """Insert the violations and return their notices: one for each threshold, of all its series."""
    if not begun:
        return []
    # Once for all thresholds of a metric: there may be many.
    by_metric: dict[str, set[int]] = defaultdict(set)
    for each in begun:
        by_metric[each.threshold.metric].add(each.series_id)
    runs = {metric: _read_runs(metric, sorted(ids)) for metric, ids in by_metric.items()}
    starts = {
        (threshold, series_id): _find_start_at(threshold, runs[threshold.metric][series_id], now=now)
        for threshold, series_id in {(each.threshold, each.series_id) for each in begun}
    }
    expected = _find_expected(starts)
    since = {each.key: starts[each.threshold, each.series_id] for each in begun}
    notified = {
        each.key: each.subscription.is_active and (each.threshold, each.series_id) not in expected
        for each in begun
    }
    inserted = _insert([(*each.key, since[each.key], notified[each.key]) for each in begun], now=now)
    groups: dict[tuple[int, str], list[_Begun]] = defaultdict(list)
    for each in begun:
        if each.key in inserted and notified[each.key]:
            groups[each.key[:2]].append(each)
    series = _read_series(each.series_id for group in groups.values() for each in group)
    return [
        Draft(
            group[0].subscription,
            f"threshold violation {min(inserted[each.key] for each in group)}: begun",
            make_threshold_message(
                ThresholdEvent.VIOLATED,
                group[0].threshold,
                [ViolatingSeries(series[each.series_id], each.newest, since[each.key]) for each in group],
                subscription_id=group[0].subscription.pk,
                base_url=settings.PUBLIC_URL,
            ),
        )
        for group in groups.values()
    ]


def _end(ended: Sequence[_Stored]) -> list[Draft]:
    """Delete the violations and return the notices of those whose begin was reported."""
    rows = ThresholdViolation.objects.filter(pk__in=[each.row.pk for each in ended])
    # Those that a change of the subscription has deleted meanwhile are not reported.
    left = set(rows.values_list("pk", flat=True)) if ended else set()
    if left:
        rows.delete()
    groups: dict[tuple[int, str, bool], list[_Stored]] = defaultdict(list)
    for each in ended:
        if each.newest and each.row.pk in left and each.row.is_notified and each.subscription.is_active:
            groups[each.subscription.pk, each.text, each.is_unmatched].append(each)
    series = _read_series(each.series_id for group in groups.values() for each in group)
    return [
        Draft(
            group[0].subscription,
            f"threshold violation {min(each.row.pk for each in group)}: ended",
            make_threshold_message(
                ThresholdEvent.UNMATCHED if group[0].is_unmatched else ThresholdEvent.MET,
                group[0].threshold,
                [ViolatingSeries(series[each.series_id], each.newest, each.row.since_at) for each in group],
                subscription_id=group[0].subscription.pk,
                base_url=settings.PUBLIC_URL,
            ),
        )
        for group in groups.values()
    ]


def _read_series(ids: Iterable[int]) -> dict[int, Series]:
    wanted = set(ids)
    return Series.objects.in_bulk(wanted) if wanted else {}


def _find_expected(starts: Mapping[tuple[Threshold, int], datetime]) -> set[tuple[Threshold, int]]:
    """Return the violations that begin within an expected regression of their metric."""
    times = starts.values()
    events = PlannedEvent.objects.meeting(min(times), max(times)).filter(kind=PlannedEventKind.CHANGE)
    series = Series.objects.filter(pk__in={series_id for _, series_id in starts})
    matched = match_planned_events(events, series)
    return {
        (threshold, series_id)
        for (threshold, series_id), since_at in starts.items()
        if any(
            event.covers(threshold.metric, is_regression=True, at=since_at)
            for event in matched.get(series_id, ())
        )
    }


def _read_runs(metric: str, ids: Sequence[int]) -> dict[int, list[tuple[datetime, float]]]:
    """Return start and value of the newest 100 runs of each series that count, oldest first.

    Of a latency those of its newest kind. Two queries, and those of `match_maintenance`.
    """
    runs: dict[int, list[tuple[datetime, float]]] = {series_id: [] for series_id in ids}
    with connection.cursor() as cursor:
        names = {"metric": CATALOG[metric].name, "kind": select_kind(metric)}
        cursor.execute(_READ_RUNS.format(**names), [list(ids), _RUNS_READ])
        rows = cursor.fetchall()
    newest = {series_id: kind for series_id, _, _, kind in rows if kind}
    for series_id, started_at, value, kind in rows:
        if are_same_kind(kind, newest.get(series_id, "")):
            runs[series_id].append((started_at, value))
    return dict(_list_outside_maintenance(runs))


def _find_start_at(
    threshold: Threshold, counted: Sequence[tuple[datetime, float]], *, now: datetime
) -> datetime:
    """Return the start of the first run of the violation; now: for a series without a run that counts."""
    place = find_start(threshold, [value for _, value in counted])
    return counted[-1 if place is None else place][0] if counted else now


def _list_outside_maintenance(
    runs: Mapping[int, list[tuple[datetime, float]]],
) -> Iterator[tuple[int, list[tuple[datetime, float]]]]:
    times = [started_at for counted in runs.values() for started_at, _ in counted]
    windows = match_maintenance(runs, from_at=min(times), to_at=max(times)) if times else {}
    for series_id, counted in runs.items():
        events = windows.get(series_id, ())
        yield (
            series_id,
            [run for run in counted if not any(event.from_at <= run[0] < event.ends_at for event in events)],
        )


def _insert(rows: Sequence[tuple[int, str, int, datetime, bool]], *, now: datetime) -> dict[_Key, int]:
    """Insert violations and return the ids of those that did not exist."""
    if not rows:
        return {}
    columns = [list(column) for column in zip(*rows, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [now, *columns])
        return {
            (subscription_id, text, series_id): pk
            for pk, subscription_id, text, series_id in cursor.fetchall()
        }
