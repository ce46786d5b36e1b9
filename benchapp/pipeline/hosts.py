"""Enroll, retire and change hosts; store their schedules."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import structlog
from django.db import transaction
from django.utils import timezone

from benchapp.models import ApiToken, Host, Scope, User
from benchapp.pipeline.access.tokens import issue_token

log = structlog.get_logger(__name__)

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
# Path segments with another meaning: /api/v1/hosts/me is the requesting host.
RESERVED_NAMES: Final = frozenset({"me"})


class EnrollmentRefused(Exception):
    """A host that cannot be enrolled; `code` is stable, the message gives the solution."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def issue_host_token(name: str, *, label: str = "", created_by: User | None = None) -> str:
    """Return the plain text of a new token; creates the host if needed."""
    with transaction.atomic():
        host, _ = Host.objects.get_or_create(name=check_host_name(name))
        _, plaintext = issue_token(scope=Scope.INGEST, host=host, label=label, created_by=created_by)
    return plaintext


def enroll_host(name: str, *, enrollment: ApiToken, agent_version: str = "") -> tuple[Host, str]:
    """Create a host and its token; a host with a valid token is rejected.

    A host that lost its token can enroll again after an admin revoked the old one. Otherwise an enrollment token would
    allow posting as any host.
    """
    now = timezone.now()
    with transaction.atomic():
        host, is_new = Host.objects.select_for_update().get_or_create(name=check_host_name(name))
        if not is_new and host.tokens.valid_at(now).exists():
            raise EnrollmentRefused(
                "host-exists",
                f"host {name} is enrolled with a valid token: revoke it on the page Hosts first, or use another name",
            )
        Host.objects.filter(pk=host.pk).update(
            retired_at=None, agent_version=agent_version[:50], last_seen_at=now
        )
        _, plaintext = issue_token(
            scope=Scope.INGEST, host=host, label="enrolled", created_by=enrollment.created_by
        )
    return host, plaintext


def check_host_name(name: str) -> str:
    """Return the name in lower case. Raises EnrollmentRefused if it is invalid or reserved."""
    if not _NAME.fullmatch(name):
        raise EnrollmentRefused(
            "host-name-invalid",
            f"{name[:80]!r} is not a valid host name: use at most 253 letters, digits, dots, hyphens and underscores",
        )
    # Hosts with such a name from before it was reserved keep it.
    if name.lower() in RESERVED_NAMES and not Host.objects.filter(name=name.lower()).exists():
        raise EnrollmentRefused(
            "host-name-invalid",
            f"{name!r} is reserved: /api/v1/hosts/{name.lower()} is the requesting host; choose another name",
        )
    return name.lower()


def retire_host(name: str, *, by: User | None = None, via: str = "") -> bool:
    """Retire a host: its history is kept, its tokens are rejected; False if it is already retired."""
    changed = Host.objects.active().filter(name=name).update(retired_at=timezone.now()) == 1
    return _log_change("host.retired", name, changed, by=by, via=via)


def restore_host(name: str, *, by: User | None = None, via: str = "") -> bool:
    """Reactivate a retired host with its tokens; False if it is active."""
    changed = Host.objects.filter(name=name, retired_at__isnull=False).update(retired_at=None) == 1
    return _log_change("host.restored", name, changed, by=by, via=via)


def set_pool(name: str, pool: str, *, by: User | None = None, via: str = "") -> bool:
    """Set the pool of a host ("" for none); later results belong to the pool's series."""
    changed = Host.objects.filter(name=name).update(pool=pool) == 1
    return _log_change("host.pool_set", name, changed, by=by, via=via, pool=pool)


def _log_change(event: str, name: str, is_changed: bool, *, by: User | None, via: str, **more: str) -> bool:
    """Log a change that was made, and return whether it was; via: the token that asked."""
    if is_changed:
        log.info(event, host=name, by=by.username if by else "", via=via, **more)
    return is_changed


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """A scheduled profile of a host. splay_s: maximum random delay; directory: path on the host."""

    profile: str
    every_s: int
    splay_s: int
    directory: str


def note_schedule(host_id: int, entries: Sequence[ScheduleEntry], *, reported_by: str) -> bool:
    """Replace a host's schedule, which may be empty; return whether it changed.

    An unchanged schedule keeps its start time: otherwise a host that reports it at every run could never be silent.
    """
    rows = [asdict(entry) for entry in sorted(entries, key=lambda entry: (entry.profile, entry.directory))]
    changed = (
        Host.objects.filter(pk=host_id)
        .exclude(schedule=rows)
        .update(schedule=rows, schedule_since_at=timezone.now(), schedule_reported_by=reported_by[:100])
    )
    return changed == 1
