"""E-mail addresses are confirmed by a link before notices are sent to them; a holder can refuse mail."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """New tables are empty: addresses of existing subscriptions are confirmed by a link, too (docs/notifications.md)."""

    dependencies = [("benchapp", "0011_submissions_have_a_scope")]

    operations = [
        migrations.CreateModel(
            name="EmailAddress",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("address", models.CharField(max_length=254)),
                (
                    "digest",
                    models.BinaryField(
                        help_text="SHA-256 of the link's secret", max_length=32, null=True, unique=True
                    ),
                ),
                ("expires_at", models.DateTimeField(null=True)),
                ("asked_at", models.DateTimeField(null=True)),
                ("confirmed_at", models.DateTimeField(null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="email_addresses",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "address"), name="email_address_is_unique")
                ],
            },
        ),
        migrations.CreateModel(
            name="RefusedAddress",
            fields=[
                ("address", models.CharField(max_length=254, primary_key=True, serialize=False)),
                ("refused_at", models.DateTimeField()),
            ],
        ),
        migrations.AlterField(
            "notice",
            "state",
            models.CharField(
                choices=[
                    ("waiting", "Waiting"),
                    ("sent", "Sent"),
                    ("failed", "Given up"),
                    ("dropped", "Not sent"),
                ],
                default="waiting",
                max_length=7,
            ),
        ),
    ]
