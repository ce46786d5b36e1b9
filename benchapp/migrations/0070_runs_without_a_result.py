"""Store runs that could not start or were skipped."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0069_series_continue_under_a_name")]

    operations = [
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sender_id", models.UUIDField(unique=True)),
                ("profile", models.CharField(blank=True, max_length=100)),
                (
                    "target_name",
                    models.CharField(blank=True, help_text="directory or device", max_length=200),
                ),
                ("started_at", models.DateTimeField()),
                ("reason_code", models.CharField(max_length=50)),
                ("reason", models.CharField(blank=True, max_length=500)),
                (
                    "host",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="benchapp.host",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["host", "-started_at", "-id"], name="attempts_of_a_host")],
            },
        ),
    ]
