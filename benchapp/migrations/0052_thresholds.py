"""Subscriptions: metrics of incidents, thresholds, and the series that violate them."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0051_wanted_schedules"),
    ]

    operations = [
        migrations.AddField(
            model_name="subscription",
            name="metrics",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=30), blank=True, default=list, size=None
            ),
        ),
        migrations.AddField(
            model_name="subscription",
            name="thresholds",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=60), blank=True, default=list, size=None
            ),
        ),
        migrations.CreateModel(
            name="ThresholdViolation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("threshold", models.CharField(max_length=60)),
                ("since_at", models.DateTimeField()),
                ("found_at", models.DateTimeField(help_text="server's clock")),
                ("is_notified", models.BooleanField(default=False)),
                (
                    "series",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="benchapp.series"
                    ),
                ),
                (
                    "subscription",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="violations",
                        to="benchapp.subscription",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("subscription", "threshold", "series"), name="threshold_violation_is_unique"
                    )
                ],
            },
        ),
    ]
