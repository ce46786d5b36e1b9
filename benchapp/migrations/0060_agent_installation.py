"""Hosts have what their agent reports of itself: its kind of installation, and the results that its spool dropped."""

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
        migrations.AddField(
            model_name="host",
            name="dropped_count",
            field=models.PositiveIntegerField(
                db_default=0, default=0, help_text="results that the full spool of its agent dropped"
            ),
        ),
        migrations.AddField(
            model_name="host",
            name="dropped_at",
            field=models.DateTimeField(blank=True, help_text="host's clock, of the last one", null=True),
        ),
    ]
