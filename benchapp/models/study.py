"""A saved, shareable view: filter + axes + metric + words."""

from django.db import models

from benchapp.models.account import User


class PanelKind(models.TextChoices):
    """Which page a panel of a study shows."""

    SCALING = "scaling", "Scaling"
    MATRIX = "matrix", "Matrix"
    HISTORY = "history", "History"
    COMPARE = "compare", "Comparison"


class Study(models.Model):
    """One or more pictures with a title and words.

    words: Markdown, made safe where it is shown. owner: null for what came with benchapp.
    panels: [{kind: PanelKind, query: the page's address behind "?", title, words}].
    share_token: whoever has the link may read this study, and nothing else; null while it is not shared.
    """

    title = models.CharField(max_length=200)
    words = models.TextField(blank=True, default="", max_length=20_000)
    owner = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="studies")
    panels = models.JSONField(default=list)
    share_token = models.CharField(max_length=43, null=True, blank=True, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "studies"

    def __str__(self) -> str:
        return self.title
