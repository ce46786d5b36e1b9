"""Queue notices about silent, failing and returned hosts: each silence once, many hosts in one notice."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from textwrap import shorten
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Max
from django.utils import timezone

from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.detection.rules.levels import FAILED_RUNS, ExpectedRun, expect_run
from benchapp.framework.times import format_utc_moment, to_iso
from benchapp.framework.write.conflicts import retry_conflicts
from benchapp.models import (
    Host,
    Notice,
    NoticeState,
    PlannedEvent,
    PlannedEventKind,
    Run,
    State,
    Submission,
    Subscription,
)
from benchapp.models.coverage import match_hosts
from benchapp.models.measurement import HAS_NO_VALUE, read_last_receipts
from benchapp.notices.channels.transport import Message
from benchapp.notices.write.enqueue import list_active
from benchapp.notices.write.outbox import Draft, pause, put_notices
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
    last = read_last_receipts(
        [
            (host.pk, entry["profile"], entry["directory"], _since(host))
            for host in hosts
            for entry in host.schedule or ()
        ]
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
    last: Mapping[tuple[int, str, str], datetime],
    *,
    maintained_until: datetime | None,
    has_unprocessed: bool,
    now: datetime,
) -> HostState:
    plain: list[tuple[str, ExpectedRun]] = []
    after_maintenance: list[tuple[datetime, ExpectedRun]] = []
    ran: list[datetime] = []
    since_at = _since(host)
    profiles = [entry["profile"] for entry in host.schedule or ()]
    for entry in host.schedule or ():
        profile = entry["profile"]
        last_at = last.get((host.pk, profile, entry["directory"]))
        ran.extend([last_at] if last_at else [])
        name = f"{profile} in {entry['directory']}" if profiles.count(profile) > 1 else profile
        plain.append((name, _expect(entry, last_at, since_at=since_at, now=now)))
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


HOSTS_SHOWN: Final = 50
_REASON_MAXIMUM: Final = 200


@dataclass(frozen=True, slots=True)
class HostSilence:
    """A host that is or was silent or failing, as kind says.

    began_at: when its run became overdue, or its first result without a valid value came. last_seen_at: server's clock.
    reason: of the newest failure.
    """

    name: str
    pool: str
    kind: str
    began_at: datetime
    profiles: tuple[str, ...]
    last_seen_at: datetime | None
    reason: str = ""


def make_silence_message(hosts: Sequence[HostSilence], *, base_url: str) -> Message:
    """Return the message that hosts are silent, or failing, all of one kind; lists the first fifty."""
    first = min(hosts, key=lambda host: host.began_at)
    since = format_utc_moment(first.began_at)
    is_silent = first.kind == "silent"
    if len(hosts) == 1:
        subject = f"{first.kind.capitalize()} host: {first.name}"
        sentence = (
            f"{first.name} has missed its scheduled run of {_join(first.profiles)}: overdue since "
            f"{since}{_format_last_seen(first)}."
            if is_silent
            else f"{first.name} has sent no valid value of {_join(first.profiles)} since {since}. Newest result: "
            f"{_shorten(first.reason.rstrip('.'))}."
        )
    else:
        subject = f"{len(hosts)} {first.kind} hosts"
        lead = "have missed a scheduled run" if is_silent else "have sent no valid values"
        causes = "network, power, this server, a rollout" if is_silent else "full disks, storage, a rollout"
        sentence = f"{len(hosts)} hosts {lead}, the first since {since}. Possible common causes: {causes}."
    return _make_host_message(f"host.{first.kind}", subject, sentence, hosts, base_url=base_url)


def make_return_message(hosts: Sequence[HostSilence], *, base_url: str) -> Message:
    """Return the message that silent hosts run again, or failing ones send valid values again."""
    kind = hosts[0].kind
    works = "again" if kind == "silent" else "valid values again"
    if len(hosts) == 1:
        verb = "runs" if kind == "silent" else "sends"
        subject = f"Host is back: {hosts[0].name}"
        since = format_utc_moment(hosts[0].began_at)
        sentence = f"{hosts[0].name} {verb} {works}. It was {kind} since {since}."
    else:
        subject = f"{len(hosts)} hosts are back"
        sentence = f"{len(hosts)} {kind} hosts {'run' if kind == 'silent' else 'send'} {works}."
    return _make_host_message("host.back", subject, sentence, hosts, base_url=base_url)


def _make_host_message(
    kind: str, subject: str, sentence: str, hosts: Sequence[HostSilence], *, base_url: str
) -> Message:
    shown = hosts[:HOSTS_SHOWN]
    details = [
        (host.name, f"since {format_utc_moment(host.began_at)}{_format_detail(host)}") for host in shown
    ]
    if len(hosts) > len(shown):
        details.append(("and", f"{len(hosts) - len(shown)} more"))
    thread = "silence" if hosts[0].kind == "silent" else hosts[0].kind
    page = f"/hosts/{hosts[0].name}/" if len(hosts) == 1 else "/hosts/"
    return Message(
        kind=kind,
        subject=subject,
        sentence=sentence,
        details=tuple(details) if len(hosts) > 1 else (),
        url=f"{base_url}{page}" if base_url else "",
        link_text=hosts[0].name if len(hosts) == 1 else "Hosts",
        settings_url=f"{base_url}/subscriptions/" if base_url else "",
        thread=f"{thread}-{hosts[0].name}" if len(hosts) == 1 else thread,
        facts={
            "hosts": [
                {
                    "name": host.name,
                    "pool": host.pool,
                    "state": host.kind,
                    ("silent_at" if host.kind == "silent" else "failing_since"): to_iso(host.began_at),
                    "reason": host.reason,
                    "profiles": list(host.profiles),
                    "last_seen_at": host.last_seen_at and to_iso(host.last_seen_at),
                }
                for host in hosts
            ]
        },
    )


def _format_detail(host: HostSilence) -> str:
    return f"; {_shorten(host.reason)}" if host.reason else _format_last_seen(host)


def _shorten(reason: str) -> str:
    return shorten(reason, _REASON_MAXIMUM, placeholder=" …")


def _format_last_seen(host: HostSilence) -> str:
    return f"; last seen {format_utc_moment(host.last_seen_at)}" if host.last_seen_at else "; never seen"


def _join(words: Sequence[str]) -> str:
    return (
        " and ".join(word for word in (", ".join(words[:-1]), words[-1]) if word) if words else "its profile"
    )


_LOCK: Final = 0x62656E73  # pg_advisory lock: "bens"
# The kind of a key, and of the key of its end. As `_FORGET` of the outbox has them.
_ENDS: Final = {"silent": "back", "failing": "valid"}
TOGETHER_FROM: Final = 5
# The minimum grace period of a schedule (analysis.detection.silence): a host that becomes silent within it is late now.
TOGETHER_WITHIN: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class OpenSilence:
    """A reported silence, or failing, that is not over. group: key of the group notice, "" for a single one."""

    host_id: int
    kind: str
    began_at: datetime
    notice_id: int
    is_waiting: bool
    group: str


@retry_conflicts
def notify_silent_hosts(*, now: datetime | None = None) -> int:
    """Queue notices of hosts that became silent or failing, or returned; return their number. One process at a time.

    A silence from before a subscription was created is not reported to it.
    """
    moment = now or timezone.now()
    interested = list_active().filter(notify_silent_hosts=True)
    if not interested.exists():
        return 0
    with transaction.atomic():
        if not _try_lock():
            return 0
        subscriptions = list(interested.select_for_update(no_key=True, of=("self",)))
        reported = _read_open_silences(subscriptions)
        failing = {
            each.host_id for (_, kind), silences in reported.items() if kind == "failing" for each in silences
        }
        states_of = {
            "silent": read_silent_states(now=moment),
            "failing": read_failing_states(failing, now=moment),
        }
        drafts = [
            draft
            for subscription in subscriptions
            for kind, states in states_of.items()
            for draft in _draft_notices(subscription, states, reported[subscription.pk, kind], now=moment)
        ]
        put_notices(drafts, now=moment)
    return len(drafts)


def choose_silent(states: Sequence[HostState], *, now: datetime) -> list[HostState]:
    """Return the silent or failing hosts to report; none yet if many may become so together and some are only late.

    Waits at most TOGETHER_WITHIN from the first.
    """
    silent = [state for state in states if state.reported_at is not None]
    if not silent:
        return []
    until = min(state.reported_at for state in silent if state.reported_at) + TOGETHER_WITHIN
    late = [
        state
        for state in states
        if state.reported_at is None and state.late_until is not None and state.late_until <= until
    ]
    is_waiting = late and len(silent) + len(late) >= TOGETHER_FROM and now < until
    return [] if is_waiting else silent


def _draft_notices(
    subscription: Subscription,
    states: dict[int, HostState],
    reported: Sequence[OpenSilence],
    *,
    now: datetime,
) -> list[Draft]:
    returned = _draft_returns(subscription, states, reported, now=now)
    known = {each.host_id for each in reported}
    fresh = [
        state
        for host_id, state in states.items()
        if host_id not in known
        and (state.late_until or (state.reported_at and state.reported_at >= subscription.created_at))
    ]
    try:
        matched = match_hosts(parse_filter(subscription.filter), [state.host for state in fresh])
    except BadFilter as error:
        pause(subscription.pk, f"filter is no longer valid: {error}")
        return []
    chosen = choose_silent([state for state in fresh if state.host.pk in matched], now=now)
    if len(chosen) < TOGETHER_FROM:
        return [*returned, *(_draft_one(subscription, state) for state in chosen)]
    return [*returned, _draft_group(subscription, chosen, now=now)]


def _draft_one(subscription: Subscription, state: HostState) -> Draft:
    message = make_silence_message([_describe(state)], base_url=settings.PUBLIC_URL)
    return Draft(subscription, _make_key(state), message)


def _draft_group(subscription: Subscription, states: Sequence[HostState], *, now: datetime) -> Draft:
    first = min(states, key=lambda state: (state.began_at or now, state.host.pk))
    hosts = sorted((_describe(state) for state in states), key=lambda host: host.name)
    group = f"hosts {first.kind} with {_make_key(first)}"
    _mark(subscription, [_make_key(state) for state in states], group=group, now=now)
    return Draft(subscription, group, make_silence_message(hosts, base_url=settings.PUBLIC_URL))


def _draft_returns(
    subscription: Subscription,
    states: dict[int, HostState],
    reported: Sequence[OpenSilence],
    *,
    now: datetime,
) -> list[Draft]:
    """Return notices of returned hosts: single ones immediately; a group when all are back, or after an hour."""
    _drop_unsent(reported, states)
    _close_gone(subscription, [each for each in reported if each.host_id not in states], now=now)
    drafts: list[Draft] = []
    groups: dict[str, list[OpenSilence]] = defaultdict(list)
    for each in reported:
        if each.host_id in states and not each.is_waiting:
            groups[each.group].append(each)
    for group, members in groups.items():
        back = [each for each in members if states[each.host_id].is_back]
        if not group:
            drafts += [_draft_return(subscription, [each], states) for each in back]
        elif back and (len(back) == len(members) or _is_long_back(back, states, now=now)):
            _mark(subscription, [_name_back(each) for each in back], group=_name_group(back), now=now)
            drafts.append(_draft_return(subscription, back, states, key=_name_group(back)))
    return drafts


def _draft_return(
    subscription: Subscription, back: Sequence[OpenSilence], states: dict[int, HostState], *, key: str = ""
) -> Draft:
    hosts = [_describe(states[each.host_id], began_at=each.began_at) for each in back]
    message = make_return_message(sorted(hosts, key=lambda host: host.name), base_url=settings.PUBLIC_URL)
    return Draft(subscription, key or _name_back(back[0]), message)


def _drop_unsent(reported: Iterable[OpenSilence], states: dict[int, HostState]) -> None:
    """Drop unsent notices of silences that are over: neither the silence nor its end is reported."""
    over = [
        each.notice_id
        for each in reported
        if each.is_waiting and (each.host_id not in states or states[each.host_id].is_back)
    ]
    Notice.objects.filter(pk__in=over, state=NoticeState.WAITING, attempts=0).update(
        state=NoticeState.DROPPED, settled_at=timezone.now()
    )


def _close_gone(subscription: Subscription, gone: Sequence[OpenSilence], *, now: datetime) -> None:
    """Close the silence of hosts that were retired or have no schedule any more, without a notice."""
    _mark(subscription, [_name_back(each) for each in gone if not each.is_waiting], group="closed", now=now)


def _mark(subscription: Subscription, keys: Sequence[str], *, group: str, now: datetime) -> None:
    """Mark hosts as reported in a group notice: one row for each host, so that none is reported twice."""
    Notice.objects.bulk_create(
        (
            Notice(
                subscription=subscription,
                key=key,
                body={"reported_in": group},
                state=NoticeState.SENT,
                not_before_at=now,
                created_at=now,
                settled_at=now,
            )
            for key in keys
        ),
        ignore_conflicts=True,
    )


def _read_open_silences(
    subscriptions: Sequence[Subscription],
) -> dict[tuple[int, str], list[OpenSilence]]:
    """Return the reported open silences by subscription and kind; one query."""
    rows = Notice.objects.filter(
        subscription__in=subscriptions, key__startswith="host ", incident__isnull=True
    ).values_list("subscription_id", "key", "pk", "state", "body__reported_in")
    known = {(subscription_id, key) for subscription_id, key, *_ in rows}
    silences: dict[tuple[int, str], list[OpenSilence]] = defaultdict(list)
    for subscription_id, key, pk, state, group in rows:
        _, host_id, kind, moment = key.split(" ", 3)
        if (
            kind not in _ENDS
            or state == NoticeState.DROPPED
            or (subscription_id, f"host {host_id} {_ENDS[kind]} {moment}") in known
        ):
            continue
        is_waiting = state == NoticeState.WAITING
        began_at = datetime.fromisoformat(moment)
        silences[subscription_id, kind].append(
            OpenSilence(int(host_id), kind, began_at, pk, is_waiting, group or "")
        )
    return silences


def _make_key(state: HostState) -> str:
    moment = state.began_at.isoformat() if state.began_at else ""
    return f"host {state.host.pk} {state.kind} {moment}"


def _name_back(each: OpenSilence) -> str:
    return f"host {each.host_id} {_ENDS[each.kind]} {each.began_at.isoformat()}"


def _name_group(back: Sequence[OpenSilence]) -> str:
    return f"hosts back with {_name_back(min(back, key=lambda each: each.host_id))}"


def _is_long_back(back: Iterable[OpenSilence], states: dict[int, HostState], *, now: datetime) -> bool:
    moments = [states[each.host_id].last_at for each in back]
    return any(moment is not None and now - moment > TOGETHER_WITHIN for moment in moments)


def _describe(state: HostState, *, began_at: datetime | None = None) -> HostSilence:
    host = state.host
    moment = began_at or state.began_at or host.created_at
    return HostSilence(
        host.name, host.pool, state.kind, moment, state.profiles, host.last_seen_at, state.reason
    )


def _try_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        return bool(cursor.fetchone() == (True,))
