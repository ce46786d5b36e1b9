"""Indexes of values that filters match without case: pools of series, profiles and labels of runs.

Built without locks, as tables of runs are large: intake goes on meanwhile.
"""

from django.contrib.postgres.indexes import GinIndex, OpClass
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Upper


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("benchapp", "0061_incidents_know_whether_they_are_open")]

    operations = [
        AddIndexConcurrently("series", models.Index(Upper("scope"), name="series_by_folded_scope")),
        AddIndexConcurrently(
            "run",
            models.Index(
                Upper("profile"),
                models.F("started_at").desc(),
                models.F("id").desc(),
                name="run_by_folded_profile",
            ),
        ),
        AddIndexConcurrently(
            "run",
            GinIndex(
                OpClass(
                    models.Func("labels", template="(lower(%(expressions)s::text)::jsonb)"),
                    name="jsonb_path_ops",
                ),
                name="run_by_folded_label",
            ),
        ),
        RemoveIndexConcurrently("run", "run_by_profile"),
        RemoveIndexConcurrently("run", "run_by_label"),
    ]
