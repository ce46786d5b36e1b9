"""Chart pages that users saved under a name."""

from django.db import models

from benchapp.models.account import User, name_person
from benchapp.models.list_entry import Resource
from benchapp.models.study import PanelKind, StudyPanel


class SavedView(Resource):
    """A chart page with its controls. query: its query string. is_shared: listed for everybody who may read.

    removed_at: when its owner deleted it, who may restore it for a day; null while it is listed.
    """

    given = ("name", "kind", "query", "is_shared")

    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views", db_index=False)
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=7, choices=PanelKind)
    query = models.CharField(max_length=4_000, blank=True, default="")
    is_shared = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True, blank=True, help_text="server's clock")

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(kind__in=PanelKind.values), name="saved_view_kind_is_known"
            ),
            models.UniqueConstraint(
                fields=["owner", "name"],
                condition=models.Q(removed_at__isnull=True),
                name="saved_view_name_is_unique",
            ),
        )
        indexes = (
            # list_saved_views: those of everybody; few, as most views are private.
            models.Index(
                fields=["name"],
                condition=models.Q(is_shared=True, removed_at__isnull=True),
                name="saved_view_shared",
            ),
            # list_removed_views.
            models.Index(fields=["owner", "removed_at"], name="saved_view_by_owner"),
        )

    def __str__(self) -> str:
        return f"saved view {self.pk} ({self.kind}): {self.name}"

    @property
    def panel(self) -> StudyPanel:
        """Return its chart page."""
        return StudyPanel(self.kind, self.query)

    @property
    def owner_name(self) -> str:
        """Return the name of its owner."""
        return name_person(self.owner)
