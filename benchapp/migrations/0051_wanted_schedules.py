"""Schedules are edited on the server, for pools and hosts."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0050_ranking_panels"),
    ]

    operations = [
        migrations.CreateModel(
            name="ScheduleAdoption",
            fields=[
                (
                    "host",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="schedule_adoption",
                        serialize=False,
                        to="benchapp.host",
                    ),
                ),
                ("is_allowed", models.BooleanField()),
                ("policy", models.JSONField()),
                ("version", models.CharField(blank=True, default="", max_length=64)),
                ("refused", models.JSONField(blank=True, default=list)),
                ("problem", models.CharField(blank=True, default="", max_length=1000)),
                ("reported_at", models.DateTimeField(help_text="server's clock")),
            ],
        ),
        migrations.CreateModel(
            name="WantedSchedule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("pool", models.CharField(blank=True, default="", max_length=100)),
                ("profile", models.CharField(max_length=100)),
                ("parameters", models.JSONField(blank=True, default=dict)),
                ("directory", models.CharField(blank=True, default="", max_length=4096)),
                ("every_s", models.PositiveIntegerField(blank=True, null=True)),
                ("at_minute", models.PositiveSmallIntegerField(default=0)),
                ("splay_s", models.PositiveIntegerField(default=0)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "host",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="wanted_schedules",
                        to="benchapp.host",
                    ),
                ),
                (
                    "updated_by",
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
                        condition=models.Q(("host__isnull", True), ("pool", ""), _connector="OR"),
                        name="wanted_schedule_is_of_a_pool_or_a_host",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("every_s__isnull", False), ("host__isnull", False), _connector="OR"
                        ),
                        name="wanted_schedule_of_a_pool_has_an_interval",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("at_minute__lt", 1440)),
                        name="wanted_schedule_starts_within_a_day",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("host__isnull", True)),
                        fields=("pool", "profile"),
                        name="wanted_schedule_of_a_pool_is_unique",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("host__isnull", False)),
                        fields=("host", "profile"),
                        name="wanted_schedule_of_a_host_is_unique",
                    ),
                ],
            },
        ),
    ]
