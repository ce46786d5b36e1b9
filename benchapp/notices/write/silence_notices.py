"""Queue notices about silent, failing and returned hosts: each silence once, many hosts in one notice."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.framework.write.conflicts import retry_conflicts
from benchapp.models import Notice, NoticeState, Subscription
from benchapp.models.coverage import match_hosts
from benchapp.notices.write.enqueue import list_active
from benchapp.notices.write.host_message import (
    HostSilence,
    make_return_message,
    make_silence_message,
)
from benchapp.notices.write.outbox import Draft, pause, put_notices
from benchapp.notices.write.silent_hosts import HostState, read_failing_states, read_silent_states

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
