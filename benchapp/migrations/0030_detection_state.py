"""State of detection of each series, so that a quiet run is evaluated without its history."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0029_pooled_levels")]

    operations = [
        migrations.AddField(
            "series",
            "judging_resumes",
            models.BooleanField(
                default=False, help_text="no measurement known to detection changed: its state is valid"
            ),
        ),
        migrations.CreateModel(
            name="DetectionState",
            fields=[
                (
                    "series",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="benchapp.series",
                    ),
                ),
                ("fingerprint", models.CharField(max_length=64)),
                ("measurement_count", models.PositiveIntegerField()),
                ("last_at", models.DateTimeField()),
                ("position", models.PositiveIntegerField()),
                ("content", models.BinaryField()),
            ],
        ),
        # Numbers: PostgreSQL would try to compress each of them in vain.
        migrations.RunSQL(
            "ALTER TABLE benchapp_detectionstate ALTER COLUMN content SET STORAGE EXTERNAL",
            reverse_sql=migrations.RunSQL.noop,
        ),
    ]
