"""Studies: saved, shareable charts with text."""

from django.contrib.postgres.functions import RandomUUID
from django.db import models

from benchapp.models.account import User


class PanelKind(models.TextChoices):
    """The chart page of a panel."""

    SCALING = "scaling", "Scaling"
    MATRIX = "matrix", "Matrix"
    HISTORY = "history", "History"
    COMPARE = "compare", "Comparison"


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
