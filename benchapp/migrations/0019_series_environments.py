"""Keep which environments each series was measured in."""

import django.db.models.deletion
from django.db import migrations, models

# One pass over the measurements.
_COPY = """
INSERT INTO benchapp_seriesenvironment (series_id, environment_id, first_at, last_at)
SELECT m.series_id, run.environment_id, min(m.started_at), max(m.started_at)
FROM benchapp_measurement m JOIN benchapp_run run ON run.id = m.run_id
GROUP BY m.series_id, run.environment_id
"""


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0018_hosts_count_their_runs")]

    operations = [
        migrations.CreateModel(
            name="SeriesEnvironment",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("first_at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
                (
                    "environment",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="benchapp.environment",
                    ),
                ),
                (
                    "series",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="environments",
                        to="benchapp.series",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["environment", "series"], name="series_by_environment"),
                    models.Index(fields=["-first_at"], name="series_environment_by_time"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("series", "environment"), name="series_environment_is_unique"
                    )
                ],
            },
        ),
        migrations.RunSQL(_COPY, migrations.RunSQL.noop),
    ]
