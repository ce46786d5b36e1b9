"""Names of the glossary: detection results with a status, common factors, unique constraints, notification settings."""

from collections.abc import Callable
from typing import Any

from django.db import migrations, models

_STATUSES = ["learning", "steady", "noisy", "stale"]
_CHUNK = 500


def _rename_constraint(
    model: str, table: str, old: str, constraint: models.UniqueConstraint, *, kind: str = "CONSTRAINT"
) -> migrations.SeparateDatabaseAndState:
    """Rename in the catalog: the rows are not checked again, and stay unique meanwhile."""
    rename = "ALTER TABLE {table} RENAME CONSTRAINT {old} TO {new}"
    if kind == "INDEX":
        rename = "ALTER INDEX {old} RENAME TO {new}"
    new = constraint.name
    return migrations.SeparateDatabaseAndState(
        database_operations=[
            migrations.RunSQL(
                rename.format(table=table, old=old, new=new), rename.format(table=table, old=new, new=old)
            )
        ],
        state_operations=[
            migrations.RemoveConstraint(model, old),
            migrations.AddConstraint(model, constraint),
        ],
    )


def _rewrite_bodies(apps: Any, condition: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
    notices = apps.get_model("benchapp", "Notice").objects
    for notice in notices.filter(**condition).only("pk", "body").order_by("pk").iterator(chunk_size=_CHUNK):
        change(notice.body)
        notices.filter(pk=notice.pk).update(body=notice.body)


def _rename_keys(apps: Any, group: tuple[str, str], factors: tuple[str, str]) -> None:
    def rename_group(body: dict[str, Any]) -> None:
        body[group[1]] = body.pop(group[0])

    def rename_factors(body: dict[str, Any]) -> None:
        incident = body["facts"]["incident"]
        incident[factors[1]] = incident.pop(factors[0])

    _rewrite_bodies(apps, {"body__has_key": group[0]}, rename_group)
    _rewrite_bodies(apps, {"body__facts__incident__has_key": factors[0]}, rename_factors)


def rename_keys(apps: Any, schema_editor: Any) -> None:
    """Rename keys in the stored bodies of notices."""
    _rename_keys(apps, ("told_in", "reported_in"), ("explained_by", "common_factors"))


def restore_keys(apps: Any, schema_editor: Any) -> None:
    """Undo rename_keys."""
    _rename_keys(apps, ("reported_in", "told_in"), ("common_factors", "explained_by"))


class Migration(migrations.Migration):
    """Changes the catalog only, except the check of a status (one scan) and two keys in the bodies of notices."""

    dependencies = [("benchapp", "0014_stored_names_are_renamed")]

    operations = [
        migrations.RemoveConstraint("judgement", "judgement_standing_is_known"),
        migrations.RenameModel("Judgement", "DetectionResult"),
        migrations.RenameField("detectionresult", "standing", "status"),
        migrations.RenameField("detectionresult", "least_change", "smallest_detectable_change"),
        migrations.AddConstraint(
            "detectionresult",
            models.CheckConstraint(
                condition=models.Q(("status__in", _STATUSES)), name="detection_result_status_is_known"
            ),
        ),
        _rename_constraint(
            "detectionresult",
            "benchapp_detectionresult",
            "judgement_is_kept_once",
            models.UniqueConstraint(fields=("series", "metric"), name="detection_result_is_unique"),
        ),
        _rename_constraint(
            "change",
            "benchapp_change",
            "change_is_kept_once",
            models.UniqueConstraint(
                condition=models.Q(("state", "withdrawn"), _negated=True),
                fields=("series", "metric", "started_at"),
                name="change_is_unique",
            ),
            kind="INDEX",
        ),
        _rename_constraint(
            "notice",
            "benchapp_notice",
            "notice_is_told_once",
            models.UniqueConstraint(fields=("subscription", "key"), name="notice_is_unique"),
        ),
        _rename_constraint(
            "seriessummary",
            "benchapp_seriessummary",
            "series_summary_is_kept_once",
            models.UniqueConstraint(fields=("metric", "series"), name="series_summary_is_unique"),
        ),
        migrations.RenameField("incident", "explained_by", "common_factors"),
        migrations.RenameField("subscription", "least_severity", "minimum_severity"),
        migrations.RenameField("subscription", "wants_silence", "notify_silent_hosts"),
        migrations.RunPython(rename_keys, restore_keys),
        # Related names, labels and help texts: no change of the database.
        migrations.AlterField(
            model_name="change",
            name="state",
            field=models.CharField(
                choices=[
                    ("suspected", "Suspected: one or two runs"),
                    ("provisional", "Provisional: three runs or more"),
                    ("confirmed", "Confirmed: still detected five runs later"),
                    ("withdrawn", "Withdrawn: not confirmed by later runs"),
                ],
                max_length=11,
            ),
        ),
        migrations.AlterField(
            model_name="detectionresult",
            name="series",
            field=models.ForeignKey(
                db_index=False,
                on_delete=models.CASCADE,
                related_name="detection_results",
                to="benchapp.series",
            ),
        ),
        migrations.AlterField(
            model_name="detectionresult",
            name="status",
            field=models.CharField(
                choices=[
                    ("learning", "Learning: too few runs"),
                    ("steady", "Steady"),
                    ("noisy", "Too noisy"),
                    ("stale", "Stale: no recent runs"),
                ],
                max_length=8,
            ),
        ),
        migrations.AlterField(
            model_name="invitation",
            name="role",
            field=models.CharField(
                choices=[
                    ("viewer", "Viewer: reads everything"),
                    ("editor", "Editor: uploads, retries, triages"),
                    ("admin", "Admin: hosts, tokens, users"),
                ],
                max_length=8,
            ),
        ),
        migrations.AlterField(
            model_name="measurement",
            name="is_excluded",
            field=models.BooleanField(default=False, help_text="whether the run has excluded_at"),
        ),
        migrations.AlterField(
            model_name="notice",
            name="state",
            field=models.CharField(
                choices=[
                    ("waiting", "Waiting"),
                    ("sent", "Sent"),
                    ("failed", "Failed"),
                    ("dropped", "Not sent"),
                ],
                default="waiting",
                max_length=7,
            ),
        ),
        migrations.AlterField(
            model_name="run",
            name="excluded_at",
            field=models.DateTimeField(
                blank=True, help_text="excluded from medians; server's clock", null=True
            ),
        ),
        migrations.AlterField(
            model_name="series",
            name="judging_is_due",
            field=models.BooleanField(default=False, help_text="measurements changed since detection"),
        ),
        migrations.AlterField(
            model_name="series",
            name="summary_is_due",
            field=models.BooleanField(
                default=False, help_text="measurements changed since it was summarized"
            ),
        ),
        migrations.AlterField(
            model_name="submission",
            name="kind",
            field=models.CharField(
                choices=[
                    ("envelope", "Envelope of the agent"),
                    ("fio", "fio output"),
                    ("reported", "Published numbers"),
                ],
                max_length=8,
            ),
        ),
        migrations.AlterField(
            model_name="submission",
            name="scope",
            field=models.CharField(
                blank=True,
                default="",
                help_text="scope of its series: the host's pool or name at that time",
                max_length=260,
            ),
        ),
        migrations.AlterField(
            model_name="subscription",
            name="notify_silent_hosts",
            field=models.BooleanField(default=True, help_text="also when hosts become silent"),
        ),
        migrations.AlterField(
            model_name="trace",
            name="entries",
            field=models.PositiveBigIntegerField(help_text="log lines that it was calculated from"),
        ),
        migrations.AlterField(
            model_name="user",
            name="role",
            field=models.CharField(
                choices=[
                    ("viewer", "Viewer: reads everything"),
                    ("editor", "Editor: uploads, retries, triages"),
                    ("admin", "Admin: hosts, tokens, users"),
                ],
                default="viewer",
                max_length=8,
            ),
        ),
    ]
