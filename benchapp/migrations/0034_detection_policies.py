"""Detection policies, their activity log, and dry runs; the threshold of each evaluated metric."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0033_run_facts"),
    ]

    operations = [
        migrations.AddField(
            model_name="detectionresult",
            name="smallest_change",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.CreateModel(
            name="DetectionPolicy",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("metric", models.CharField(max_length=30)),
                ("smallest_change", models.FloatField()),
                ("filter", models.CharField(blank=True, default="", max_length=2000)),
                ("label", models.CharField(blank=True, default="", max_length=300)),
                ("reason", models.CharField(max_length=500)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("canceled_at", models.DateTimeField(blank=True, null=True)),
                (
                    "canceled_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "detection policies",
            },
        ),
        migrations.CreateModel(
            name="DetectionPolicyLogEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(help_text="server's clock")),
                ("via", models.CharField(blank=True, default="", max_length=40)),
                (
                    "action",
                    models.CharField(
                        choices=[("created", "created"), ("canceled", "canceled"), ("restored", "restored")],
                        max_length=10,
                    ),
                ),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="log_entries",
                        to="benchapp.detectionpolicy",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DetectionDryRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("filter", models.CharField(blank=True, default="", max_length=2000)),
                ("label", models.CharField(blank=True, default="", max_length=300)),
                ("metric", models.CharField(max_length=30)),
                ("smallest_change", models.FloatField()),
                ("from_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[("running", "running"), ("done", "done"), ("failed", "failed")],
                        default="running",
                        max_length=7,
                    ),
                ),
                (
                    "series_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), default=list, size=None
                    ),
                ),
                ("series_count", models.PositiveIntegerField(default=0)),
                ("done_count", models.PositiveIntegerField(default=0)),
                ("found", models.JSONField(default=dict)),
                ("result", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["running", "done", "failed"])),
                        name="detection_dry_run_state_is_known",
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="detectionpolicy",
            constraint=models.CheckConstraint(
                condition=models.Q(("smallest_change__gte", 0.01), ("smallest_change__lte", 10.0)),
                name="detection_policy_threshold_is_in_range",
            ),
        ),
        migrations.AddIndex(
            model_name="detectionpolicylogentry",
            index=models.Index(fields=["policy", "at", "id"], name="detection_policy_log_by_time"),
        ),
        migrations.AddConstraint(
            model_name="detectionpolicylogentry",
            constraint=models.CheckConstraint(
                condition=models.Q(("action__in", ["created", "canceled", "restored"])),
                name="detection_policy_action_is_known",
            ),
        ),
    ]
