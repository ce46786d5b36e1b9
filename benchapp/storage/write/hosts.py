"""Enroll, retire and change hosts; store their schedules."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

import orjson
import structlog
from django.db import transaction
from django.utils import timezone

from benchapp.accounts.write.tokens import issue_token
from benchapp.framework.write.audit import record_write
from benchapp.models import (
    RECENTLY_REPORTED,
    ApiToken,
    AuditKind,
    Host,
    InstalledSchedule,
    Scope,
    User,
    follow_name,
)

log = structlog.get_logger(__name__)

_NAME: Final = re.compile(r"\A[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
# A shell pattern of such names.
HOST_PATTERN: Final = re.compile(r"^[A-Za-z0-9._*?\[\]!-]+\Z")
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
        host, is_new = Host.objects.get_or_create(name=check_host_name(name))
        if is_new:
            record_write(AuditKind.HOST, "created", object_id=host.name, name=host.name, by=created_by)
        _, plaintext = issue_token(scope=Scope.INGEST, host=host, label=label, created_by=created_by)
    return plaintext


def enroll_host(name: str, *, enrollment: ApiToken, agent_version: str = "") -> tuple[Host, str]:
    """Create a host and its token; a host with a valid token is rejected.

    A host that lost its token can enroll again after an admin revoked the old one. Otherwise an enrollment token would
    allow posting as any host. A former name enrolls the host that had it.
    """
    now = timezone.now()
    with transaction.atomic():
        present = check_host_name(follow_name("host", name))
        if (pattern := enrollment.host_pattern) and not fnmatchcase(present, pattern):
            raise EnrollmentRefused(
                "host-name-not-allowed", f"host {present} does not match {pattern}, which this token enrolls"
            )
        host, is_new = Host.objects.select_for_update().get_or_create(name=present)
        if not is_new and host.tokens.valid_at(now).exists():
            raise EnrollmentRefused(
                "host-exists",
                f"host {host.name} is enrolled with a valid token: revoke it on the settings page of the host, "
                "or enroll with another name (bench-agent enroll --name NAME)",
            )
        action = "created" if is_new else "enrolled"
        record_write(AuditKind.HOST, action, object_id=host.name, name=host.name, by=enrollment.created_by)
        Host.objects.filter(pk=host.pk).update(
            retired_at=None, agent_version=agent_version[:50], last_seen_at=now
        )
        _, plaintext = issue_token(
            scope=Scope.INGEST, host=host, label="enrolled", created_by=enrollment.created_by
        )
    return host, plaintext


def check_host_name(name: str) -> str:
    """Return the name in lower case. Raises EnrollmentRefused if it is invalid or the former one of a host."""
    own = read_host_name(name)
    if (present := follow_name("host", own)) != own:
        raise EnrollmentRefused(
            "host-exists", f"{own} is a former name of host {present}: use that, or choose another name"
        )
    return own


def read_host_name(name: str) -> str:
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


@transaction.atomic
def retire_host(name: str, *, by: User | None = None, via: str = "") -> bool:
    """Retire a host: its history is kept, its tokens are rejected; False if it is already retired."""
    now = timezone.now()
    if Host.objects.active().filter(name=name).update(retired_at=now) != 1:
        return False
    note_change("retired", name, {"retired_at": None}, {"retired_at": now}, by=by, via=via)
    return True


@transaction.atomic
def restore_host(name: str, *, by: User | None = None, via: str = "") -> bool:
    """Reactivate a retired host with its tokens; False if it is active."""
    host = Host.objects.select_for_update(no_key=True).filter(name=name, retired_at__isnull=False).first()
    if host is None:
        return False
    Host.objects.filter(pk=host.pk).update(retired_at=None)
    note_change("restored", name, {"retired_at": host.retired_at}, {"retired_at": None}, by=by, via=via)
    return True


def note_change(
    action: str, name: str, before: dict[str, Any], after: dict[str, Any], *, by: User | None, via: str
) -> None:
    """Log a change of a host and record it; via: the token that asked."""
    log.info(f"host.{action}", host=name, by=by.username if by else "", via=via, after=str(after))
    record_write(AuditKind.HOST, action, object_id=name, name=name, before=before, after=after, by=by)


def note_schedule(host_id: int, entries: Sequence[InstalledSchedule], *, reported_by: str) -> bool:
    """Replace a host's schedule, which may be empty; return whether it changed.

    An unchanged schedule keeps its start time: otherwise a host that reports it at every run could never be silent.
    """
    rows = [
        {name: value for name, value in asdict(entry).items() if value is not None}
        for entry in sorted(entries, key=lambda entry: (entry.profile, entry.directory))
    ]
    with transaction.atomic():
        host = Host.objects.select_for_update(no_key=True).exclude(schedule=rows).filter(pk=host_id).first()
        if host is None:
            return False
        Host.objects.filter(pk=host_id).update(
            schedule=rows, schedule_since_at=timezone.now(), schedule_reported_by=reported_by[:100]
        )
        note_change(
            "schedule_replaced",
            host.name,
            {"schedule": host.schedule},
            {"schedule": rows},
            by=None,
            via=reported_by,
        )
    return True


SERIES_KEY_VERSION: Final = 1
# A fleet has few workloads, targets and parameters, each used thousands of times. Longer texts are not kept.
_KEPT_MAXIMUM: Final = 4096
_KEPT_BYTES_MAXIMUM: Final = 4096


def key_of(fields: Mapping[str, Any]) -> bytes:
    """Return the 32-byte key of a row of typed fields; equal fields, equal key, in any order.

    Names stay with their values, so that iodepth 8 × numjobs 1 never equals iodepth 1 × numjobs 8.
    """
    return hashlib.sha256(canonical_json(fields)).digest()


def environment_key(fields: Mapping[str, Any]) -> bytes:
    """Return the 32-byte key of an environment; unknown fields that were added later are not part of it."""
    return key_of(
        {name: value for name, value in fields.items() if value is not None or name not in RECENTLY_REPORTED}
    )


def series_key(*, scope: str, target_key: bytes, workload_key: bytes, direction: str) -> bytes:
    """Return the 32-byte key of a series: version, scope, target, workload and direction."""
    return key_of(
        {
            "version": SERIES_KEY_VERSION,
            "scope": scope,
            "target": target_key.hex(),
            "workload": workload_key.hex(),
            "direction": direction,
        }
    )


def canonical_json(value: Mapping[str, Any]) -> bytes:
    """Return JSON with sorted keys and no whitespace; whole floats are written as integers (8.0 is 8)."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return _make_canonical(text) if len(text) <= _KEPT_BYTES_MAXIMUM else _make_canonical.__wrapped__(text)


@lru_cache(maxsize=_KEPT_MAXIMUM)
def _make_canonical(text: bytes) -> bytes:
    return orjson.dumps(_plain(orjson.loads(text)), option=orjson.OPT_SORT_KEYS)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
