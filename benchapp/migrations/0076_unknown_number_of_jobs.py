"""The number of jobs may be unknown. Stored workloads get that as their results are read again."""

from django.db import migrations, models

# As the code of before stored it. It does not find the series by their keys, and begins others.
_COUNT_ONE = "; ".join(
    f"UPDATE benchapp_{table} SET numjobs = 1 WHERE numjobs IS NULL"  # noqa: S608
    for table in ("series", "workload")
)


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0075_sql_views_have_the_device_class")]

    operations = [
        *(
            migrations.AlterField(
                model_name=model,
                name="numjobs",
                field=models.PositiveIntegerField(blank=True, null=True),
            )
            for model in ("series", "workload")
        ),
        migrations.RunSQL(migrations.RunSQL.noop, _COUNT_ONE),
    ]
