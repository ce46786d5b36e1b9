"""Request additional runs that confirm a suspected or provisional regression, or dismiss it, hours earlier."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db import transaction
from django.db.models import OuterRef, Subquery

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.framework.write.audit import record_write
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import (
    CONFIRMATION_RUNS_MAXIMUM,
    DAILY_SHARE_MAXIMUM,
    OPEN_REQUEST_STATES,
    AuditKind,
    Change,
    ChangeState,
    ConfirmationPolicy,
    Measurement,
    RequestPolicy,
    Run,
    RunRequest,
    User,
)
from benchapp.models.request_policy import RunSpecification, read_specification
from benchapp.requests.write.run_requests import RequestOrigin, RequestRefused, repeat_run

log = structlog.get_logger(__name__)

# Runs within minutes depend on the same neighbors and caches; ten minutes separate most of them.
PAUSE: Final = timedelta(minutes=10)
# A change that was found earlier is left to scheduled runs.
_FOUND_WITHIN: Final = timedelta(days=2)
# Served by the index of changes by time: a change is found soon after its first run.
_STARTED_WITHIN: Final = timedelta(days=30)
_DAY: Final = timedelta(days=1)
_CHANGES_MAXIMUM: Final = 1000
_VIA: Final = "confirmation"


class BadConfirmationPolicy(BadValue):
    """An invalid policy."""


@dataclass(frozen=True, slots=True)
class ConfirmationNeed:
    """The newest run of series with unconfirmed regressions, and what was requested for its host.

    found_at: when the newest of these changes was found. requests: automatic ones of the same specification since then.
    has_open: one is pending or running. spent_s: duration of the automatic requests of the host within 24 hours;
    run_s: of this run.
    """

    started_at: datetime
    found_at: datetime
    requests: int
    has_open: bool
    spent_s: float
    run_s: float


def is_confirmation_due(need: ConfirmationNeed, *, runs: int, daily_share: float, now: datetime) -> bool:
    """Return whether to request another run. runs, daily_share: of the policy."""
    if need.has_open or need.requests >= runs or now - need.started_at < PAUSE:
        return False
    return need.spent_s + need.run_s <= daily_share * _DAY.total_seconds()


def check_confirmation_policy(*, runs: int, daily_share: float) -> None:
    """Raise BadConfirmationPolicy for values that `set_confirmation_policy` refuses."""
    if not 0 <= runs <= CONFIRMATION_RUNS_MAXIMUM:
        raise BadConfirmationPolicy("runs", f"choose 0 to {CONFIRMATION_RUNS_MAXIMUM} runs")
    # Also false for NaN.
    if not 0 < daily_share <= DAILY_SHARE_MAXIMUM:
        raise BadConfirmationPolicy(
            "daily_share", f"choose more than 0, at most {DAILY_SHARE_MAXIMUM * 100:.0f} % of the day"
        )


def set_confirmation_policy(
    pool: str, *, runs: int, daily_share: float, by: User | None
) -> ConfirmationPolicy | None:
    """Set the policy of a pool, "" for hosts without one, and return it; 0 runs remove it.

    Raises BadConfirmationPolicy.
    """
    check_confirmation_policy(runs=runs, daily_share=daily_share)
    with transaction.atomic():
        known = ConfirmationPolicy.objects.select_for_update().filter(pool=pool).first()
        before = {"runs": known.runs, "daily_share": known.daily_share} if known else {"runs": 0}
        policy = None
        if runs:
            values = {"runs": runs, "daily_share": daily_share}
            policy, _ = ConfirmationPolicy.objects.update_or_create(pool=pool, defaults=values)
        elif known is not None:
            known.delete()
        record_write(
            AuditKind.CONFIRMATION_POLICY,
            "set" if runs else "removed",
            object_id=pool,
            name=pool or "hosts without a pool",
            before=before,
            after={"runs": runs, "daily_share": daily_share} if runs else {"runs": 0},
            by=by,
        )
    return policy


def request_confirmations(*, now: datetime) -> int:
    """Request a run for each host whose newest run has an unconfirmed regression, within the policy of its pool.

    One at a time: the result of each decides whether another is needed. Return the number of requests.
    """
    policies = {policy.pool: policy for policy in ConfirmationPolicy.objects.all()}
    if not policies:
        return 0
    created = 0
    for run, changes in _list_unconfirmed(policies, now=now):
        wanted = read_specification(run.profile, run.command, run.environment.facts)
        policy = policies[run.host.pool]
        if wanted is None:
            continue
        need = _read_need(run, wanted, found_at=max(change.found_at for change in changes), now=now)
        if not is_confirmation_due(need, runs=policy.runs, daily_share=policy.daily_share, now=now):
            continue
        largest = max(changes, key=lambda change: abs(change.relative))
        origin = RequestOrigin(
            via=_VIA, series_id=largest.series_id, incident_id=largest.incident_id, change=largest
        )
        try:
            repeat_run(run.pk, origin=origin)
        except RequestRefused as refusal:
            log.info("confirmation.refused", run=run.pk, host=run.host.name, code=refusal.code)
        else:
            created += 1
    return created


def _list_unconfirmed(pools: Collection[str], *, now: datetime) -> list[tuple[Run, Sequence[Change]]]:
    """Return the newest runs of series with unconfirmed regressions, each with the changes of its series."""
    newest = Measurement.objects.filter(series=OuterRef("series")).order_by("-started_at", "-id")
    changes = (
        Change.objects.filter(
            started_at__gte=now - _STARTED_WITHIN,
            found_at__gte=now - _FOUND_WITHIN,
            state__in=(ChangeState.SUSPECTED, ChangeState.PROVISIONAL),
            is_regression=True,
        )
        .exclude(method__in=(DRIFT_METHOD, POOLED_METHOD))
        .annotate(newest_run=Subquery(newest.values("run_id")[:1]))
        .order_by("-started_at", "-id")[:_CHANGES_MAXIMUM]
    )
    by_run: dict[int, list[Change]] = defaultdict(list)
    for change in changes:
        by_run[vars(change)["newest_run"]].append(change)
    runs = Run.objects.filter(
        pk__in=by_run,
        host__pool__in=pools,
        host__retired_at=None,
        host__in=RequestPolicy.objects.values("host"),
    )
    return [(run, by_run[run.pk]) for run in runs.select_related("host", "environment").order_by("pk")]


def _read_need(run: Run, wanted: RunSpecification, *, found_at: datetime, now: datetime) -> ConfirmationNeed:
    automatic = RunRequest.objects.filter(host=run.host, via=_VIA)
    same = automatic.filter(
        profile=wanted.profile, directory=wanted.directory, parameters=dict(wanted.parameters)
    )
    run_s = (run.finished_at - run.started_at).total_seconds() if run.finished_at else 0.0
    spent = automatic.filter(created_at__gt=now - _DAY).values_list("duration_s", flat=True)
    return ConfirmationNeed(
        started_at=run.started_at,
        found_at=found_at,
        requests=same.filter(created_at__gte=found_at).count(),
        has_open=RunRequest.objects.filter(
            host=run.host, state__in=OPEN_REQUEST_STATES, profile=wanted.profile, directory=wanted.directory
        ).exists(),
        spent_s=sum(run_s if duration_s is None else duration_s for duration_s in spent),
        run_s=run_s,
    )
