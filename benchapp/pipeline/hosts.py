"""Change what we keep of a host.

Make hosts known: each with a token of its own.

Keep what a host is expected to run by itself.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from django.db import transaction
from django.utils import timezone

from benchapp.models import ApiToken, Host, Scope, User
from benchapp.pipeline.access.tokens import issue_token

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
# Words that stand for something else where an address names a host: /api/v1/hosts/me is the host that asks.
RESERVED_NAMES: Final = frozenset({"me"})


class EnrollmentRefused(Exception):
    """A host that cannot be enrolled; `code` is stable, the message says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def issue_host_token(name: str, *, label: str = "", created_by: User | None = None) -> str:
    """Return the plain text of a new token for this host, which is made where it is new."""
    with transaction.atomic():
        host, _ = Host.objects.get_or_create(name=check_host_name(name))
        _, plaintext = issue_token(scope=Scope.INGEST, host=host, label=label, created_by=created_by)
    return plaintext


def enroll_host(name: str, *, enrollment: ApiToken, agent_version: str = "") -> tuple[Host, str]:
    """Make a new host and its token; a name that has a working token already is refused.

    A host that lost its token is enrolled anew once an admin has revoked the old one: else whoever holds an
    enrollment token could speak for any host.
    """
    now = timezone.now()
    with transaction.atomic():
        host, is_new = Host.objects.select_for_update().get_or_create(name=check_host_name(name))
        if not is_new and host.tokens.valid_at(now).exists():
            raise EnrollmentRefused(
                "host-exists",
                f"host {name} is enrolled and its token works: revoke it on the page Hosts first, or use another name",
            )
        Host.objects.filter(pk=host.pk).update(
            retired_at=None, agent_version=agent_version[:50], last_seen_at=now
        )
        _, plaintext = issue_token(
            scope=Scope.INGEST, host=host, label="enrolled", created_by=enrollment.created_by
        )
    return host, plaintext


def check_host_name(name: str) -> str:
    """Return the name in lower case; EnrollmentRefused when it is not a valid host name, or reserved."""
    if not _NAME.fullmatch(name):
        raise EnrollmentRefused(
            "host-name-invalid",
            f"{name[:80]!r} is no host name: letters, digits, dots, hyphens and underscores, 253 at most",
        )
    # A host that got such a name before it was reserved keeps it.
    if name.lower() in RESERVED_NAMES and not Host.objects.filter(name=name.lower()).exists():
        raise EnrollmentRefused(
            "host-name-invalid",
            f"{name!r} is reserved: /api/v1/hosts/{name.lower()} is the host that asks; choose another name",
        )
    return name.lower()


def retire_host(name: str) -> bool:
    """Take a host out of service: its history stays, its tokens open nothing; False when it is retired already."""
    return Host.objects.active().filter(name=name).update(retired_at=timezone.now()) == 1


def restore_host(name: str) -> bool:
    """Bring a retired host back, with the tokens that it had; False when it is in service."""
    return Host.objects.filter(name=name, retired_at__isnull=False).update(retired_at=None) == 1


def set_pool(name: str, pool: str) -> bool:
    """Put a host into a pool ("" for none): from now on its results belong to the pool's series."""
    return Host.objects.filter(name=name).update(pool=pool) == 1


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """A profile that a host runs by itself. every_s, splay_s: seconds; directory: where, as the host names it."""

    profile: str
    every_s: int
    splay_s: int
    directory: str


def note_schedule(host_id: int, entries: Sequence[ScheduleEntry], *, reported_by: str) -> bool:
    """Keep a host's schedule, which may be empty, in place of the last; return whether it is another.

    The same schedule told again leaves since when it holds: else who reports at every run could never be silent.
    """
    rows = [asdict(entry) for entry in sorted(entries, key=lambda entry: (entry.profile, entry.directory))]
    changed = (
        Host.objects.filter(pk=host_id)
        .exclude(schedule=rows)
        .update(schedule=rows, schedule_since_at=timezone.now(), schedule_reported_by=reported_by[:100])
    )
    return changed == 1
