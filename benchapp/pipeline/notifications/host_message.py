"""What a notice of silent hosts says. Reads no database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from benchapp.pipeline.notifications.message import Message, say_moment, to_iso

HOSTS_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class HostSilence:
    """A host that is silent or was. silent_at: since when its run was missed; last_seen_at: the server's clock."""

    name: str
    pool: str
    silent_at: datetime
    profiles: tuple[str, ...]
    last_seen_at: datetime | None


def tell_silence(hosts: Sequence[HostSilence], *, base_url: str) -> Message:
    """Say that hosts fell silent: one, or many together; hosts are named, the first fifty of them."""
    first = min(hosts, key=lambda host: host.silent_at)
    if len(hosts) == 1:
        subject = f"Silent host: {first.name}"
        sentence = (
            f"{first.name} has not run {_join(first.profiles)} since its time was over at "
            f"{say_moment(first.silent_at)}{_say_last_seen(first)}."
        )
    else:
        subject = f"{len(hosts)} hosts fell silent together"
        sentence = (
            f"{len(hosts)} hosts have missed a scheduled run, the first of them since "
            f"{say_moment(first.silent_at)}. Look for what they share: network, power, this server, a rollout."
        )
    return _make_host_message("host.silent", subject, sentence, hosts, base_url=base_url)


def tell_return(hosts: Sequence[HostSilence], *, base_url: str) -> Message:
    """Say that hosts that were silent run again."""
    if len(hosts) == 1:
        subject = f"Back again: {hosts[0].name}"
        sentence = f"{hosts[0].name} runs again; it was silent since {say_moment(hosts[0].silent_at)}."
    else:
        subject = f"{len(hosts)} silent hosts are back again"
        sentence = f"{len(hosts)} hosts run again that were silent."
    return _make_host_message("host.back", subject, sentence, hosts, base_url=base_url)


def _make_host_message(
    kind: str, subject: str, sentence: str, hosts: Sequence[HostSilence], *, base_url: str
) -> Message:
    shown = hosts[:HOSTS_SHOWN]
    details = [(host.name, f"since {say_moment(host.silent_at)}{_say_last_seen(host)}") for host in shown]
    if len(hosts) > len(shown):
        details.append(("and", f"{len(hosts) - len(shown)} more"))
    page = f"/hosts/{hosts[0].name}/" if len(hosts) == 1 else "/hosts/"
    return Message(
        kind=kind,
        subject=subject,
        sentence=sentence,
        details=tuple(details) if len(hosts) > 1 else (),
        url=f"{base_url}{page}" if base_url else "",
        link_words=hosts[0].name if len(hosts) == 1 else "Hosts",
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


def _say_last_seen(host: HostSilence) -> str:
    return f"; last heard of {say_moment(host.last_seen_at)}" if host.last_seen_at else "; never heard of"


def _join(words: Sequence[str]) -> str:
    return (
        " and ".join(word for word in (", ".join(words[:-1]), words[-1]) if word) if words else "its profile"
    )
