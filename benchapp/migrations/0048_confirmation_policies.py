"""Pools have a policy of automatic confirmation."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0047_apprise_channel"),
    ]

    operations = [
        migrations.CreateModel(
            name="ConfirmationPolicy",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("pool", models.CharField(blank=True, max_length=100, unique=True)),
                ("runs", models.PositiveSmallIntegerField(default=3)),
                ("daily_share", models.FloatField(default=0.05)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "verbose_name_plural": "confirmation policies",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("runs__gte", 1), ("runs__lte", 3)),
                        name="confirmation_runs_are_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("daily_share__gt", 0), ("daily_share__lte", 0.25)),
                        name="confirmation_share_is_in_range",
                    ),
                ],
            },
        ),
    ]
