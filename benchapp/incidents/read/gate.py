"""The gate of a run: its values against a stated baseline, with one error rate over all of its series."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import numpy as np
from django.utils import timezone

from benchapp.catalog.metrics import CATALOG, SMALLEST_CHANGES
from benchapp.detection.rules.significance import (
    BASELINE_RUNS_MINIMUM,
    GateOutcome,
    GateReason,
    GateResult,
    GateSample,
    combine_outcomes,
    judge_build,
)
from benchapp.framework.read.days import parse_moment
from benchapp.incidents.read.changes import SeriesName, name_series
from benchapp.models import Level, Measurement, Run, Series, Verdict
from benchapp.models.coverage import read_thresholds
from benchapp.models.measurement import OF_A_BRANCH, are_same_kind, find_kind
from benchapp.series.read.levels import LevelRuns, LevelSpan, read_level_runs

__all__ = [
    "BadBaseline",
    "GateBaseline",
    "GateOutcome",
    "GateReason",
    "GateRow",
    "RunGate",
    "UnknownRuns",
    "parse_gate_baseline",
    "read_gate",
]

# The newest runs of a baseline: more say little about the noise of today.
BASELINE_RUNS_MAXIMUM: Final = 100
FURTHER_RUNS_MAXIMUM: Final = 50
BUILD_LENGTH: Final = timedelta(hours=1)
ERROR_RATE: Final = 0.01
GATE_METRICS: Final = tuple(SMALLEST_CHANGES)
GATE_METRICS_DEFAULT: Final = ("iops", "latency_p99_ns")
# A regression whose incident has one of these is not one, or is accepted as the new level.
_OTHER_KIND: Final = {"lat": "clat", "clat": "lat"}
_NOT_REAL: Final = frozenset({Verdict.EXPECTED, Verdict.ENVIRONMENT, Verdict.NOISE})
_LABEL: Final = re.compile(r"label\.([^:\0]{1,100}):([^\0]{1,200})")
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


class BadBaseline(ValueError):
    """The text is not a baseline; the message names the valid forms."""


class UnknownRuns(LookupError):
    """Some of the runs do not exist; the message names them."""


@dataclass(frozen=True, slots=True)
class GateBaseline:
    """What a run is compared with; always earlier runs of the same series, at most the newest 100.

    "accepted": of the newest level that does not begin with a regression, unless a person accepted it. "span": from_at
    inclusive, to_at exclusive; None without a bound. "label": runs with this label.
    """

    kind: Literal["accepted", "span", "label"] = "accepted"
    from_at: datetime | None = None
    to_at: datetime | None = None
    label: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class GateRow:
    """One metric of one series, or of several together, in percent of their medians: without `series`.

    limit: relative loss that must be found; series_count: of how many series. from_at, to_at: start of the first and of
    the last run of the baseline; None without any. latency_kind, baseline_kind: of a latency; they differ with the
    reason "other-kind", which there is no comparison for.
    """

    series: SeriesName | None
    metric: str
    limit: float
    result: GateResult
    series_count: int = 1
    from_at: datetime | None = None
    to_at: datetime | None = None
    latency_kind: str = ""
    baseline_kind: str = ""


@dataclass(frozen=True, slots=True)
class RunGate:
    """The gate of a run. run_ids: those compared, the run first. error_rate: of all rows together."""

    run_id: int
    run_ids: tuple[int, ...]
    outcome: GateOutcome
    error_rate: float
    rows: tuple[GateRow, ...]


def parse_gate_baseline(text: str) -> GateBaseline:
    """Return the baseline that a text names: `accepted`, `2026-11-01..2026-11-15` or `label.branch:main`.

    One end of a span may be missing; dates are UTC, times as ISO 8601. Raises BadBaseline.
    """
    if text == "accepted":
        return GateBaseline()
    if label := _LABEL.fullmatch(text):
        return GateBaseline("label", label=label[1], value=label[2])
    first, dots, last = text.partition("..")
    if not dots or not (first or last):
        raise BadBaseline(
            f"{text[:80]!r} is not a baseline; valid: accepted, 2026-11-01..2026-11-15, label.branch:main"
        )
    from_at, to_at = _parse_moment(first), _parse_moment(last)
    if from_at and to_at and from_at >= to_at:
        raise BadBaseline(f"{text[:80]!r} ends before it begins")
    if to_at and to_at <= _START:
        raise BadBaseline(f"{text[:80]!r} ends before 1970")
    return GateBaseline("span", from_at, to_at)


def _parse_moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        return parse_moment(text, now=timezone.now())
    except ValueError as error:
        raise BadBaseline(str(error)) from error


def read_gate(
    run_id: int,
    *,
    baseline: GateBaseline,
    metrics: Sequence[str] = GATE_METRICS_DEFAULT,
    limit: float | None = None,
    error_rate: float = ERROR_RATE,
    asks: int = 1,
    further_ids: Sequence[int] = (),
    host_id: int | None = None,
) -> RunGate:
    """Return the gate of a run.

    limit: relative loss that must be found; by default the threshold of each series and metric that detection uses,
    also for what is a regression of the baseline. error_rate: probability that any row is "regressed" although nothing
    is worse than its baseline. asks: how often the gate is asked about the build at most. further_ids: runs of the same
    build: repetitions, whose values count together, or other series; failed ones do not count, and excluded ones only
    as runs of a branch. host_id: runs of other hosts do not exist. Raises UnknownRuns. About three queries for each
    metric, and those of `read_thresholds`.
    """
    run_ids = tuple(dict.fromkeys((run_id, *further_ids)))
    runs = (
        Run.objects.filter(pk__in=run_ids)
        if host_id is None
        else Run.objects.filter(pk__in=run_ids, host=host_id)
    )
    started = dict(runs.values_list("pk", "started_at"))
    if missing := [str(each) for each in run_ids if each not in started]:
        raise UnknownRuns(f"run {', '.join(missing)} does not exist")
    values, kinds = _read_run_values(run_ids, metrics)
    names = {
        series.pk: name_series(series) for series in Series.objects.filter(pk__in={key[0] for key in values})
    }
    thresholds = read_thresholds(names)
    tested: list[tuple[int, str, LevelRuns | None]] = []
    for metric in metrics:
        of_metric = {series_id: thresholds[series_id][metric] for series_id, of in values if of == metric}
        of_kind = {series_id: kinds[series_id, metric][0] for series_id in of_metric}
        before_at = min(started.values())
        found = _read_baselines(of_metric, metric, kinds=of_kind, baseline=baseline, before_at=before_at)
        tested += [(series_id, metric, found.get(series_id)) for series_id in of_metric]
        others = {
            series_id: _OTHER_KIND[kind]
            for series_id, kind in of_kind.items()
            if kind and (series_id not in found or len(found[series_id].values) < BASELINE_RUNS_MINIMUM)
        }
        for series_id in _read_baselines(
            {each: of_metric[each] for each in others},
            metric,
            kinds=others,
            baseline=baseline,
            before_at=before_at,
        ):
            kinds[series_id, metric].append(others[series_id])
    of_another_kind = {key for key, known in kinds.items() if len(known) > 1 and values[key]}
    builds = _read_builds([run_id for *_, known in tested if known for run_id in known.run_ids.tolist()])
    samples = [
        GateSample(
            metric,
            dict(zip(known.run_ids.tolist(), known.values.tolist(), strict=True))
            if known and (series_id, metric) not in of_another_kind
            else {},
            values[series_id, metric],
            is_higher_better=CATALOG[metric].better == "higher",
            limit=thresholds[series_id][metric] if limit is None else limit,
            builds=builds,
        )
        for series_id, metric, known in tested
    ]
    results, together = judge_build(samples, error_rate=error_rate, asks=asks)
    rows = [GateRow(None, sample.metric, sample.limit, result, count) for sample, result, count in together]
    for (series_id, metric, known), sample, result in zip(tested, samples, results, strict=True):
        times = known.list_times() if known else []
        if (series_id, metric) in of_another_kind:
            result = replace(result, reason="other-kind", baseline_n=len(times))
        names_of_kinds = kinds[series_id, metric]
        rows.append(
            GateRow(
                names[series_id],
                metric,
                sample.limit,
                result,
                from_at=times[0] if times else None,
                to_at=times[-1] if times else None,
                latency_kind=names_of_kinds[0],
                baseline_kind=names_of_kinds[-1],
            )
        )
    outcome = combine_outcomes([row.result.outcome for row in rows])
    return RunGate(run_id, run_ids, outcome, error_rate, tuple(rows))


def _read_run_values(
    run_ids: Sequence[int], metrics: Sequence[str]
) -> tuple[dict[tuple[int, str], dict[int, float]], dict[tuple[int, str], list[str]]]:
    """Return the valid values of each series and metric of the runs, and their kinds of latency; a run counts once.

    A metric without a value is left out, unless the series has no valid measurement at all; so is the total of reads
    and writes that are tested themselves. Values of two kinds are not compared.
    """
    found: dict[tuple[int, str], dict[int, list[float]]] = {}
    # In the order of the runs.
    kinds: dict[tuple[int, str], dict[str, None]] = {}
    known = Measurement.objects.filter(run_id__in=run_ids).order_by("series_id", "run_id")
    # A person excludes a run from the gate, too; its branch only from levels.
    excluded = {
        run.pk
        for run in Run.objects.filter(pk__in=run_ids, excluded_at__isnull=False)
        if not run.excluded_reason.endswith(OF_A_BRANCH)
    }
    facts = ("series_id", "run_id", "error", "latency_kind", "missing")
    of_mixes = known.filter(series__direction__in=("read", "write")).values("series__workload")
    totals = known.filter(series__direction="mixed", series__workload__in=of_mixes).values_list(
        "series_id", flat=True
    )
    rows = list(known.exclude(series_id__in=set(totals)).values_list(*facts, *metrics))
    valid = {row[0] for row in rows if not row[2] and row[1] not in excluded}
    for series_id, of, error, latency_kind, missing, *columns in rows:
        is_valid = not error and of not in excluded
        for metric, value in zip(metrics, columns, strict=True):
            if value is None and is_valid:
                continue
            by_run = found.setdefault((series_id, metric), {})
            if is_valid:
                kind = find_kind(metric, latency_kind=latency_kind, missing=missing)
                kinds.setdefault((series_id, metric), {})[kind] = None
                by_run.setdefault(of, []).append(value)
    values = {
        key: {of: float(np.median(repetitions)) for of, repetitions in by_run.items()}
        for key, by_run in found.items()
        if by_run or key[0] not in valid
    }
    return values, {key: list(kinds.get(key, {"": None})) for key in values}


def _read_baselines(
    thresholds: Mapping[int, float],
    metric: str,
    *,
    kinds: Mapping[int, str],
    baseline: GateBaseline,
    before_at: datetime,
) -> dict[int, LevelRuns]:
    """Return the runs of the baseline of each series that has any; all before a moment.

    thresholds: by series; kinds: of latency, by series: only their values count, all for "".
    """
    last = before_at - timedelta(microseconds=1)
    if baseline.kind == "accepted":
        spans = _find_accepted(thresholds, metric, last, kinds)
    else:
        to_at = min(last, baseline.to_at - timedelta(microseconds=1)) if baseline.to_at else last
        spans = {
            each: LevelSpan(each, baseline.from_at or _START, to_at, latency_kind=kinds[each])
            for each in thresholds
        }
    newest = {} if baseline.kind == "label" else dict.fromkeys(spans, BASELINE_RUNS_MAXIMUM)
    found = read_level_runs(spans, metric, newest=newest)
    return _select_label(found, baseline) if baseline.kind == "label" else found


def _read_builds(run_ids: Sequence[int]) -> dict[int, str]:
    """Return the build of each run with the label `commit`; one query.

    Runs of a commit that begin within an hour of the first are repetitions of one build.
    """
    labeled = Run.objects.filter(pk__in=set(run_ids), labels__has_key="commit").order_by("started_at", "pk")
    builds: dict[int, str] = {}
    newest: dict[str, tuple[datetime, str]] = {}
    for run_id, commit, started_at in labeled.values_list("pk", "labels__commit", "started_at"):
        if commit not in newest or started_at - newest[commit][0] >= BUILD_LENGTH:
            newest[commit] = started_at, f"{commit} of run {run_id}"
        builds[run_id] = newest[commit][1]
    return builds


def _find_accepted(
    thresholds: Mapping[int, float], metric: str, last: datetime, kinds: Mapping[int, str]
) -> dict[int, LevelSpan]:
    """Return the newest level of each series without a regression that nobody accepted; one query.

    A regression lasts until a level has recovered, is accepted, or is within the threshold of the series of the level
    before the regression: an improvement by a part of it is no baseline.
    """
    levels = Level.objects.filter(series_id__in=thresholds, metric=metric, from_at__lte=last)
    accepted: dict[int, Level] = {}
    regressed: set[int] = set()
    for level in levels.select_related("change__incident").order_by("series_id", "from_at"):
        if not are_same_kind(level.latency_kind, kinds[level.series_id]):
            continue
        before = accepted.get(level.series_id)
        if before is None or level.is_recovery or _is_accepted(level):
            is_baseline = True
        elif level.series_id in regressed:
            limit = thresholds[level.series_id]
            is_baseline = not _is_worse(level.median, before.median, metric, limit=limit)
        else:
            is_baseline = level.change is None or not level.change.is_regression
        if is_baseline:
            accepted[level.series_id] = level
            regressed.discard(level.series_id)
        else:
            regressed.add(level.series_id)
    return {
        series_id: LevelSpan(series_id, level.from_at, min(level.to_at, last), latency_kind=kinds[series_id])
        for series_id, level in accepted.items()
    }


def _is_accepted(level: Level) -> bool:
    incident = level.change.incident if level.change else None
    return incident is not None and (incident.verdict in _NOT_REAL or incident.planned_event_id is not None)


def _is_worse(median: float, than: float, metric: str, *, limit: float) -> bool:
    """Return whether a median is worse than another by more than a relative limit."""
    worsening = than - median if CATALOG[metric].better == "higher" else median - than
    return worsening > limit * abs(than)


def _select_label(found: Mapping[int, LevelRuns], baseline: GateBaseline) -> dict[int, LevelRuns]:
    """Return the newest runs with the label; one query."""
    ids = np.unique(np.concatenate([runs.run_ids for runs in found.values()])).tolist() if found else []
    labeled = Run.objects.filter(pk__in=ids, labels__contains={baseline.label: baseline.value})
    wanted = np.array(sorted(labeled.values_list("pk", flat=True)), dtype=np.int64)
    selected = {}
    for series_id, runs in found.items():
        places = np.flatnonzero(np.isin(runs.run_ids, wanted))[-BASELINE_RUNS_MAXIMUM:]
        if len(places):
            selected[series_id] = LevelRuns(
                runs.run_ids[places],
                runs.at_us[places],
                runs.values[places],
                runs.others[places],
            )
    return selected
