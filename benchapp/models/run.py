"""One benchmark execution on one host against one target at one time."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models.functions import Upper

from benchapp.models.account import User
from benchapp.models.environment import Environment
from benchapp.models.host import Host
from benchapp.models.submission import Submission
from benchapp.models.target import Target


class Run(models.Model):
    """One execution of fio.

    document: its index in the submission's output. error: fio's first errno, or -1 if the run failed without one
    (pipeline.normalize.failure; command["failure"] has the reason); 0 on success. Its measurements have an error, too.
    started_at: the host's clock; without one, the time of receipt (started_at_is_known false).
    warnings: [{code, where, message}] of the parser. badges: codes of analysis.validity, of all its measurements.
    """

    submission = models.ForeignKey(Submission, on_delete=models.CASCADE, related_name="runs")
    document = models.PositiveSmallIntegerField()
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="runs", db_index=False)
    target = models.ForeignKey(Target, on_delete=models.PROTECT, related_name="runs")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="runs")
    profile = models.CharField(max_length=100, blank=True, default="")
    sweep_id = models.UUIDField(null=True, blank=True)
    labels = models.JSONField(default=dict)
    started_at = models.DateTimeField()
    started_at_is_known = models.BooleanField(default=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    format = models.CharField(max_length=10)
    fio_version = models.CharField(max_length=100, blank=True, default="")
    command = models.JSONField(default=dict, help_text="argv, exit status, signal, standard error, job file")
    error = models.IntegerField(default=0)
    is_partial = models.BooleanField(default=False)
    warnings = models.JSONField(default=list)
    badges = ArrayField(models.CharField(max_length=30), default=list, blank=True)
    parser_version = models.PositiveSmallIntegerField()
    excluded_at = models.DateTimeField(
        null=True, blank=True, help_text="excluded from medians; server's clock"
    )
    excluded_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    excluded_reason = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        constraints = (models.UniqueConstraint(fields=["submission", "document"], name="run_is_stored_once"),)
        indexes = (
            # queries.runs.runs.list_runs: newest first.
            models.Index(fields=["-started_at", "-id"], name="run_by_time"),
            # queries.runs.runs.list_runs of one host; queries.hosts: last run of each.
            models.Index(fields=["host", "-started_at", "-id"], name="run_by_host"),
            # queries.runs.runs.list_runs of one profile.
            models.Index(
                Upper("profile"),
                models.F("started_at").desc(),
                models.F("id").desc(),
                name="run_by_folded_profile",
            ),
            # queries.runs.runs.list_runs with a badge.
            GinIndex(fields=["badges"], name="run_by_badge"),
            # models.filtering.match_facts: runs with a label.
            GinIndex(
                OpClass(
                    models.Func("labels", template="(lower(%(expressions)s::text)::jsonb)"),
                    name="jsonb_path_ops",
                ),
                name="run_by_folded_label",
            ),
            # models.filtering.match_facts: the runs of a sweep; small, as most runs belong to none.
            models.Index(
                fields=["sweep_id"], name="run_by_sweep", condition=models.Q(sweep_id__isnull=False)
            ),
        )

    def __str__(self) -> str:
        return f"run {self.pk}"

    @property
    def has_failed(self) -> bool:
        """Return whether the run failed, regardless of its numbers."""
        return self.error != 0
