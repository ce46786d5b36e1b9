"""Summaries of series, studies, runs taken out of medians, histograms, and reported numbers."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """New tables and columns; each with a default, so that nothing is rewritten."""

    dependencies = [
        ("benchapp", "0006_older_readings_are_found_by_parser"),
    ]

    operations = [
        migrations.CreateModel(
            name="SeriesSummary",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("metric", models.CharField(max_length=30)),
                ("n", models.PositiveIntegerField()),
                ("median", models.FloatField()),
                ("p10", models.FloatField()),
                ("p90", models.FloatField()),
                ("minimum", models.FloatField()),
                ("maximum", models.FloatField()),
                ("last", models.FloatField()),
                ("recent_median", models.FloatField(blank=True, null=True)),
                ("baseline_median", models.FloatField(blank=True, null=True)),
                (
                    "recent",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.FloatField(), default=list, size=None
                    ),
                ),
                ("first_at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "series summaries",
            },
        ),
        migrations.CreateModel(
            name="Study",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("title", models.CharField(max_length=200)),
                ("words", models.TextField(blank=True, default="", max_length=20000)),
                ("panels", models.JSONField(default=list)),
                ("share_token", models.CharField(blank=True, max_length=43, null=True, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "verbose_name_plural": "studies",
            },
        ),
        migrations.RemoveConstraint(
            model_name="submission",
            name="submission_kind_is_known",
        ),
        migrations.AddField(
            model_name="measurement",
            name="is_excluded",
            field=models.BooleanField(default=False, help_text="as the run's excluded_at says"),
        ),
        migrations.AddField(
            model_name="measurement",
            name="latency_bins",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.BigIntegerField(),
                blank=True,
                help_text="first bucket, then operations per bucket",
                null=True,
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="excluded_at",
            field=models.DateTimeField(
                blank=True, help_text="taken out of medians; server's clock", null=True
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="excluded_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="excluded_reason",
            field=models.CharField(blank=True, default="", max_length=500),
        ),
        migrations.AddField(
            model_name="series",
            name="summary_is_due",
            field=models.BooleanField(
                default=False, help_text="measurements changed since it was summarised"
            ),
        ),
        migrations.AlterField(
            model_name="submission",
            name="kind",
            field=models.CharField(
                choices=[
                    ("envelope", "An agent's envelope"),
                    ("fio", "What fio printed"),
                    ("reported", "Numbers that someone published"),
                ],
                max_length=8,
            ),
        ),
        migrations.AddIndex(
            model_name="series",
            index=models.Index(
                condition=models.Q(("summary_is_due", True)), fields=["id"], name="series_due"
            ),
        ),
        migrations.AddConstraint(
            model_name="submission",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["envelope", "fio", "reported"])),
                name="submission_kind_is_known",
            ),
        ),
        migrations.AddField(
            model_name="seriessummary",
            name="series",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="summaries", to="benchapp.series"
            ),
        ),
        migrations.AddField(
            model_name="study",
            name="owner",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="studies",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            model_name="seriessummary",
            constraint=models.UniqueConstraint(
                fields=("metric", "series"), name="series_summary_is_kept_once"
            ),
        ),
    ]
