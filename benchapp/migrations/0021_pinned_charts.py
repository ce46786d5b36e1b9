"""Users pin charts to their overview."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0020_incidents_label_their_link"),
    ]

    operations = [
        migrations.CreateModel(
            name="PinnedChart",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("position", models.PositiveSmallIntegerField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("scaling", "Scaling"),
                            ("matrix", "Matrix"),
                            ("history", "History"),
                            ("compare", "Comparison"),
                        ],
                        max_length=7,
                    ),
                ),
                ("query", models.CharField(blank=True, default="", max_length=4000)),
                ("title", models.CharField(blank=True, default="", max_length=200)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="pinned_charts",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["owner", "position", "id"], name="pinned_chart_by_owner")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["scaling", "matrix", "history", "compare"])),
                        name="pinned_chart_kind_is_known",
                    )
                ],
            },
        ),
    ]
