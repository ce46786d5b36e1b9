"""The newest values of a metric of a series move from its current level to a table of their own.

Dropped: the column `recent` of levels, whose values are kept. Charts read a few columns of all current levels.
"""

from importlib import import_module

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

from benchapp.sql_views import replace_views

VIEWS = import_module("benchapp.migrations.0037_sql_views").VIEWS


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0066_evaluations_are_not_repeated"),
    ]

    operations = [
        migrations.CreateModel(
            name="NewestValues",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("metric", models.CharField(max_length=30)),
                ("to_at", models.DateTimeField()),
                (
                    "recent",
                    django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), size=None),
                ),
                (
                    "series",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="benchapp.series",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("series", "metric"), name="newest_values_are_unique")
                ],
            },
        ),
        migrations.RunSQL(
            "INSERT INTO benchapp_newestvalues (series_id, metric, to_at, recent)"
            " SELECT series_id, metric, to_at, recent FROM benchapp_level WHERE is_current ORDER BY series_id",
            reverse_sql="UPDATE benchapp_level AS level SET recent = newest.recent FROM benchapp_newestvalues AS newest"
            " WHERE (level.series_id, level.metric) = (newest.series_id, newest.metric) AND level.is_current",
        ),
        *replace_views(VIEWS, VIEWS, operations=[migrations.RemoveField("level", "recent")]),
        # Rows keep a dropped column until they are written again.
        migrations.RunSQL("CLUSTER benchapp_level USING level_is_unique", reverse_sql=migrations.RunSQL.noop),
    ]
