"""Messages about silent and failing hosts. Reads no database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from textwrap import shorten
from typing import Final

from benchapp.framework.times import format_utc_moment, to_iso
from benchapp.notices.channels.message import Message

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
