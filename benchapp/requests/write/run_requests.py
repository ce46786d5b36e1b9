"""Run requests: create and cancel them; confirmation runs of incidents."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID, uuid4

import structlog
from django.db import transaction
from django.db.models import OuterRef, Q, Subquery
from django.utils import timezone

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import BadValue, retry_conflicts
from benchapp.models import (
    CONFIRMATION_RUNS_MAXIMUM,
    DAILY_SHARE_MAXIMUM,
    OPEN_REQUEST_STATES,
    AuditKind,
    Change,
    ChangeState,
    ConfirmationPolicy,
    Host,
    Measurement,
    RequestPolicy,
    Run,
    RunRequest,
    RunRequestState,
    User,
)
from benchapp.models.requests import (
    REFUSALS,
    ParameterValue,
    RunSpecification,
    find_refusal,
    read_specification,
)

EXPIRY_DEFAULT: Final = timedelta(days=1)
EXPIRY_MINIMUM: Final = timedelta(minutes=1)
EXPIRY_MAXIMUM: Final = timedelta(days=7)
_DAY: Final = timedelta(days=1)
_AUDITED: Final = ("profile", "parameters", "directory", "state", "reason", "expires_at")


class RequestRefused(Exception):
    """A run that cannot be requested of a host. code: of REFUSALS; the message gives the reason."""

    def __init__(self, host: Host, code: str) -> None:
        super().__init__(REFUSALS[code])
        self.host_name = host.name
        self.code = code


class UnknownRunRequest(Exception):
    """A request, a host or a run that does not exist."""


class RequestSettled(Exception):
    """A request that is over; the message names its state."""


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """Who requests a run and where. via: the API token; series_id, incident_id: of the page; change: to confirm."""

    by: User | None = None
    via: str = ""
    series_id: int | None = None
    incident_id: int | None = None
    change: Change | None = None


@retry_conflicts
def request_run(
    host_name: str,
    profile: str,
    *,
    parameters: Mapping[str, ParameterValue],
    directory: str,
    expires_in: timedelta = EXPIRY_DEFAULT,
    origin: RequestOrigin,
) -> RunRequest:
    """Create a request. Raises UnknownRunRequest for an unknown host, RequestRefused if the host does not allow it."""
    with transaction.atomic():
        host = Host.objects.select_for_update(no_key=True).filter(name=host_name).first()
        if host is None:
            raise UnknownRunRequest(f"host {host_name[:100]!r} does not exist")
        return _create(
            host, RunSpecification(profile, parameters, directory), expires_in=expires_in, origin=origin
        )


@retry_conflicts
def repeat_run(
    run_id: int, *, expires_in: timedelta = EXPIRY_DEFAULT, origin: RequestOrigin, host_name: str = ""
) -> RunRequest:
    """Create a request with profile, parameters and directory of a run, for its host.

    host_name: of the run, "" for any. Raises UnknownRunRequest, or RequestRefused if the host does not allow it.
    """
    with transaction.atomic():
        run = Run.objects.select_related("environment", "host").filter(pk=run_id).first()
        if run is None or host_name not in ("", run.host.name):
            raise UnknownRunRequest(f"run {run_id} of host {host_name or 'any'} does not exist")
        wanted = read_specification(run.profile, run.command, run.environment.facts)
        if wanted is None:
            raise RequestRefused(run.host, "parameters-unknown")
        host = Host.objects.select_for_update(no_key=True).get(pk=run.host_id)
        return _create(host, wanted, expires_in=expires_in, origin=origin, repeats=run)


@retry_conflicts
def cancel_run_request(host_name: str, request_id: UUID, *, by: User | None) -> RunRequest:
    """Cancel a pending request and return it; canceling it again changes nothing.

    Raises UnknownRunRequest, or RequestSettled once it is running or over.
    """
    with transaction.atomic():
        request = (
            RunRequest.objects.select_for_update(no_key=True)
            .filter(pk=request_id, host__name=host_name)
            .first()
        )
        if request is None:
            raise UnknownRunRequest(f"host {host_name[:100]!r} has no request {request_id}")
        if request.state == RunRequestState.CANCELED:
            return request
        if request.state != RunRequestState.PENDING:
            raise RequestSettled(f"the request is {request.state}; only pending requests can be canceled")
        change_request(request, state=RunRequestState.CANCELED, finished_at=timezone.now(), by=by)
    return request


def count_within_day(host_id: int, now: datetime) -> int:
    """Return the requests of a host that are open, or started within 24 hours."""
    return RunRequest.objects.filter(
        Q(state__in=OPEN_REQUEST_STATES) | Q(started_at__gt=now - _DAY), host_id=host_id
    ).count()


def change_request(
    request: RunRequest,
    *,
    state: RunRequestState,
    by: User | None = None,
    action: str = "",
    **values: object,
) -> None:
    """Save a state with other fields of a locked request, and record it. action: by default the state."""
    before = snapshot(request, *_AUDITED)
    for name, value in {"state": state, **values}.items():
        setattr(request, name, value)
    request.save(update_fields=["state", *values])
    record_write(
        AuditKind.RUN_REQUEST,
        action or state.value,
        object_id=request.pk,
        name=f"{request.profile} on {request.host.name}",
        before=before,
        after=snapshot(request, *_AUDITED),
        by=by,
    )


def _create(
    host: Host,
    wanted: RunSpecification,
    *,
    expires_in: timedelta,
    origin: RequestOrigin,
    repeats: Run | None = None,
) -> RunRequest:
    """Create a request of a locked host, whose lock keeps others from exceeding the quota."""
    now = timezone.now()
    if host.retired_at is not None:
        raise RequestRefused(host, "host-retired")
    known = RequestPolicy.objects.filter(host=host).first()
    if known is None or not known.policy["profiles"]:
        raise RequestRefused(host, "policy-unknown")
    if refusal := find_refusal(known.policy, wanted):
        raise RequestRefused(host, refusal)
    if count_within_day(host.pk, now) >= known.policy["per_day"]:
        raise RequestRefused(host, "quota-reached")
    request = RunRequest.objects.create(
        id=uuid4(),
        host=host,
        profile=wanted.profile,
        parameters=dict(wanted.parameters),
        directory=wanted.directory,
        repeats=repeats,
        series_id=origin.series_id,
        incident_id=origin.incident_id,
        change=origin.change,
        created_by=origin.by,
        via=origin.via,
        created_at=now,
        expires_at=now + expires_in,
    )
    record_write(
        AuditKind.RUN_REQUEST,
        "created",
        object_id=request.pk,
        name=f"{request.profile} on {host.name}",
        after=snapshot(request, *_AUDITED),
        by=origin.by,
    )
    return request


log = structlog.get_logger(__name__)

# Runs within minutes depend on the same neighbors and caches; ten minutes separate most of them.
PAUSE: Final = timedelta(minutes=10)
# A change that was found earlier is left to scheduled runs.
_FOUND_WITHIN: Final = timedelta(days=2)
# Served by the index of changes by time: a change is found soon after its first run.
_STARTED_WITHIN: Final = timedelta(days=30)
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
