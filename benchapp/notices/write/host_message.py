"""Messages about silent hosts. Reads no database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from benchapp.framework.times import format_utc_moment, to_iso
from benchapp.notices.channels.message import Message

HOSTS_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class HostSilence:
    """A host that is or was silent. silent_at: when its run became overdue; last_seen_at: server's clock."""

    name: str
    pool: str
    silent_at: datetime
    profiles: tuple[str, ...]
    last_seen_at: datetime | None


def make_silence_message(hosts: Sequence[HostSilence], *, base_url: str) -> Message:
    """Return the message that hosts are silent; lists the first fifty."""
    first = min(hosts, key=lambda host: host.silent_at)
    if len(hosts) == 1:
        subject = f"Silent host: {first.name}"
        sentence = (
            f"{first.name} has missed its scheduled run of {_join(first.profiles)}: overdue since "
            f"{format_utc_moment(first.silent_at)}{_format_last_seen(first)}."
        )
    else:
        subject = f"{len(hosts)} silent hosts"
        sentence = (
            f"{len(hosts)} hosts have missed a scheduled run, the first since "
            f"{format_utc_moment(first.silent_at)}. Possible common causes: network, power, this server, a rollout."
        )
    return _make_host_message("host.silent", subject, sentence, hosts, base_url=base_url)


def make_return_message(hosts: Sequence[HostSilence], *, base_url: str) -> Message:
    """Return the message that silent hosts run again."""
    if len(hosts) == 1:
        subject = f"Host is back: {hosts[0].name}"
        sentence = f"{hosts[0].name} runs again. It was silent since {format_utc_moment(hosts[0].silent_at)}."
    else:
        subject = f"{len(hosts)} hosts are back"
        sentence = f"{len(hosts)} silent hosts run again."
    return _make_host_message("host.back", subject, sentence, hosts, base_url=base_url)


def _make_host_message(
    kind: str, subject: str, sentence: str, hosts: Sequence[HostSilence], *, base_url: str
) -> Message:
    shown = hosts[:HOSTS_SHOWN]
    details = [
        (host.name, f"since {format_utc_moment(host.silent_at)}{_format_last_seen(host)}") for host in shown
    ]
    if len(hosts) > len(shown):
        details.append(("and", f"{len(hosts) - len(shown)} more"))
    page = f"/hosts/{hosts[0].name}/" if len(hosts) == 1 else "/hosts/"
    return Message(
        kind=kind,
        subject=subject,
        sentence=sentence,
        details=tuple(details) if len(hosts) > 1 else (),
        url=f"{base_url}{page}" if base_url else "",
        link_text=hosts[0].name if len(hosts) == 1 else "Hosts",
        settings_url=f"{base_url}/subscriptions/" if base_url else "",
        thread=f"silence-{hosts[0].name}" if len(hosts) == 1 else "silence",
        facts={
            "hosts": [
                {
                    "name": host.name,
                    "pool": host.pool,
                    "silent_at": to_iso(host.silent_at),
                    "profiles": list(host.profiles),
                    "last_seen_at": host.last_seen_at and to_iso(host.last_seen_at),
                }
                for host in hosts
            ]
        },
    )


def _format_last_seen(host: HostSilence) -> str:
    return f"; last seen {format_utc_moment(host.last_seen_at)}" if host.last_seen_at else "; never seen"


def _join(words: Sequence[str]) -> str:
    return (
        " and ".join(word for word in (", ".join(words[:-1]), words[-1]) if word) if words else "its profile"
    )
