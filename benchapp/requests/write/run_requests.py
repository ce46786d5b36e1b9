"""Create and cancel requests of runs, within what the host allows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import retry_conflicts
from benchapp.models import (
    OPEN_REQUEST_STATES,
    AuditKind,
    Change,
    Host,
    RequestPolicy,
    Run,
    RunRequest,
    RunRequestState,
    User,
)
from benchapp.models.request_policy import (
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
