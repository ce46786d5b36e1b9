"""What is kept how long: retentions, and daily points of what they removed."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0080_merges_of_hosts_are_undone"),
    ]

    operations = [
        migrations.RemoveConstraint("correction", "correction_kind_is_known"),
        migrations.AddField("correction", "keep_days", models.PositiveIntegerField(blank=True, null=True)),
        migrations.AddField(
            "correction",
            "tier",
            models.CharField(
                blank=True,
                choices=[
                    ("output", "raw output"),
                    ("traces", "traces"),
                    ("histograms", "percentiles and histograms"),
                    ("points", "points"),
                    ("incidents", "incidents"),
                ],
                db_default="",
                default="",
                max_length=10,
            ),
        ),
        migrations.AlterField(
            "correction",
            "kind",
            models.CharField(
                choices=[
                    ("deletion", "deletion"),
                    ("relabeling", "relabeling"),
                    ("retention", "retention"),
                ],
                max_length=10,
            ),
        ),
        migrations.AddConstraint(
            "correction",
            models.CheckConstraint(
                condition=models.Q(("kind__in", ["deletion", "relabeling", "retention"])),
                name="correction_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            "correction",
            models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("keep_days__gt", 0),
                        ("kind", "retention"),
                        ("tier__in", ["output", "traces", "histograms", "points", "incidents"]),
                    ),
                    models.Q(
                        models.Q(("kind", "retention"), _negated=True), ("keep_days", None), ("tier", "")
                    ),
                    _connector="OR",
                ),
                name="retention_has_a_tier",
            ),
        ),
        migrations.CreateModel(
            "DailyPoint",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "series",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="benchapp.series",
                    ),
                ),
                ("day", models.DateField()),
                ("n", models.PositiveIntegerField()),
                ("values", models.JSONField()),
            ],
            options={
                "indexes": [models.Index(fields=["series", "day"], name="daily_point_by_series")],
            },
        ),
    ]
