"""The state of a canceled dry run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0037_sql_views"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="detectiondryrun",
            name="detection_dry_run_state_is_known",
        ),
        migrations.AlterField(
            model_name="detectiondryrun",
            name="state",
            field=models.CharField(
                choices=[
                    ("running", "running"),
                    ("done", "done"),
                    ("failed", "failed"),
                    ("canceled", "canceled"),
                ],
                default="running",
                max_length=8,
            ),
        ),
        migrations.AddConstraint(
            model_name="detectiondryrun",
            constraint=models.CheckConstraint(
                condition=models.Q(state__in=["running", "done", "failed", "canceled"]),
                name="detection_dry_run_state_is_known",
            ),
        ),
    ]
