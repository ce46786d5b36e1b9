"""Hosts have the kind of installation of their agent, which chooses the command that updates it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0059_failed_runs_are_no_measurements"),
    ]

    operations = [
        migrations.AddField(
            model_name="host",
            name="agent_installation",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="how its agent is installed; empty: unknown",
                max_length=20,
            ),
        ),
    ]
