"""Health of benchmarks: incidents, verdicts, noise and silence by series, by host or pool, and by profile."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from django.db import connection
from django.db.models import Q

from benchapp.catalog.dimensions import name_pattern
from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import CATALOG, SMALLEST_CHANGES, list_detected_metrics
from benchapp.detection.rules.levels import is_stale
from benchapp.incidents.read.changes import SeriesName, name_series
from benchapp.incidents.rules.benchmark_health import (
    PERIOD_DAYS,
    RUNS_WITHOUT_CHANGE,
    UNRESOLVED_DAYS,
    HealthFacts,
    HealthFinding,
    ThresholdProposal,
    VerdictCounts,
    find_health_problems,
    propose_threshold,
)
from benchapp.models import Change, DetectionResult, DetectionStatus, Series, Verdict
from benchapp.models.coverage import read_thresholds
from benchapp.models.filtering import match_series

HealthGrouping = Literal["series", "host", "profile"]
# Above, reading them takes seconds: the filter bar narrows.
SERIES_MAXIMUM: Final = 20_000
_LAST_PROFILES: Final = """
SELECT wanted.id, run.profile FROM unnest(%s::bigint[]) AS wanted(id)
JOIN LATERAL (SELECT run_id FROM benchapp_measurement WHERE series_id = wanted.id
              ORDER BY started_at DESC, id DESC LIMIT 1) AS last ON true
JOIN benchapp_run AS run ON run.id = last.run_id
"""


@dataclass(frozen=True, slots=True)
class HealthProposal:
    """A threshold that would have left out noise. metric: the one in which most noise was reported."""

    metric: str
    threshold: float
    proposal: ThresholdProposal


@dataclass(frozen=True, slots=True)
class HealthRow:
    """One series, host or pool, or profile with findings.

    key: id of the series as text, scope, or profile ("" for runs without one). series: None for groups.
    """

    key: str
    series: SeriesName | None
    facts: HealthFacts
    last_at: datetime
    findings: tuple[HealthFinding, ...]
    proposal: HealthProposal | None


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """Verdicts on the incidents of one detector version, host or pool, or workload. incident_count: rated or not."""

    name: str
    incident_count: int
    verdicts: VerdictCounts


@dataclass(frozen=True, slots=True)
class BenchmarkHealth:
    """Findings of a page, and verdicts.

    rows: those with findings, most findings first, of the page. row_count: of all pages; healthy_count: without
    findings; finding_counts: rows of all pages by the code of a finding, most first. elsewhere: series with a finding
    in another metric only, by metric. series_count: series that were looked at; is_cut: there are more. total:
    incidents of the period.
    """

    rows: tuple[HealthRow, ...]
    row_count: int
    healthy_count: int
    finding_counts: tuple[tuple[str, int], ...]
    elsewhere: tuple[tuple[str, int], ...]
    series_count: int
    is_cut: bool
    total: VerdictRow
    by_method: tuple[VerdictRow, ...]
    by_scope: tuple[VerdictRow, ...]
    by_workload: tuple[VerdictRow, ...]


@dataclass(frozen=True, slots=True)
class _SeriesFacts:
    id: int
    scope: str
    pattern: str
    last_at: datetime
    is_stale: bool
    is_buffered: bool
    is_unchanged: bool
    noisy: tuple[str, ...]
    wider: tuple[str, ...]
    alternating: tuple[str, ...]
    smallest_detectable_change: float | None
    elsewhere: frozenset[str]

    @property
    def varying(self) -> frozenset[str]:
        """Return the metrics asked for with a finding."""
        return frozenset((*self.noisy, *self.wider, *self.alternating))


@dataclass(frozen=True, slots=True)
class _IncidentFacts:
    """One incident. series_ids: of its changes; methods: detectors that found them."""

    id: int
    verdict: str
    is_open: bool
    opened_at: datetime
    metric: str
    size: float
    series_ids: frozenset[int]
    methods: frozenset[str]


def read_benchmark_health(
    match: Filter,
    *,
    grouping: HealthGrouping,
    now: datetime,
    metric: str = "iops",
    within: Q | None = None,
    without: str = "",
    offset: int = 0,
    limit: int = 100,
) -> BenchmarkHealth:
    """Return findings about the series of a filter, grouped; six queries, one more by profile.

    With detection policies also those of `read_thresholds`.

    metric: the one whose noise is a finding, or what is detected instead; IOPS: or the elapsed time.
    within: a condition of Series, as a run in a time range. Series of retired hosts and of the host named `without` are
    left out: nobody expects runs of them.
    Incidents are those opened in the last PERIOD_DAYS, and open ones. At most SERIES_MAXIMUM series are read.
    """
    is_active = Q(host__isnull=True) | Q(host__retired_at__isnull=True) & ~Q(host__name=without)
    series = _read_series(match_series(match) & is_active & (within or Q()), metric=metric, now=now)
    is_cut = len(series) > SERIES_MAXIMUM
    series = series[:SERIES_MAXIMUM]
    incidents = _read_incidents([each.id for each in series], now=now)
    rows = _make_rows(series, incidents, grouping=grouping, now=now)
    problems = sorted(
        (row for row in rows if row.findings),
        key=lambda row: (-len(row.findings), -row.facts.incident_count, row.key),
    )
    shown = problems[offset : offset + limit]
    names = _name_series(shown) if grouping == "series" else {}
    recent = [incident for incident in incidents if _is_recent(incident, now)]
    by_id = {each.id: each for each in series}
    return BenchmarkHealth(
        rows=tuple(
            HealthRow(row.key, names.get(row.key), row.facts, row.last_at, row.findings, row.proposal)
            for row in shown
        ),
        row_count=len(problems),
        healthy_count=len(rows) - len(problems),
        finding_counts=tuple(
            Counter(finding.code for row in problems for finding in row.findings).most_common()
        ),
        elsewhere=tuple(Counter(name for each in series for name in sorted(each.elsewhere)).most_common()),
        series_count=len(series),
        is_cut=is_cut,
        total=VerdictRow("", len(recent), _count_verdicts(recent)),
        by_method=_count_by(recent, lambda incident: incident.methods),
        by_scope=_count_by(recent, lambda incident: {by_id[key].scope for key in incident.series_ids}),
        by_workload=_count_by(recent, lambda incident: {by_id[key].pattern for key in incident.series_ids}),
    )


def _read_series(condition: Q, *, metric: str, now: datetime) -> list[_SeriesFacts]:
    found = Series.objects.filter(condition, measurement_count__gt=0).order_by("pk")
    columns = ("pk", "scope", "rw", "direction", "is_direct", "first_at", "last_at", "measurement_count")
    rows = list(found.values_list(*columns)[: SERIES_MAXIMUM + 1])
    ids = [row[0] for row in rows]
    asked = list_detected_metrics([metric]) | ({"elapsed_s"} if metric == "iops" else set())
    varying: dict[int, list[DetectionResult]] = defaultdict(list)
    for result in DetectionResult.objects.filter(
        Q(status=DetectionStatus.NOISY) | Q(spread_increase__isnull=False) | Q(two_states__isnull=False),
        series__in=ids,
    ).only("series_id", "metric", "status", "smallest_detectable_change", "spread_increase", "two_states"):
        varying[result.series_id].append(result)
    changed = set(Change.objects.filter(series__in=ids).values_list("series_id", flat=True).distinct())
    return [
        _SeriesFacts(
            id=pk,
            scope=scope,
            pattern=name_pattern(rw, direction),
            last_at=last_at,
            is_stale=is_stale(first_at, last_at, n=count, now=now),
            is_buffered=is_direct is False,
            is_unchanged=count >= RUNS_WITHOUT_CHANGE and pk not in changed,
            **_find_variability(varying.get(pk, ()), asked),
        )
        for pk, scope, rw, direction, is_direct, first_at, last_at, count in rows
    ]


def _find_variability(results: Collection[DetectionResult], asked: Collection[str]) -> dict[str, Any]:
    """Return what varies of the metrics asked for, and the other metrics if none of these does."""
    own = [each for each in results if each.metric in asked]
    noisy = [each for each in own if each.status == DetectionStatus.NOISY]
    return {
        "noisy": tuple(each.metric for each in noisy),
        "wider": tuple(each.metric for each in own if each.spread_increase is not None),
        "alternating": tuple(each.metric for each in own if each.two_states is not None),
        "smallest_detectable_change": max(
            (
                each.smallest_detectable_change
                for each in noisy
                if each.smallest_detectable_change is not None
            ),
            default=None,
        ),
        "elsewhere": frozenset(() if own else (each.metric for each in results)),
    }


def _read_incidents(series_ids: Sequence[int], *, now: datetime) -> list[_IncidentFacts]:
    """Return the incidents of the period, and open ones, of these series; changes of others are left out."""
    since = now - timedelta(days=PERIOD_DAYS)
    rows = (
        Change.objects.filter(
            Q(incident__opened_at__gte=since) | Q(incident__is_open=True),
            series__in=series_ids,
            incident__isnull=False,
            incident__merged_into__isnull=True,
            incident__is_regression=True,
        )
        .values_list(
            "incident_id",
            "incident__verdict",
            "incident__is_open",
            "incident__opened_at",
            "incident__metric",
            "incident__relative",
            "series_id",
            "method",
        )
        .distinct()
    )
    facts: dict[int, dict[str, Any]] = {}
    covered: dict[int, set[int]] = defaultdict(set)
    methods: dict[int, set[str]] = defaultdict(set)
    for pk, verdict, is_open, opened_at, metric, relative, series_id, method in rows:
        facts[pk] = {
            "verdict": verdict,
            "is_open": is_open,
            "opened_at": opened_at,
            "metric": metric,
            "size": abs(relative),
        }
        covered[pk].add(series_id)
        methods[pk].add(method)
    return [
        _IncidentFacts(id=pk, series_ids=frozenset(covered[pk]), methods=frozenset(methods[pk]), **values)
        for pk, values in facts.items()
    ]


def _make_rows(
    series: Sequence[_SeriesFacts],
    incidents: Sequence[_IncidentFacts],
    *,
    grouping: HealthGrouping,
    now: datetime,
) -> list[HealthRow]:
    key_of = _read_keys(series, grouping)
    members: dict[str, list[_SeriesFacts]] = defaultdict(list)
    for each in series:
        members[key_of[each.id]].append(each)
    covered: dict[str, list[_IncidentFacts]] = defaultdict(list)
    for incident in incidents:
        for key in {key_of[series_id] for series_id in incident.series_ids}:
            covered[key].append(incident)
    noise = (incident for incident in incidents if incident.verdict == Verdict.NOISE)
    thresholds = read_thresholds({series_id for incident in noise for series_id in incident.series_ids})
    return [
        _make_row(key, group, covered[key], thresholds=thresholds, now=now) for key, group in members.items()
    ]


def _read_keys(series: Sequence[_SeriesFacts], grouping: HealthGrouping) -> Mapping[int, str]:
    if grouping == "series":
        return {each.id: str(each.id) for each in series}
    if grouping == "host":
        return {each.id: each.scope for each in series}
    with connection.cursor() as cursor:
        cursor.execute(_LAST_PROFILES, [[each.id for each in series]])
        profiles = dict(cursor.fetchall())
    return {each.id: profiles.get(each.id, "") for each in series}


def _make_row(
    key: str,
    group: Sequence[_SeriesFacts],
    incidents: Sequence[_IncidentFacts],
    *,
    thresholds: Mapping[int, Mapping[str, float]],
    now: datetime,
) -> HealthRow:
    recent = [incident for incident in incidents if _is_recent(incident, now)]
    overdue = now - timedelta(days=UNRESOLVED_DAYS)
    sizes = [each.smallest_detectable_change for each in group if each.smallest_detectable_change is not None]
    facts = HealthFacts(
        series_count=len(group),
        stale_count=sum(each.is_stale for each in group),
        noisy_count=sum(bool(each.noisy) for each in group),
        buffered_count=sum(bool(each.noisy) and each.is_buffered for each in group),
        spread_increase_count=sum(bool(each.wider) for each in group),
        two_states_count=sum(bool(each.alternating) for each in group),
        unchanged_count=sum(each.is_unchanged for each in group),
        incident_count=len(recent),
        unresolved_count=sum(incident.is_open and incident.opened_at < overdue for incident in incidents),
        verdicts=_count_verdicts(recent),
        smallest_detectable_change=max(sizes, default=None),
        metrics=tuple(name for name in CATALOG if any(name in each.varying for each in group)),
    )
    last_at = max(each.last_at for each in group)
    of_group = {each.id: thresholds[each.id] for each in group if each.id in thresholds}
    proposal = _propose(facts, recent, of_group)
    return HealthRow(key, None, facts, last_at, find_health_problems(facts), proposal)


def _propose(
    facts: HealthFacts,
    incidents: Sequence[_IncidentFacts],
    thresholds: Mapping[int, Mapping[str, float]],
) -> HealthProposal | None:
    """Return a threshold for the metric with most noise, where too much of what was reported is noise.

    thresholds: of the series of the group with noise; the proposal exceeds the lowest, so that it is not repeated once
    it is a policy.
    """
    if not facts.verdicts.is_mostly_noise:
        return None
    noise = [incident for incident in incidents if incident.verdict == Verdict.NOISE]
    counted = Counter(incident.metric for incident in noise if incident.metric in SMALLEST_CHANGES)
    if not counted:
        return None
    metric = min(counted, key=lambda name: (-counted[name], name))
    threshold = min(
        thresholds[series_id][metric]
        for incident in noise
        if incident.metric == metric
        for series_id in incident.series_ids
        if series_id in thresholds
    )
    proposal = propose_threshold(
        noise_sizes=[incident.size for incident in noise if incident.metric == metric],
        real_sizes=[
            incident.size
            for incident in incidents
            if incident.metric == metric and incident.verdict not in (Verdict.NOISE, Verdict.NONE)
        ],
        threshold=threshold,
    )
    return None if proposal is None else HealthProposal(metric, threshold, proposal)


def _is_recent(incident: _IncidentFacts, now: datetime) -> bool:
    return incident.opened_at >= now - timedelta(days=PERIOD_DAYS)


def _count_verdicts(incidents: Sequence[_IncidentFacts]) -> VerdictCounts:
    counted = Counter(incident.verdict for incident in incidents if incident.verdict)
    return VerdictCounts(**counted)


def _count_by(incidents: Sequence[_IncidentFacts], names_of: Any) -> tuple[VerdictRow, ...]:
    """Return the verdicts by name, most incidents first; an incident counts once for each of its names."""
    found: dict[str, list[_IncidentFacts]] = defaultdict(list)
    for incident in incidents:
        for name in names_of(incident):
            found[name].append(incident)
    rows = [VerdictRow(name, len(each), _count_verdicts(each)) for name, each in found.items()]
    return tuple(sorted(rows, key=lambda row: (-row.incident_count, row.name)))


def _name_series(rows: Collection[HealthRow]) -> dict[str, SeriesName]:
    found = Series.objects.filter(pk__in=[int(row.key) for row in rows])
    return {str(series.pk): name_series(series) for series in found}
