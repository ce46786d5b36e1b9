"""Series are found by layout and workload; the indexes also serve the foreign keys."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0084_retention"),
    ]

    operations = [
        migrations.AddIndex("series", models.Index(fields=["target", "workload"], name="series_by_layout")),
        migrations.AddIndex("series", models.Index(fields=["workload", "id"], name="series_by_workload")),
        *(
            migrations.AlterField(
                "series",
                name,
                models.ForeignKey(
                    db_index=False, on_delete=django.db.models.deletion.PROTECT, to=f"benchapp.{name}"
                ),
            )
            for name in ("target", "workload")
        ),
    ]
