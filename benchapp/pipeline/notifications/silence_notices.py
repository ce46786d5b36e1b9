"""Tell of hosts that fell silent and of those that are back: each silence once, many together in one notice."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from benchapp.grammar import BadFilter, parse_filter
from benchapp.models import Notice, NoticeState, Subscription
from benchapp.models.host_filtering import match_hosts
from benchapp.pipeline.conflicts import retry_conflicts
from benchapp.pipeline.notifications.enqueue import list_active
from benchapp.pipeline.notifications.host_message import HostSilence, tell_return, tell_silence
from benchapp.pipeline.notifications.outbox import Draft, pause, put_notices
from benchapp.pipeline.notifications.silent_hosts import HostState, read_states

_LOCK: Final = 0x62656E73  # pg_advisory lock: "bens"
TOGETHER_FROM: Final = 5
# The least grace of any schedule (analysis.silence): whatever falls silent within this of another is late by then.
TOGETHER_WITHIN: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class OpenSilence:
    """A silence that somebody was told of and that is not over. group: the key of the notice of many, "" for one."""

    host_id: int
    missed_at: datetime
    notice_id: int
    is_waiting: bool
    group: str


@retry_conflicts
def notify_silent_hosts(*, now: datetime | None = None) -> int:
    """Put notices of hosts that fell silent or came back into the outbox; return how many. One watch at a time.

    A silence from before a subscription was made is not told to it.
    """
    moment = now or timezone.now()
    listening = list_active().filter(wants_silence=True)
    if not listening.exists():
        return 0
    with transaction.atomic():
        if not _try_lock():
            return 0
        subscriptions = list(listening.select_for_update(no_key=True, of=("self",)))
        states = read_states(now=moment)
        told = _read_told(subscriptions)
        drafts = [
            draft
            for subscription in subscriptions
            for draft in _tell(subscription, states, told[subscription.pk], now=moment)
        ]
        put_notices(drafts, now=moment)
    return len(drafts)


def choose_silent(states: Sequence[HostState], *, now: datetime) -> list[HostState]:
    """Return the silent to tell of now; none yet where many seem to fall silent together and some are only late.

    Waits at most TOGETHER_WITHIN from the first.
    """
    silent = [state for state in states if state.silent_at is not None]
    if not silent:
        return []
    until = min(state.silent_at for state in silent if state.silent_at) + TOGETHER_WITHIN
    late = [
        state
        for state in states
        if state.silent_at is None and state.late_until is not None and state.late_until <= until
    ]
    is_waiting = late and len(silent) + len(late) >= TOGETHER_FROM and now < until
    return [] if is_waiting else silent


def _tell(
    subscription: Subscription, states: dict[int, HostState], told: Sequence[OpenSilence], *, now: datetime
) -> list[Draft]:
    returned = _tell_returns(subscription, states, told, now=now)
    known = {each.host_id for each in told}
    fresh = [
        state
        for host_id, state in states.items()
        if host_id not in known
        and (state.late_until or (state.silent_at and state.silent_at >= subscription.created_at))
    ]
    try:
        matched = match_hosts(parse_filter(subscription.filter), [state.host for state in fresh])
    except BadFilter as error:
        pause(subscription.pk, f"its filter is understood no longer: {error}")
        return []
    chosen = choose_silent([state for state in fresh if state.host.pk in matched], now=now)
    if len(chosen) < TOGETHER_FROM:
        return [*returned, *(_tell_one(subscription, state) for state in chosen)]
    return [*returned, _tell_many(subscription, chosen, now=now)]


def _tell_one(subscription: Subscription, state: HostState) -> Draft:
    message = tell_silence([_describe(state)], base_url=settings.PUBLIC_URL)
    return Draft(subscription, _make_key(state, "silent"), message)


def _tell_many(subscription: Subscription, states: Sequence[HostState], *, now: datetime) -> Draft:
    first = min(states, key=lambda state: (state.missed_at or now, state.host.pk))
    hosts = sorted((_describe(state) for state in states), key=lambda host: host.name)
    group = f"hosts silent with {_make_key(first, 'silent')}"
    _mark(subscription, [_make_key(state, "silent") for state in states], group=group, now=now)
    return Draft(subscription, group, tell_silence(hosts, base_url=settings.PUBLIC_URL))


def _tell_returns(
    subscription: Subscription, states: dict[int, HostState], told: Sequence[OpenSilence], *, now: datetime
) -> list[Draft]:
    """Tell of returns: of one host at once; of many that were told together when all are back, or after an hour."""
    _drop_unsent(told, states)
    _close_gone(subscription, [each for each in told if each.host_id not in states], now=now)
    drafts: list[Draft] = []
    groups: dict[str, list[OpenSilence]] = defaultdict(list)
    for each in told:
        if each.host_id in states and not each.is_waiting:
            groups[each.group].append(each)
    for group, members in groups.items():
        back = [each for each in members if states[each.host_id].is_back]
        if not group:
            drafts += [_tell_back(subscription, [each], states) for each in back]
        elif back and (len(back) == len(members) or _is_long_back(back, states, now=now)):
            _mark(subscription, [_name_back(each) for each in back], group=_name_group(back), now=now)
            drafts.append(_tell_back(subscription, back, states, key=_name_group(back)))
    return drafts


def _tell_back(
    subscription: Subscription, back: Sequence[OpenSilence], states: dict[int, HostState], *, key: str = ""
) -> Draft:
    hosts = [_describe(states[each.host_id], silent_at=each.missed_at) for each in back]
    message = tell_return(sorted(hosts, key=lambda host: host.name), base_url=settings.PUBLIC_URL)
    return Draft(subscription, key or _name_back(back[0]), message)


def _drop_unsent(told: Iterable[OpenSilence], states: dict[int, HostState]) -> None:
    """Drop what nobody was told yet and is over: after a quiet night neither the silence nor its end is news."""
    over = [
        each.notice_id
        for each in told
        if each.is_waiting and (each.host_id not in states or states[each.host_id].is_back)
    ]
    Notice.objects.filter(pk__in=over, state=NoticeState.WAITING, attempts=0).update(
        state=NoticeState.DROPPED, settled_at=timezone.now()
    )


def _close_gone(subscription: Subscription, gone: Sequence[OpenSilence], *, now: datetime) -> None:
    """Close the silence of hosts that were retired or run nothing by themselves any more, without a word."""
    _mark(subscription, [_name_back(each) for each in gone if not each.is_waiting], group="closed", now=now)


def _mark(subscription: Subscription, keys: Sequence[str], *, group: str, now: datetime) -> None:
    """Keep that something is told elsewhere: a row of its own for each host, that it is never told twice."""
    Notice.objects.bulk_create(
        (
            Notice(
                subscription=subscription,
                key=key,
                body={"told_in": group},
                state=NoticeState.SENT,
                not_before_at=now,
                created_at=now,
                settled_at=now,
            )
            for key in keys
        ),
        ignore_conflicts=True,
    )


def _read_told(subscriptions: Sequence[Subscription]) -> dict[int, list[OpenSilence]]:
    """Return the silences by subscription that were told and not ended; one query."""
    rows = Notice.objects.filter(
        subscription__in=subscriptions, key__startswith="host ", incident__isnull=True
    ).values_list("subscription_id", "key", "pk", "state", "body__told_in")
    ended = {(whose, key) for whose, key, *_ in rows if " back " in key}
    told: dict[int, list[OpenSilence]] = defaultdict(list)
    for whose, key, pk, state, group in rows:
        _, host_id, kind, moment = key.split(" ", 3)
        if (
            kind != "silent"
            or state == NoticeState.DROPPED
            or (whose, f"host {host_id} back {moment}") in ended
        ):
            continue
        is_waiting = state == NoticeState.WAITING
        told[whose].append(
            OpenSilence(int(host_id), datetime.fromisoformat(moment), pk, is_waiting, group or "")
        )
    return told


def _make_key(state: HostState, kind: str) -> str:
    moment = state.missed_at.isoformat() if state.missed_at else ""
    return f"host {state.host.pk} {kind} {moment}"


def _name_back(each: OpenSilence) -> str:
    return f"host {each.host_id} back {each.missed_at.isoformat()}"


def _name_group(back: Sequence[OpenSilence]) -> str:
    return f"hosts back with {_name_back(min(back, key=lambda each: each.host_id))}"


def _is_long_back(back: Iterable[OpenSilence], states: dict[int, HostState], *, now: datetime) -> bool:
    moments = [states[each.host_id].last_at for each in back]
    return any(moment is not None and now - moment > TOGETHER_WITHIN for moment in moments)


def _describe(state: HostState, *, silent_at: datetime | None = None) -> HostSilence:
    host = state.host
    moment = silent_at or state.missed_at or host.created_at
    return HostSilence(host.name, host.pool, moment, state.profiles, host.last_seen_at)


def _try_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        return bool(cursor.fetchone() == (True,))
