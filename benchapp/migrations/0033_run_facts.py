"""Indexes of runs by label and by sweep, for filters."""

import django.contrib.postgres.indexes
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0032_seasons")]

    operations = [
        migrations.AddIndex(
            "run",
            django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass(models.F("labels"), name="jsonb_path_ops"),
                name="run_by_label",
            ),
        ),
        migrations.AddIndex(
            "run",
            models.Index(
                fields=["sweep_id"], name="run_by_sweep", condition=models.Q(sweep_id__isnull=False)
            ),
        ),
    ]
