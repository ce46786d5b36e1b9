"""Charts that users pin to their overview."""

from django.db import models

from benchapp.models.account import User
from benchapp.models.study import PanelKind, StudyPanel


class PinnedChart(models.Model):
    """One chart on the overview of its owner.

    query: query string of its page. title: "" for the automatic title. position: ascending on the page; gaps are
    possible.
    """

    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="pinned_charts", db_index=False)
    position = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=7, choices=PanelKind)
    query = models.CharField(max_length=4_000, blank=True, default="")
    title = models.CharField(max_length=200, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(kind__in=PanelKind.values), name="pinned_chart_kind_is_known"
            ),
        )
        indexes = (
            # list_pinned_charts: of one owner in their order.
            models.Index(fields=["owner", "position", "id"], name="pinned_chart_by_owner"),
        )

    def __str__(self) -> str:
        return f"pinned chart {self.pk} ({self.kind})"

    @property
    def panel(self) -> StudyPanel:
        """Return its chart page."""
        return StudyPanel(self.kind, self.query, self.title)

    @property
    def name(self) -> str:
        """Return what it is called before it is drawn: its title, else its kind."""
        return self.title or self.get_kind_display()
