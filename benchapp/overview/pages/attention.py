"""What needs attention: one line per item, with the page where it is acted on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from benchapp.catalog.metrics import describe_error, format_count, format_integer
from benchapp.framework.readiness import LATE_AFTER
from benchapp.framework.times import describe_age, format_age
from benchapp.incidents.read.shapes import IncidentRow
from benchapp.models import IncidentState, Severity, Subscription
from benchapp.overview.read.attention import COUNT_MAXIMUM, RECENT, Backlog
from benchapp.overview.read.hosts import FleetHosts
from benchapp.storage.read.hosts import HostRow, is_outdated

# Of each kind; the page of the kind has all.
_LINES_MAXIMUM: Final = 4


@dataclass(frozen=True, slots=True)
class AttentionLine:
    """One line. state: the word that is marked; linked: text of the link to the action."""

    linked: str
    url: str
    state: str
    text: str
    is_bad: bool = True


def list_attention(
    *,
    incidents: Sequence[IncidentRow],
    hosts: FleetHosts,
    backlog: Backlog,
    outdated: int,
    paused: Sequence[Subscription],
    agent_version: str,
) -> list[AttentionLine]:
    """Return the lines, most urgent first. outdated: results of an older parser; agent_version: of this server."""
    return [
        *_list_unacknowledged(incidents),
        *_list_silent(hosts.silent),
        *_list_failed(hosts.hosts),
        *_list_dropped(hosts.hosts),
        *_list_uploads(backlog),
        *_list_paused(paused),
        *_list_outdated(hosts.hosts, outdated, agent_version),
    ]


def _list_unacknowledged(incidents: Sequence[IncidentRow]) -> Iterator[AttentionLine]:
    new = [row for row in incidents if row.severity == Severity.HIGH and row.state == IncidentState.NEW]
    if new:
        oldest = min(row.opened_at for row in new)
        yield AttentionLine(
            format_count(len(new), "incident"),
            reverse("incidents") + "?tab=new",
            "high severity",
            f"not acknowledged for {format_age(oldest)}",
        )


def _list_silent(silent: Sequence[HostRow]) -> Iterator[AttentionLine]:
    for host in silent[:_LINES_MAXIMUM]:
        if host.silent_since:
            yield AttentionLine(
                host.name, reverse("host", args=[host.name]), "silent", f"for {format_age(host.silent_since)}"
            )
    yield from _count_others(silent, "silent host", reverse("hosts"))


def _list_failed(hosts: Sequence[HostRow]) -> Iterator[AttentionLine]:
    failed = [host for host in hosts if host.last_run and host.last_run.error]
    for host in failed[:_LINES_MAXIMUM]:
        if run := host.last_run:
            text = f"latest run of {host.name}, {describe_error(run.error)}"
            yield AttentionLine(f"Run {run.id}", reverse("run", args=[run.id]), "failed", text)
    yield from _count_others(failed, "host", reverse("runs") + "?failed=1", text="with a failed latest run")


def _list_dropped(hosts: Sequence[HostRow]) -> Iterator[AttentionLine]:
    since = timezone.now() - RECENT
    dropped = [host for host in hosts if host.dropped_at and host.dropped_at > since]
    for host in dropped[:_LINES_MAXIMUM]:
        yield AttentionLine(
            host.name,
            reverse("host", args=[host.name]),
            "dropped results",
            f"{format_integer(host.dropped_count)}: the spool of its agent was full",
        )
    yield from _count_others(dropped, "host", reverse("hosts"), text="with dropped results")


def _list_uploads(backlog: Backlog) -> Iterator[AttentionLine]:
    uploads = reverse("uploads")
    for reason in backlog.rejected[:_LINES_MAXIMUM]:
        query = urlencode({"state": "rejected", "reason": reason.reason_code})
        yield AttentionLine(
            format_count(reason.count, "upload"),
            f"{uploads}?{query}",
            "rejected",
            f"in the last {RECENT.days} days: {reason.reason_code}",
        )
    if backlog.oldest_at is not None:
        least = "at least " if backlog.waiting == COUNT_MAXIMUM else ""
        is_late = timezone.now() - backlog.oldest_at > LATE_AFTER
        yield AttentionLine(
            f"{least}{format_count(backlog.waiting, 'upload')}",
            f"{uploads}?state=received",
            "waiting",
            f"to be processed, oldest received {describe_age(backlog.oldest_at)}",
            is_bad=is_late,
        )


def _list_paused(paused: Sequence[Subscription]) -> Iterator[AttentionLine]:
    for subscription in paused:
        yield AttentionLine(
            f"Subscription {subscription.pk}",
            reverse("subscription", args=[subscription.pk]),
            "paused",
            f"no notifications: {subscription.paused_reason}",
        )


def _list_outdated(hosts: Sequence[HostRow], outdated: int, agent_version: str) -> Iterator[AttentionLine]:
    if outdated:
        least = "at least " if outdated == COUNT_MAXIMUM else ""
        yield AttentionLine(
            f"{least}{format_count(outdated, 'upload')}",
            reverse("uploads"),
            "older parser",
            "the worker reads them again",
            is_bad=False,
        )
    older = [host for host in hosts if is_outdated(host.agent_version, agent_version)]
    for host in older[:_LINES_MAXIMUM]:
        yield AttentionLine(
            host.name,
            reverse("host", args=[host.name]),
            "outdated agent",
            f"{host.agent_version}; this server ships {agent_version}",
            is_bad=False,
        )
    yield from _count_others(older, "host", reverse("hosts") + "?outdated=1", text="with an outdated agent")


def _count_others(
    found: Sequence[HostRow], noun: str, url: str, *, text: str = ""
) -> Iterator[AttentionLine]:
    more = len(found) - _LINES_MAXIMUM
    if more > 0:
        yield AttentionLine(format_count(more, f"more {noun}"), url, "", text)
