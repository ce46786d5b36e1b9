"""Studies: saved, shareable charts with text; snapshots of their numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.contrib.postgres.functions import RandomUUID
from django.db import models

from benchapp.models.account import User, name_person
from benchapp.models.list_entry import Resource


class PanelKind(models.TextChoices):
    """The chart page of a panel."""

    SCALING = "scaling", "Scaling"
    MATRIX = "matrix", "Matrix"
    HISTORY = "history", "History"
    COMPARE = "compare", "Comparison"
    LAYOUTS = "layouts", "Ranking of layouts"


@dataclass(frozen=True, slots=True)
class StudyPanel:
    """One chart of a study. query: query string of its page; title: "" for the automatic title; text: Markdown."""

    kind: str
    query: str
    title: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class FrozenPanel:
    """One chart of a snapshot, as of `StudySnapshot`. images: PNG by theme, of one that is to be stored.

    place: in the snapshot, from 1; 0 for one that is to be stored.
    """

    kind: str
    query: str
    title: str
    content: str
    width: int
    height: int
    place: int = 0
    images: Mapping[str, bytes] = field(default_factory=dict)


class Study(Resource):
    """Charts with title and text.

    text: Markdown, sanitized when it is rendered. owner: null for a sample. panels: [{kind: PanelKind, query, title,
    text}]. share_token: the link with it gives read access to this study only; null if not shared. uid: identity in
    archives.
    """

    given = ("title", "text", "panels")
    # Counted by queries, which need not read the panels.
    panel_count: int

    uid = models.UUIDField(db_default=RandomUUID(), unique=True, editable=False)
    title = models.CharField(max_length=200)
    text = models.TextField(blank=True, default="", max_length=20_000)
    owner = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="studies")
    panels = models.JSONField(default=list)
    share_token = models.CharField(max_length=43, null=True, blank=True, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "studies"

    def __str__(self) -> str:
        return self.title

    @property
    def charts(self) -> tuple[StudyPanel, ...]:
        """Return the panels."""
        return tuple(StudyPanel(**panel) for panel in self.panels)

    @property
    def owner_name(self) -> str:
        """Return the name of the owner; "" for a sample."""
        return name_person(self.owner)

    @property
    def is_shared(self) -> bool:
        """Return whether it has a shared link."""
        return self.share_token is not None

    @property
    def version(self) -> str:
        """Return what changes with each change, to detect concurrent ones."""
        return self.updated_at.isoformat()

    @property
    def taken_snapshot(self) -> "StudySnapshot | None":
        """Return its snapshot; None for current data."""
        return getattr(self, "snapshot", None)

    @property
    def snapshot_at(self) -> datetime | None:
        """Return when its numbers were frozen; None for current data."""
        snapshot = self.taken_snapshot
        return snapshot.taken_at if snapshot else None

    @property
    def frozen_charts(self) -> list[FrozenPanel | None]:
        """Return for each panel its chart in the snapshot; None for one that was added or changed since."""
        snapshot = self.taken_snapshot
        first = {(chart.kind, chart.query): chart for chart in reversed(snapshot.charts if snapshot else ())}
        return [first.get((panel.kind, panel.query)) for panel in self.charts]


class StudySnapshot(models.Model):
    """The charts of a study with the numbers of one time. A study has at most one.

    panels: [{kind, query, title, content, width, height}] in the order of the study: kind and query are those of its
    panel; title: the automatic one of that time; content: HTML of summary and data table, sanitized when it is shown;
    width, height: of the image, in CSS pixels.
    """

    study = models.OneToOneField(Study, on_delete=models.CASCADE, primary_key=True, related_name="snapshot")
    taken_at = models.DateTimeField(help_text="server's clock")
    taken_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    panels = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"snapshot of study {self.study_id}"

    @property
    def charts(self) -> tuple[FrozenPanel, ...]:
        """Return the panels with their places."""
        return tuple(FrozenPanel(place=place, **panel) for place, panel in enumerate(self.panels, start=1))

    @property
    def taken_by_name(self) -> str:
        """Return who took it; "" if that is not known."""
        return name_person(self.taken_by)


class StudySnapshotImage(models.Model):
    """The chart of one panel of a snapshot in one theme, as PNG. place: in the snapshot, from 1."""

    snapshot = models.ForeignKey(
        StudySnapshot, on_delete=models.CASCADE, related_name="images", db_index=False
    )
    place = models.PositiveSmallIntegerField()
    theme = models.CharField(max_length=5)
    content = models.BinaryField()

    class Meta:
        constraints = (
            # Also serves read_snapshot_image.
            models.UniqueConstraint(
                fields=["snapshot", "place", "theme"], name="study_snapshot_image_is_unique"
            ),
        )

    def __str__(self) -> str:
        return f"chart {self.place} of the snapshot of study {self.snapshot_id} ({self.theme})"


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
