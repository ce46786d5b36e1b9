"""Offer requests to hosts, take their reports, and settle requests by the results that arrive."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from benchapp.framework.write.audit import record_write
from benchapp.framework.write.conflicts import retry_conflicts
from benchapp.models import (
    OPEN_REQUEST_STATES,
    AuditKind,
    Host,
    RequestPolicy,
    RunRequest,
    RunRequestState,
    State,
    Submission,
)
from benchapp.models.requests import REFUSALS, RunSpecification, find_refusal
from benchapp.requests.write.run_requests import RequestSettled, UnknownRunRequest, change_request

# A host that is stopped this often during one request is not asked again.
STARTS_MAXIMUM: Final = 3
# Settled requests are listed for this long.
_KEPT: Final = timedelta(days=90)
_BATCH_SIZE: Final = 1000


@retry_conflicts
def poll_host(
    host_id: int, policy: Mapping[str, Any], *, waits_for: str, waits_until: datetime | None
) -> RunRequest | None:
    """Store what a host allows, and return the request that it shall run next: one that was interrupted, or the oldest.

    Requests that it does not allow any more are declined. A host that waits is offered nothing; one whose quota is used
    up is offered what was interrupted. An offer changes nothing: the host reports its start. policy: as of
    `RequestPolicy`. waits_for: "" if it starts a run now.
    """
    now = timezone.now()
    with transaction.atomic():
        host = Host.objects.select_for_update(no_key=True).get(pk=host_id)
        _store_policy(host, policy, {"polled_at": now, "waits_for": waits_for, "waits_until": waits_until})
        for request in _lock_open(host, now):
            if _settle_by_submission(request) or _settle_hopeless(request, policy, now):
                continue
            # Within the quota of its first start.
            is_exempt = waits_for == "quota" and request.state == RunRequestState.RUNNING
            return request if is_exempt or not waits_for else None
    return None


@retry_conflicts
def start_request(host_id: int, request_id: UUID, *, duration_s: float) -> RunRequest:
    """Note that a host starts a request. Raises UnknownRunRequest, or RequestSettled if it shall not."""
    with transaction.atomic():
        request = _lock(host_id, request_id)
        change_request(
            request,
            state=RunRequestState.RUNNING,
            action="started",
            reason="",
            starts=request.starts + 1,
            started_at=timezone.now(),
            duration_s=duration_s,
        )
    return request


@retry_conflicts
def release_request(host_id: int, request_id: UUID, *, reason: str) -> RunRequest:
    """Note that a host runs a request later. Raises UnknownRunRequest or RequestSettled."""
    with transaction.atomic():
        request = _lock(host_id, request_id)
        starts = max(request.starts - (request.state == RunRequestState.RUNNING), 0)
        change_request(
            request,
            state=RunRequestState.PENDING,
            action="deferred",
            reason=reason,
            starts=starts,
            started_at=None,
        )
    return request


@retry_conflicts
def end_request(host_id: int, request_id: UUID, *, state: RunRequestState, reason: str) -> RunRequest:
    """Note that a request failed or was declined. Raises UnknownRunRequest or RequestSettled."""
    with transaction.atomic():
        request = _lock(host_id, request_id)
        change_request(request, state=state, reason=reason, finished_at=timezone.now())
    return request


def settle_requests(stored: Iterable[UUID], failed: Mapping[UUID, str], *, now: datetime) -> None:
    """Settle the requests whose results were stored, or rejected or failed: reasons by id; also one that expired."""
    wanted = {*stored, *failed}
    for request in RunRequest.objects.filter(pk__in=wanted).exclude(state=RunRequestState.DONE):
        # Ids of requests are readable: another host may have sent one.
        if not Submission.objects.filter(pk=request.pk, host_id=request.host_id).exists():
            continue
        reason = failed.get(request.pk, "")[:1000]
        RunRequest.objects.filter(pk=request.pk).update(
            state=RunRequestState.FAILED if reason else RunRequestState.DONE,
            reason=reason,
            finished_at=now,
        )


def expire_requests(*, now: datetime) -> int:
    """End the requests that are open beyond their expiry; return their number."""
    return RunRequest.objects.filter(state__in=OPEN_REQUEST_STATES, expires_at__lte=now).update(
        state=RunRequestState.EXPIRED, finished_at=now
    )


def forget_old_requests(*, now: datetime | None = None) -> int:
    """Delete requests that ended 90 days ago; return their number, at most 1 000."""
    before = (now or timezone.now()) - _KEPT
    ids = RunRequest.objects.filter(finished_at__lt=before).values_list("pk", flat=True)[:_BATCH_SIZE]
    return RunRequest.objects.filter(pk__in=list(ids)).delete()[0]


def _store_policy(host: Host, policy: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    known = RequestPolicy.objects.filter(host=host).first()
    RequestPolicy.objects.update_or_create(host=host, defaults={"policy": dict(policy), **values})
    record_write(
        AuditKind.HOST,
        "request_policy_reported",
        object_id=host.name,
        name=host.name,
        before={"request_policy": known.policy if known else None},
        after={"request_policy": dict(policy)},
    )


def _lock_open(host: Host, now: datetime) -> list[RunRequest]:
    """Return the open requests of a host, running ones first: their agent was stopped, or it would not ask."""
    rows = RunRequest.objects.select_for_update(no_key=True, of=("self",)).select_related("host")
    rows = rows.filter(host=host, state__in=OPEN_REQUEST_STATES, expires_at__gt=now)
    return sorted(
        rows.order_by("pk"),
        key=lambda request: (request.state != RunRequestState.RUNNING, request.created_at),
    )


def _settle_by_submission(request: RunRequest) -> bool:
    """Return whether the result of a request has arrived from its host; a worker settles it."""
    return (
        Submission.objects.filter(pk=request.pk, host_id=request.host_id)
        .exclude(state=State.REJECTED)
        .exists()
    )


def _settle_hopeless(request: RunRequest, policy: Mapping[str, Any], now: datetime) -> bool:
    """Decline a request that the policy does not allow any more; fail one that stopped its agent too often."""
    wanted = RunSpecification(request.profile, request.parameters, request.directory)
    if refusal := find_refusal(policy, wanted):
        change_request(request, state=RunRequestState.DECLINED, reason=REFUSALS[refusal], finished_at=now)
        return True
    if request.starts < STARTS_MAXIMUM:
        return False
    reason = f"the agent was stopped {STARTS_MAXIMUM} times during this run"
    change_request(request, state=RunRequestState.FAILED, reason=reason, finished_at=now)
    return True


def _lock(host_id: int, request_id: UUID) -> RunRequest:
    rows = RunRequest.objects.select_for_update(no_key=True, of=("self",)).select_related("host")
    request = rows.filter(pk=request_id, host_id=host_id).first()
    if request is None:
        raise UnknownRunRequest(f"this host has no request {request_id}")
    if request.state not in OPEN_REQUEST_STATES or request.expires_at <= timezone.now():
        raise RequestSettled(
            f"the request is {request.state}, and expired at {request.expires_at:%Y-%m-%dT%H:%MZ}"
        )
    return request
