"""Which hosts are silent or failing, late or running, considering maintenance."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db.models import Max

from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.detection.rules.staleness import FAILED_RUNS, ExpectedRun, expect_run
from benchapp.models import Host, PlannedEvent, PlannedEventKind, Run, State, Submission
from benchapp.models.coverage import match_hosts
from benchapp.models.measurement import HAS_NO_VALUE, read_last_runs
from benchapp.requests.read.failing import FailedRuns, list_failing, read_all_failed

log = structlog.get_logger(__name__)

# Older maintenance cannot affect the next expected run: no agent interval is longer than a week.
_MAINTENANCE_LOOKBACK: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class HostState:
    """Whether one host is silent, or failing.

    began_at: when the first run became overdue, or the first result without a valid value came, None without one;
    identifies the silence. reported_at: from when it is silent or failing, by what came after maintenance; None if
    there is nothing to report. profiles: overdue or failing ones. late_until: when a late profile becomes overdue, or
    the run is due that may be one failed run too many, None without one. last_at: its newest scheduled run since the
    schedule was reported; of a host reported as failing, its newest valid run. reason: of the newest failure.
    """

    host: Host
    kind: str
    began_at: datetime | None
    reported_at: datetime | None
    profiles: tuple[str, ...]
    late_until: datetime | None
    last_at: datetime | None
    reason: str = ""

    @property
    def is_back(self) -> bool:
        """Return whether nothing is overdue or failing and at least one run arrived."""
        return self.began_at is None and self.last_at is not None


def read_failing_states(reported: Collection[int], *, now: datetime) -> dict[int, HostState]:
    """Return the state of each active host with failed runs, and of those reported as failing; seven queries at most.

    Maintenance mutes failures until it ends.
    """
    failed = read_all_failed(now=now)
    hosts = list(Host.objects.active().filter(pk__in=[*failed, *reported]).order_by("name"))
    maintained = _read_maintenance(hosts, now=now) if hosts else {}
    valid = dict(
        Run.objects.filter(~HAS_NO_VALUE, host__in=reported, excluded_at__isnull=True)
        .values_list("host_id")
        .annotate(Max("started_at"))
        if reported
        else ()
    )
    return {
        host.pk: _make_failing(
            host,
            failed.get(host.pk, ()),
            maintained_until=maintained.get(host.pk),
            last_at=valid.get(host.pk),
            now=now,
        )
        for host in hosts
    }


def _make_failing(
    host: Host,
    failed: Sequence[FailedRuns],
    *,
    maintained_until: datetime | None,
    last_at: datetime | None,
    now: datetime,
) -> HostState:
    failing = list_failing(failed)
    reported = [
        each.find_failing_after(maintained_until, now=now) if maintained_until else each.failing_at
        for each in failing
    ]
    # The next run may be the last that is missing.
    next_runs = [
        each.times[-1] + timedelta(seconds=each.every_s + each.splay_s)
        for each in failed
        if not each.failing_at and each.every_s and len(each.times) == FAILED_RUNS - 1
    ]
    return HostState(
        host=host,
        kind="failing",
        began_at=failing[0].since_at if failing else None,
        reported_at=min((at for at in reported if at), default=None),
        profiles=tuple(each.name for each in failing),
        late_until=min((at for at in next_runs if at >= now), default=None),
        last_at=last_at,
        reason=failing[0].reason if failing else "",
    )


def read_silent_states(*, now: datetime) -> dict[int, HostState]:
    """Return whether each active host with a schedule is silent; five queries.

    An unprocessed submission may be the missing run: until it is processed the host is not silent.
    """
    hosts = list(Host.objects.active().filter(schedule__isnull=False).exclude(schedule=[]).order_by("name"))
    last = read_last_runs(
        [(host.pk, entry["profile"], _since(host)) for host in hosts for entry in host.schedule or ()]
    )
    maintained = _read_maintenance(hosts, now=now)
    unprocessed = set(
        Submission.objects.filter(state=State.RECEIVED).values_list("host_id", flat=True).distinct()
    )
    return {
        host.pk: _make_state(
            host,
            last,
            maintained_until=maintained.get(host.pk),
            has_unprocessed=host.pk in unprocessed,
            now=now,
        )
        for host in hosts
    }


def _make_state(
    host: Host,
    last: Mapping[tuple[int, str], datetime],
    *,
    maintained_until: datetime | None,
    has_unprocessed: bool,
    now: datetime,
) -> HostState:
    plain: list[tuple[str, ExpectedRun]] = []
    after_maintenance: list[tuple[datetime, ExpectedRun]] = []
    ran: list[datetime] = []
    since_at = _since(host)
    for entry in host.schedule or ():
        last_at = last.get((host.pk, entry["profile"]))
        ran.extend([last_at] if last_at else [])
        plain.append((entry["profile"], _expect(entry, last_at, since_at=since_at, now=now)))
        resumed_at = max(since_at, maintained_until or since_at)
        moments = _expect(entry, last_at, since_at=resumed_at, now=now)
        after_maintenance.append((moments.expected_at + timedelta(seconds=entry["splay_s"]), moments))
    missed = [(moments.silent_at, profile) for profile, moments in plain if moments.is_silent(now)]
    silent = [moments.silent_at for _, moments in after_maintenance if moments.is_silent(now)]
    late = [moments.silent_at for late_at, moments in after_maintenance if late_at < now <= moments.silent_at]
    return HostState(
        host=host,
        kind="silent",
        began_at=min((moment for moment, _ in missed), default=None),
        reported_at=None if has_unprocessed else min(silent, default=None),
        profiles=tuple(profile for _, profile in sorted(missed)),
        late_until=min(late, default=None),
        last_at=max(ran, default=None),
    )


def _expect(
    entry: Mapping[str, Any], last_at: datetime | None, *, since_at: datetime, now: datetime
) -> ExpectedRun:
    return expect_run(last_at, since_at=since_at, every_s=entry["every_s"], splay_s=entry["splay_s"], now=now)


def _since(host: Host) -> datetime:
    # Ensured by the constraint host_schedule_is_known_since_a_moment.
    return host.schedule_since_at or host.created_at


def _read_maintenance(hosts: Sequence[Host], *, now: datetime) -> dict[int, datetime]:
    """Return the latest end of maintenance of each host, from which the next run is expected."""
    spans = PlannedEvent.objects.meeting(now - _MAINTENANCE_LOOKBACK, now)
    ends: dict[str, datetime] = {}
    for span in spans.filter(kind=PlannedEventKind.MAINTENANCE):
        ends[span.filter] = max(span.ends_at, ends.get(span.filter, span.ends_at))
    until: dict[int, datetime] = defaultdict(lambda: now - _MAINTENANCE_LOOKBACK)
    for text, ends_at in ends.items():
        try:
            inside = match_hosts(parse_filter(text), hosts)
        except BadFilter as error:
            log.warning("silence.bad_maintenance", filter=text, reason=str(error))
            continue
        for host_id in inside:
            until[host_id] = max(ends_at, until[host_id])
    return dict(until)
