"""Users save chart pages under a name."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0040_deleted_accounts"),
    ]

    operations = [
        migrations.CreateModel(
            name="SavedView",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100)),
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
                ("is_shared", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("removed_at", models.DateTimeField(blank=True, help_text="server's clock", null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("is_shared", True), ("removed_at__isnull", True)),
                        fields=["name"],
                        name="saved_view_shared",
                    ),
                    models.Index(fields=["owner", "removed_at"], name="saved_view_by_owner"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["scaling", "matrix", "history", "compare"])),
                        name="saved_view_kind_is_known",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("removed_at__isnull", True)),
                        fields=("owner", "name"),
                        name="saved_view_name_is_unique",
                    ),
                ],
            },
        ),
    ]
