"""The server requests runs of hosts that allow them."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0044_preferences"),
    ]

    operations = [
        migrations.CreateModel(
            name="RequestPolicy",
            fields=[
                (
                    "host",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="request_policy",
                        serialize=False,
                        to="benchapp.host",
                    ),
                ),
                ("policy", models.JSONField()),
                ("polled_at", models.DateTimeField(help_text="server's clock")),
                ("waits_for", models.CharField(blank=True, default="", max_length=20)),
                ("waits_until", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name_plural": "request policies",
            },
        ),
        migrations.CreateModel(
            name="RunRequest",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("profile", models.CharField(max_length=100)),
                ("parameters", models.JSONField(default=dict)),
                ("directory", models.CharField(max_length=4096)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                            ("declined", "Declined by the host"),
                            ("expired", "Expired"),
                            ("canceled", "Canceled"),
                        ],
                        default="pending",
                        max_length=8,
                    ),
                ),
                ("reason", models.CharField(blank=True, default="", max_length=1000)),
                ("via", models.CharField(blank=True, default="", max_length=60)),
                ("created_at", models.DateTimeField(help_text="server's clock")),
                ("expires_at", models.DateTimeField()),
                ("starts", models.PositiveSmallIntegerField(default=0)),
                ("started_at", models.DateTimeField(blank=True, help_text="server's clock", null=True)),
                ("duration_s", models.FloatField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
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
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "host",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="run_requests",
                        to="benchapp.host",
                    ),
                ),
                (
                    "incident",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="benchapp.incident",
                    ),
                ),
                (
                    "repeats",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="benchapp.run",
                    ),
                ),
                (
                    "series",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="benchapp.series",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["host", "-created_at", "-id"], name="run_request_by_host"),
                    models.Index(
                        condition=models.Q(("state__in", ("pending", "running"))),
                        fields=["host", "created_at"],
                        name="run_request_open",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                ["pending", "running", "done", "failed", "declined", "expired", "canceled"],
                            )
                        ),
                        name="run_request_state_is_known",
                    )
                ],
            },
        ),
    ]
