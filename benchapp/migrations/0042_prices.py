"""Prices of volume types and instance types."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0041_saved_views"),
    ]

    operations = [
        migrations.CreateModel(
            name="Price",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("volume_type", models.CharField(blank=True, default="", max_length=100)),
                ("instance_type", models.CharField(blank=True, default="", max_length=100)),
                ("region", models.CharField(blank=True, default="", max_length=60)),
                ("currency", models.CharField(max_length=3)),
                ("valid_from", models.DateField()),
                ("per_gib_month", models.FloatField(default=0)),
                ("per_iops_month", models.FloatField(default=0)),
                ("included_iops", models.FloatField(default=0)),
                ("per_mib_s_month", models.FloatField(default=0)),
                ("included_mib_s", models.FloatField(default=0)),
                ("per_hour", models.FloatField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("removed_at", models.DateTimeField(blank=True, help_text="server's clock", null=True)),
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
                        condition=models.Q(
                            models.Q(("instance_type", ""), ("volume_type", ""), _negated=True),
                            models.Q(("volume_type", ""), ("instance_type", ""), _connector="OR"),
                        ),
                        name="price_has_one_type",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("included_iops__gte", 0),
                            ("included_mib_s__gte", 0),
                            ("per_gib_month__gte", 0),
                            ("per_hour__gte", 0),
                            ("per_iops_month__gte", 0),
                            ("per_mib_s_month__gte", 0),
                        ),
                        name="price_is_not_negative",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("removed_at__isnull", True)),
                        fields=("volume_type", "instance_type", "region", "valid_from"),
                        name="price_is_unique",
                    ),
                ],
            },
        ),
    ]
