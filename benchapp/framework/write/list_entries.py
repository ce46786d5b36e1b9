"""Create, cancel and restore the entries of a list, with their limit, log, audit record and effect."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Final, Generic, TypeVar

import structlog
from django.db import transaction
from django.utils import timezone

from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import BadValue, retry_conflicts
from benchapp.models import AuditKind, User
from benchapp.models.filtering import read_filter_to_store
from benchapp.models.list_entry import ListEntry

log = structlog.get_logger(__name__)

_REASON_MAXIMUM: Final = 500

Entry = TypeVar("Entry", bound=ListEntry)


class UnknownEntry(Exception):
    """An entry that does not exist."""


class NotInThisState(Exception):
    """An action that the state of an entry does not allow; the message gives the alternative."""


class EntryList(Generic[Entry]):
    """The entries of a model. noun: of one, in errors; creation: the action that its log begins with."""

    model: type[Entry]
    kind: ClassVar[AuditKind]
    noun: ClassVar[str]
    creation: ClassVar[str] = "created"

    def check(self, entry: Entry) -> None:
        """Write the given values of a new entry in their canonical form. Raises BadValue."""
        raise NotImplementedError

    def refuse_more(self, entry: Entry) -> None:
        """Raise BadValue if there are too many entries for one more."""
        raise NotImplementedError

    def apply(self, entry: Entry) -> None:
        """Have detection evaluate what the entry applies to, after each action."""
        raise NotImplementedError

    @retry_conflicts
    def create(self, entry: Entry, *, by: User | None, via: str = "") -> Entry:
        """Save a new entry for present and future series that match.

        by: the owner; via: the API token, for the activity log. Raises BadValue.
        """
        self.check(entry)
        entry.created_by = by
        with transaction.atomic():
            self.refuse_more(entry)
            entry.save(force_insert=True)
            self._record(entry, self.creation, entry.created_at, by=by, via=via)
        return entry

    def cancel(self, entry_id: int, *, by: User | None, via: str = "") -> Entry:
        """Cancel an entry and return it; canceling it again changes nothing. Raises UnknownEntry."""

        def find_changes(entry: Entry, now: datetime) -> Mapping[str, Any]:
            return {} if entry.canceled_at else {"canceled_at": now, "canceled_by": by}

        return self.change(entry_id, "canceled", find_changes, by=by, via=via)

    def restore(self, entry_id: int, *, by: User | None, via: str = "") -> Entry:
        """Restore a canceled entry and return it; restoring it again changes nothing.

        Raises UnknownEntry, or BadValue if there are too many.
        """

        def find_changes(entry: Entry, now: datetime) -> Mapping[str, Any]:
            if entry.canceled_at is None:
                return {}
            self.refuse_more(entry)
            return {"canceled_at": None, "canceled_by": None}

        return self.change(entry_id, "restored", find_changes, by=by, via=via)

    @retry_conflicts
    def change(
        self,
        entry_id: int,
        action: str,
        find_changes: Callable[[Entry, datetime], Mapping[str, Any]],
        *,
        by: User | None,
        via: str,
    ) -> Entry:
        """Change an entry and return it. find_changes: from the locked entry and the time; {} changes nothing."""
        with transaction.atomic():
            rows = self.model._default_manager.select_for_update(no_key=True)
            entry, now = rows.filter(pk=entry_id).first(), timezone.now()
            if entry is None:
                raise UnknownEntry(f"{self.noun} {entry_id} does not exist")
            if changes := find_changes(entry, now):
                before = snapshot(entry, *entry.list_audited())
                for name, value in changes.items():
                    setattr(entry, name, value)
                entry.save(update_fields=list(changes))
                self._record(entry, action, now, by=by, via=via, before=before)
        return entry

    def _record(
        self,
        entry: Entry,
        action: str,
        at: datetime,
        *,
        by: User | None,
        via: str,
        before: Mapping[str, Any] | None = None,
    ) -> None:
        entry.log_entries.create(at=at, by=by, via=via, action=action)
        record_write(
            self.kind,
            action,
            object_id=entry.pk,
            name=entry.reason,
            before=before,
            after=snapshot(entry, *entry.list_audited()),
            by=by,
        )
        self.apply(entry)
        log.info(
            f"{self.kind.value}.action", id=entry.pk, action=action, by=by.username if by else "", via=via
        )


def read_entry_reason(reason: str) -> str:
    """Return the reason of an entry in one line. Raises BadValue."""
    text = " ".join(reason.replace("\x00", "\ufffd").split())
    if not text:
        raise BadValue("reason", "a reason is required")
    if len(text) > _REASON_MAXIMUM:
        raise BadValue("reason", f"at most {_REASON_MAXIMUM} characters; this has {len(text)}")
    return text


def read_series_filter(text: str) -> str:
    """Return a filter of series in its canonical form. Raises BadValue."""
    try:
        written = read_filter_to_store(text)
        terms = parse_filter(written).fact_terms
    except BadFilter as error:
        raise BadValue("filter", str(error)) from error
    if terms:
        # The runs of a series differ in them: what applies to it would change with the next upgrade.
        raise BadValue(
            "filter", f"{terms[0].dimension} is a fact of runs; name hosts, pools, layouts or workloads"
        )
    return written
