"""Replace the summaries of series by levels: the runs between two changes."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

# A first value until detection has calculated the levels: all series are marked for it.
_COPY = """
INSERT INTO benchapp_level (series_id, metric, from_at, to_at, first_run_id, n, median, p10, p90, minimum, maximum, last,
 is_recovery, is_current, recent)
SELECT summary.series_id, summary.metric, summary.first_at, summary.last_at, first.run_id, summary.n, summary.median,
 summary.p10, summary.p90, summary.minimum, summary.maximum, summary.last, FALSE, TRUE, summary.recent
FROM benchapp_seriessummary summary CROSS JOIN LATERAL (
 SELECT run_id FROM benchapp_measurement WHERE series_id = summary.series_id AND started_at = summary.first_at
 ORDER BY id LIMIT 1) AS first
"""
_MARK = "UPDATE benchapp_series SET judging_is_due = TRUE WHERE last_at IS NOT NULL AND NOT judging_is_due"
_MARK_SUMMARIES = "UPDATE benchapp_series SET summary_is_due = TRUE WHERE last_at IS NOT NULL"


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0015_detection_results")]

    operations = [
        migrations.CreateModel(
            name="Level",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("metric", models.CharField(max_length=30)),
                ("from_at", models.DateTimeField()),
                ("to_at", models.DateTimeField()),
                ("first_run_id", models.BigIntegerField()),
                ("n", models.PositiveIntegerField()),
                ("median", models.FloatField()),
                ("p10", models.FloatField()),
                ("p90", models.FloatField()),
                ("minimum", models.FloatField()),
                ("maximum", models.FloatField()),
                ("last", models.FloatField()),
                ("previous_median", models.FloatField(blank=True, null=True)),
                ("previous_until_at", models.DateTimeField(blank=True, null=True)),
                ("is_recovery", models.BooleanField(default=False)),
                ("is_current", models.BooleanField()),
                (
                    "recent",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.FloatField(), blank=True, default=list, size=None
                    ),
                ),
                (
                    "change",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="benchapp.change",
                    ),
                ),
                (
                    "series",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="levels",
                        to="benchapp.series",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("series", "metric", "from_at"), name="level_is_unique"),
                    models.UniqueConstraint(
                        condition=models.Q(("is_current", True)),
                        fields=("metric", "series"),
                        name="current_level_is_unique",
                    ),
                ],
            },
        ),
        migrations.RunSQL(_COPY, migrations.RunSQL.noop),
        migrations.RunSQL(_MARK, _MARK_SUMMARIES),
        migrations.DeleteModel(name="SeriesSummary"),
        migrations.RemoveIndex(model_name="series", name="series_due"),
        migrations.RemoveField(model_name="series", name="summary_is_due"),
        migrations.AlterField(
            model_name="series",
            name="judging_is_due",
            field=models.BooleanField(default=False, help_text="measurements changed since detection"),
        ),
    ]
