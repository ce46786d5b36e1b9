"""Studies: saved, shareable charts with text; snapshots of their numbers."""

from django.contrib.postgres.functions import RandomUUID
from django.db import models

from benchapp.models.account import User


class PanelKind(models.TextChoices):
    """The chart page of a panel."""

    SCALING = "scaling", "Scaling"
    MATRIX = "matrix", "Matrix"
    HISTORY = "history", "History"
    COMPARE = "compare", "Comparison"
    LAYOUTS = "layouts", "Ranking of layouts"


class Study(models.Model):
    """Charts with title and text.

    text: Markdown, sanitized when it is rendered. owner: null for a sample.
    panels: [{kind: PanelKind, query: query string of the page, title, text}].
    share_token: the link with it gives read access to this study only; null if not shared. uid: identity in archives.
    """

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
            # Also serves queries.studies.read_snapshot_image.
            models.UniqueConstraint(
                fields=["snapshot", "place", "theme"], name="study_snapshot_image_is_unique"
            ),
        )

    def __str__(self) -> str:
        return f"chart {self.place} of the snapshot of study {self.snapshot_id} ({self.theme})"
