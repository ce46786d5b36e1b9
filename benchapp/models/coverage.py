"""Which hosts and series match the stored filters of planned events, policies and subscriptions; thresholds."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson
import structlog
from django.db import connection
from django.db.models import BooleanField, F, Func, OuterRef, QuerySet, Subquery
from django.db.models.sql.compiler import SQLCompiler

from benchapp.catalog.grammar import BadFilter, Filter, Term, Test, parse_filter
from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.catalog.thresholds import (
    COMPARISONS,
    MISSES,
    NEWEST_RUNS,
    BadThreshold,
    Threshold,
    parse_threshold,
)
from benchapp.models.change import NewestValues
from benchapp.models.detection_policy import DetectionPolicy
from benchapp.models.filtering import match_facts, match_series
from benchapp.models.host import Host
from benchapp.models.limits import unlimited
from benchapp.models.measurement import Run
from benchapp.models.planned_event import PlannedEvent, PlannedEventKind
from benchapp.models.series import Series

_SCOPES: Final = ("host", "pool")


def match_hosts(filter: Filter, hosts: Sequence[Host]) -> set[int]:
    """Return the ids of the hosts that match a filter.

    Its host and pool terms are compared with the host itself, even if its series belong to its pool or it has none;
    terms for facts of runs must match its newest run; all other terms must match one of its series. One
    query if there are other terms, and one for facts.
    """
    named = [host for host in hosts if matches_host(filter, host.name, host.pool)]
    if named and filter.fact_terms:
        ids = _find_by_newest_run(filter.fact_terms, named)
        named = [host for host in named if host.pk in ids]
    rest = remove_scope_terms(filter.without_facts())
    if not named or not (rest.terms or rest.words):
        return {host.pk for host in named}
    scopes = set(
        Series.objects.filter(match_series(rest), scope__in={host.scope for host in named})
        .values_list("scope", flat=True)
        .distinct()
    )
    return {host.pk for host in named if host.scope in scopes}


def _find_by_newest_run(terms: Sequence[Term], hosts: Sequence[Host]) -> set[int]:
    newest = Run.objects.filter(host=OuterRef("pk")).order_by("-started_at", "-id").values("pk")[:1]
    found = Host.objects.filter(pk__in=[host.pk for host in hosts]).annotate(newest=Subquery(newest))
    matched = Run.objects.filter(match_facts(terms), pk__in=found.values("newest"))
    return set(matched.values_list("host_id", flat=True))


def matches_host(filter: Filter, name: str, pool: str) -> bool:
    """Return whether a host matches the host and pool terms of a filter; one is enough if it has both."""
    return _matches_scopes(filter, {"host": name, "pool": pool})


def matches_scope(filter: Filter, scope: str) -> bool:
    """Return whether a scope matches the host and pool terms of a filter, as in `match_series`."""
    kind, _, name = scope.partition(":")
    return _matches_scopes(filter, {kind: name})


def remove_scope_terms(filter: Filter) -> Filter:
    """Return the filter without its host and pool terms."""
    return Filter(tuple(term for term in filter.terms if term.dimension not in _SCOPES), filter.words)


def _matches_scopes(filter: Filter, known: Mapping[str, str]) -> bool:
    terms = [term for term in filter.terms if term.dimension in _SCOPES]
    if any(term.is_negated and _matches_term(term, known) for term in terms):
        return False
    wanted = [term for term in terms if not term.is_negated]
    by_kind = [[term for term in wanted if term.dimension == kind] for kind in _SCOPES]
    return not wanted or any(all(_matches_term(term, known) for term in kind) for kind in by_kind if kind)


def _matches_term(term: Term, known: Mapping[str, str]) -> bool:
    return any(_matches_test(test, known.get(term.dimension)) for test in term.tests)


def _matches_test(test: Test, value: str | None) -> bool:
    if test.operator == "unknown":
        return not value
    if value is None:
        return False
    wanted, value = str(test.values[0]).casefold(), value.casefold()
    return _matches_parts(wanted.split("*"), value) if test.operator == "like" else value == wanted


def _matches_parts(parts: Sequence[str], value: str) -> bool:
    """Return whether the parts occur in this order, the first at the beginning and the last at the end.

    Not a regular expression: one with eight wildcards has exponential cost on a name that almost matches.
    """
    first, *middle, last = parts
    if len(first) + len(last) > len(value) or not (value.startswith(first) and value.endswith(last)):
        return False
    place, end = len(first), len(value) - len(last)
    for part in middle:
        found = value.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True


log = structlog.get_logger(__name__)


def match_planned_events(
    planned_events: QuerySet[PlannedEvent], series: QuerySet[Series]
) -> dict[int, list[PlannedEvent]]:
    """Return the planned events that match each of these series, by series id; queries as of `match_stored_filters`,
    and one of the events."""
    by_filter: dict[str, list[PlannedEvent]] = defaultdict(list)
    # For calculations, which are the same for every reader.
    with unlimited():
        for planned_event in planned_events.order_by("id"):
            by_filter[planned_event.filter].append(planned_event)
    matched: dict[int, list[PlannedEvent]] = defaultdict(list)
    for text, ids in match_stored_filters(by_filter, series).items():
        for series_id in ids:
            matched[series_id].extend(by_filter[text])
    return dict(matched)


def match_maintenance(
    series_ids: Collection[int], *, from_at: datetime, to_at: datetime
) -> dict[int, list[PlannedEvent]]:
    """Return the maintenance of each of these series in a time range, by series id; queries as above."""
    events = PlannedEvent.objects.meeting(from_at, to_at).filter(kind=PlannedEventKind.MAINTENANCE)
    return match_planned_events(events, Series.objects.filter(pk__in=series_ids))


def match_stored_filters(texts: Iterable[str], series: QuerySet[Series]) -> dict[str, list[int]]:
    """Return the ids of these series that each filter matches, by its text.

    Hosts and pools are matched in Python, as most filters name only them: one query, and one more for each different
    filter with other terms (500 filters of 200 series took 3.4 s with one query each). A filter that is no longer valid
    matches nothing and is logged.
    """
    wanted = dict.fromkeys(texts)
    if not wanted:
        return {}
    by_scope: dict[str, list[int]] = defaultdict(list)
    for series_id, scope in series.values_list("id", "scope"):
        by_scope[scope].append(series_id)
    return {text: list(_find_among(text, by_scope)) for text in wanted}


def _find_among(text: str, by_scope: Mapping[str, Sequence[int]]) -> Iterable[int]:
    filter = read_stored_filter(text)
    if filter is None:
        return ()
    ids = [each for scope, ids in by_scope.items() if matches_scope(filter, scope) for each in ids]
    rest = remove_scope_terms(filter)
    if not ids or not (rest.terms or rest.words):
        return ids
    return Series.objects.filter(match_series(rest), pk__in=ids).values_list("id", flat=True)


def read_stored_filter(text: str) -> Filter | None:
    """Return a stored filter; None, with a log line, if it is no longer valid."""
    try:
        return parse_filter(text)
    except BadFilter as error:
        log.warning("stored_filter.unreadable", filter=text[:200], error=str(error)[:200])
        return None


# The labels of the newest run of each series.
_READ_LABELS = (
    "SELECT wanted.id, run.labels FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL ("
    " SELECT run_id FROM benchapp_measurement WHERE series_id = wanted.id ORDER BY started_at DESC, id DESC LIMIT 1"
    ") AS newest JOIN benchapp_run AS run ON run.id = newest.run_id"
)


def read_thresholds(
    series_ids: Collection[int], *, proposed: DetectionPolicy | None = None
) -> dict[int, Mapping[str, float]]:
    """Return the threshold of each metric of these series, by series id: those of the catalog without a policy.

    proposed: a policy that is not saved, as if it were the newest. One query without policies; with them as
    `match_stored_filters`, and one more for labels.
    """
    with unlimited():
        in_effect = [*DetectionPolicy.objects.filter(canceled_at=None), *([proposed] if proposed else [])]
    policies = sorted(in_effect, key=lambda policy: policy.rank)
    if not policies or not series_ids:
        return dict.fromkeys(series_ids, SMALLEST_CHANGES)
    found = {series_id: dict(SMALLEST_CHANGES) for series_id in series_ids}
    for policy, ids in zip(policies, match_policies(policies, series_ids), strict=True):
        for series_id in ids:
            found[series_id][policy.metric] = policy.smallest_change
    return dict(found)


def match_policies(policies: Sequence[DetectionPolicy], series_ids: Collection[int]) -> list[Collection[int]]:
    """Return which of these series each policy matches; queries as above."""
    series = Series.objects.filter(pk__in=series_ids)
    by_filter = match_stored_filters((policy.filter for policy in policies if policy.filter), series)
    labeled = match_labels((policy.label for policy in policies), series_ids)
    return [
        [
            series_id
            for series_id in (by_filter[policy.filter] if policy.filter else series_ids)
            if not policy.label or series_id in labeled[policy.label]
        ]
        for policy in policies
    ]


def list_matching_series(filter: str, label: str) -> list[int]:
    """Return the measured series that a policy applies to, by id; one query, two with a label."""
    read = read_stored_filter(filter)
    if read is None:
        return []
    matched = Series.objects.filter(match_series(read), measurement_count__gt=0)
    ids = list(matched.order_by("id").values_list("id", flat=True))
    if not label:
        return ids
    labeled = match_labels([label], ids)[label]
    return [series_id for series_id in ids if series_id in labeled]


def match_labels(labels: Iterable[str], series_ids: Collection[int]) -> dict[str, frozenset[int]]:
    """Return the series whose newest run has each label, KEY=VALUE; one query, none without labels."""
    wanted = sorted({label for label in labels if label})
    if not wanted:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_READ_LABELS, [list(series_ids)])
        rows = [
            (series_id, {f"{key}={value}" for key, value in orjson.loads(labels).items()})
            for series_id, labels in cursor.fetchall()
        ]
    return {label: frozenset(series_id for series_id, known in rows if label in known) for label in wanted}


_SIGNS: Final[Mapping[str, str]] = {sign: sign for sign in COMPARISONS}


class _IsViolated(Func):
    """Whether enough of the newest values miss a threshold; as `benchapp.catalog.thresholds.is_violated`."""

    output_field = BooleanField()

    def __init__(self, threshold: Threshold) -> None:
        super().__init__(F("recent"))
        self.threshold = threshold

    def as_sql(self, compiler: SQLCompiler, connection: Any, **_: Any) -> tuple[str, list[Any]]:  # type: ignore[override]
        """Return the condition."""
        column, values = compiler.compile(self.get_source_expressions()[0])
        newest = f"{column}[cardinality({column}) - {NEWEST_RUNS - 1}:]"
        misses = (
            f"(SELECT count(*) FROM unnest({newest}) AS run(value)"  # noqa: S608
            f" WHERE NOT run.value {_SIGNS[self.threshold.comparison]} %s)"
        )
        condition = f"(cardinality({column}) >= {NEWEST_RUNS} AND {misses} >= {MISSES})"
        return condition, [*values, *values, *values, self.threshold.limit]


def select_violating(threshold: Threshold, filter: Filter) -> QuerySet[NewestValues]:
    """Return the newest values of the matching series that violate a threshold."""
    values = NewestValues.objects.filter(match_series(filter, "series__"), metric=threshold.metric)
    return values.alias(is_violated=_IsViolated(threshold)).filter(is_violated=True)


def read_stored_threshold(text: str) -> Threshold | None:
    """Return a stored threshold; None, with a log line, if it is no longer valid: it must not stop detection."""
    try:
        return parse_threshold(text)
    except BadThreshold as error:
        log.warning("stored_threshold.unreadable", threshold=text, error=str(error)[:200])
        return None
