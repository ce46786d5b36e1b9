"""What resources have in common whose columns are declared once, and what entries of lists that are never edited."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, ClassVar, Final

from django.contrib.postgres.fields import ArrayField
from django.db import models

from benchapp.models.account import name_person

_LOG_MAXIMUM: Final = 200
_KINDS: Final[Mapping[type[Any], type]] = {
    ArrayField: list,
    models.BooleanField: bool,
    models.CharField: str,
    models.DateTimeField: datetime,
    models.DateField: date,
    models.FloatField: float,
    models.ForeignKey: int,
    models.IntegerField: int,
    models.JSONField: list,
    models.TextField: str,
}


def find_column_type(field: Any) -> type:
    """Return the type of the values of a column."""
    return next(kind for each, kind in _KINDS.items() if isinstance(field, each))


class Resource(models.Model):
    """A row that users create.

    given: the columns that its creator gives, in the order of API, form and configuration file; no other can be
    written.
    """

    given: ClassVar[Sequence[str]]

    class Meta:
        abstract = True

    @classmethod
    def list_fields(cls) -> list[Any]:
        """Return the fields of the given columns."""
        return [cls._meta.get_field(name) for name in cls.given]


class ListEntry(Resource):
    """A detection policy or a planned event: a user creates, cancels and restores it; its log names who did it.

    changed: the times that actions set, each with its person: `canceled_at` and `canceled_by`.
    """

    changed: ClassVar[Sequence[str]] = ("canceled_at",)

    reason: Any
    created_by: Any
    created_at: Any
    canceled_by: Any
    canceled_at: Any
    log_entries: Any

    class Meta:
        abstract = True

    @classmethod
    def list_audited(cls) -> list[str]:
        """Return the attributes that the audit record has."""
        return [*(field.attname for field in cls.list_fields()), *cls.changed]

    def list_activity(self) -> "models.QuerySet[ListLogEntry]":
        """Return its log, oldest first; newer entries than the first 200 are left out."""
        entries: models.QuerySet[ListLogEntry] = self.log_entries.select_related("by").order_by("at", "id")
        return entries[:_LOG_MAXIMUM]

    @property
    def created_by_name(self) -> str:
        """Return who created it; "" if that is not known."""
        return name_person(self.created_by)

    @property
    def canceled_by_name(self) -> str:
        """Return who canceled it; "" if that is not known."""
        return name_person(self.canceled_by)


class ListLogEntry(models.Model):
    """One action on an entry. by: None for a token without owner; via: the API token, "" for a person."""

    at: Any
    by: Any
    via: Any
    action: Any

    class Meta:
        abstract = True

    @property
    def by_name(self) -> str:
        """Return who did it; "" if that is not known."""
        return name_person(self.by)
