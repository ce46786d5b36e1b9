"""Requests of runs, what hosts allow, and whether a run can be repeated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from msgspec import Meta

from benchapp.catalog import Time
from benchapp.framework.read.pagination import (
    Cursor,
    Page,
    behind,
    by_time,
    cut_page,
    match_times,
    read_cursor,
)
from benchapp.models import (
    ConfirmationPolicy,
    Host,
    Measurement,
    RequestPolicy,
    Run,
    RunRequest,
    RunRequestState,
    Series,
)
from benchapp.models.requests import (
    RunSpecification,
    describe_allowed,
    find_refusal,
    read_specification,
)

# Series of an incident of which the newest run is looked up.
_SERIES_MAXIMUM: Final = 20


@dataclass(frozen=True, slots=True)
class RequestFilter:
    """Which requests; None: no restriction.

    run_id: that they repeat. series_id, incident_id: where they were made. from_at inclusive, to_at exclusive: when.
    """

    host_name: str | None = None
    run_id: int | None = None
    series_id: int | None = None
    incident_id: int | None = None
    state: RunRequestState | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None

    @property
    def condition(self) -> Q:
        """Return the condition of the rows."""
        wanted = {
            "host__name": self.host_name,
            "repeats_id": self.run_id,
            "series_id": self.series_id,
            "incident_id": self.incident_id,
            "state": self.state,
        }
        chosen = Q(**{name: value for name, value in wanted.items() if value is not None})
        return chosen & match_times("created_at", self.from_at, self.to_at)


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """What a host allows."""

    profiles: Annotated[tuple[str, ...], Meta(description="as [requests] allow of the agent; empty: none")]
    directories: tuple[str, ...]
    per_day: Annotated[int, Meta(description="runs within 24 hours")]
    quiet_hours: Annotated[tuple[str, ...], Meta(description="local time of the host")]
    polled_at: Time
    waits_for: Annotated[str, Meta(description="quota or quiet-hours; empty: the host starts runs")]
    waits_until: Time | None


@dataclass(frozen=True, slots=True)
class Repeatability:
    """Whether a run can be requested again. specification: None if its agent did not report it.

    refusal: code of the reason why the host does not allow it; None if it does.
    """

    run_id: int
    host_name: str
    specification: RunSpecification | None
    refusal: str | None


@dataclass(frozen=True, slots=True)
class ConfirmationPool:
    """A pool with its policy of automatic confirmation."""

    pool: Annotated[str, Meta(description="empty: hosts without a pool")]
    runs: Annotated[int, Meta(description="additional runs for each change, 0: none")]
    daily_share: Annotated[
        float | None, Meta(description="share of 24 hours that they may take on one host; null: no policy")
    ]
    hosts: int
    allowing_hosts: Annotated[int, Meta(description="hosts that allow requests")]


def page_run_requests(
    chosen: RequestFilter, *, after: str | None = None, limit: int = 100, oldest_first: bool = False
) -> Page[RunRequest]:
    """Return requests behind the cursor, newest first by default; one query. Raises BadCursor."""
    cursor = read_cursor(after, UUID)
    place = behind("created_at", cursor, is_descending=not oldest_first)
    ordered = _read(place, chosen.condition).order_by(*by_time("created_at", oldest_first=oldest_first))
    return cut_page(list(ordered[: limit + 1]), limit, cursor_of=lambda row: Cursor(row.created_at, row.id))


def count_run_requests(chosen: RequestFilter) -> Mapping[str, int]:
    """Return the number of requests by state; one query."""
    rows = RunRequest.objects.filter(chosen.condition).values_list("state").annotate(count=Count("pk"))
    return dict(rows)


def read_run_request(host_name: str, request_id: UUID) -> RunRequest | None:
    """Return one request of a host or None; one query."""
    return _read(Q(pk=request_id, host__name=host_name)).first()


def _read(*conditions: Q) -> QuerySet[RunRequest]:
    """Return requests with their results. Ids of requests are readable: another host may have sent one."""
    results = Run.objects.filter(submission=OuterRef("pk"), host=OuterRef("host")).order_by("document")
    found: QuerySet[Any] = RunRequest.objects.filter(*conditions).select_related("host", "created_by")
    rows: QuerySet[RunRequest] = found.annotate(run_id=Subquery(results.values("pk")[:1]))
    return rows


def read_request_policy(host_name: str) -> HostPolicy | None:
    """Return what a host allows; None if its agent never polled."""
    found = RequestPolicy.objects.filter(host__name=host_name).first()
    if found is None:
        return None
    policy: dict[str, Any] = found.policy
    return HostPolicy(
        profiles=tuple(describe_allowed(policy["profiles"])),
        directories=tuple(policy["directories"]),
        per_day=policy["per_day"],
        quiet_hours=tuple(policy["quiet_hours"]),
        polled_at=found.polled_at,
        waits_for=found.waits_for,
        waits_until=found.waits_until,
    )


def read_repeatability(run_ids: Sequence[int]) -> list[Repeatability]:
    """Return whether runs can be requested again, in the given order; two queries."""
    if not run_ids:
        return []
    runs = Run.objects.filter(pk__in=run_ids).select_related("host", "environment")
    found = sorted(
        runs.only("profile", "command", "environment__facts", "host__name", "host__retired_at"),
        key=lambda run: run_ids.index(run.pk),
    )
    policies = RequestPolicy.objects.filter(host__in={run.host_id for run in found}).values_list(
        "host_id", "policy"
    )
    allowed = dict(policies)
    return [_make_repeatability(run, allowed.get(run.host_id)) for run in found]


def list_latest_runs(series_ids: Sequence[int]) -> list[int]:
    """Return the newest run of each of the first 20 different series, in their order; one query."""
    wanted = list(dict.fromkeys(series_ids))[:_SERIES_MAXIMUM]
    newest = Measurement.objects.filter(series=OuterRef("pk")).order_by("-started_at", "-id")
    rows = dict(Series.objects.filter(pk__in=wanted).values_list("pk", Subquery(newest.values("run_id")[:1])))
    return list(dict.fromkeys(rows[each] for each in wanted if rows.get(each) is not None))


def list_confirmation_pools() -> tuple[ConfirmationPool, ...]:
    """Return the pools of active hosts, and others with a policy, by name; two queries."""
    policies = {policy.pool: policy for policy in ConfirmationPolicy.objects.all()}
    allows = Count("pk", filter=Q(request_policy__isnull=False) & ~Q(request_policy__policy__profiles=[]))
    pools = Host.objects.active().values("pool").annotate(hosts=Count("pk"), allowing=allows)
    counts = {row["pool"]: (row["hosts"], row["allowing"]) for row in pools}
    return tuple(
        ConfirmationPool(
            pool=pool,
            runs=policies[pool].runs if pool in policies else 0,
            daily_share=policies[pool].daily_share if pool in policies else None,
            hosts=counts.get(pool, (0, 0))[0],
            allowing_hosts=counts.get(pool, (0, 0))[1],
        )
        for pool in sorted({*counts, *policies})
    )


def _make_repeatability(run: Run, policy: Mapping[str, Any] | None) -> Repeatability:
    wanted = read_specification(run.profile, run.command, run.environment.facts)
    refusal: str | None
    if run.host.retired_at is not None:
        refusal = "host-retired"
    elif policy is None or not policy["profiles"]:
        refusal = "policy-unknown"
    elif wanted is None:
        refusal = "parameters-unknown"
    else:
        refusal = find_refusal(policy, wanted)
    return Repeatability(run.pk, run.host.name, wanted, refusal)
