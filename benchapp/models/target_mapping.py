"""Patterns of names and paths whose targets an editor named."""

from django.db import models

from benchapp.models.account import User, name_person
from benchapp.models.list_entry import Resource


class TargetMapping(Resource):
    """Targets of a host or pool that match a pattern have one name.

    scope: host:NAME or pool:NAME. pattern: a shell pattern, compared with the name and with the path that fio opens.
    removed_at: when it was removed; the row goes when history has been read again. null while it applies.
    """

    given = ("scope", "pattern", "target_name")

    scope = models.CharField(max_length=260)
    pattern = models.CharField(max_length=200)
    target_name = models.CharField(max_length=200)
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True, blank=True, help_text="server's clock")

    class Meta:
        constraints = (
            # Also serves storage.read.target_mappings: those of some hosts and pools.
            models.UniqueConstraint(
                fields=["scope", "pattern"],
                condition=models.Q(removed_at__isnull=True),
                name="target_mapping_is_unique",
            ),
        )

    def __str__(self) -> str:
        return f"{self.pattern} → {self.target_name}"

    @property
    def created_by_name(self) -> str:
        """Return who added it; "" if that is not known."""
        return name_person(self.created_by)

    @property
    def place(self) -> str:
        """Return the host or pool in words: "host db-1"."""
        return self.scope.replace(":", " ", 1)
