"""Incidents have one definition of open, as a column: neither resolved, recovered nor merged."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0060_agent_installation"),
    ]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="is_open",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.Q(
                    ("merged_into", None), ("recovered_at", None), ("state__in", ("new", "acknowledged"))
                ),
                output_field=models.BooleanField(),
            ),
        ),
    ]
