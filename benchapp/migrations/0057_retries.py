"""Submissions that failed are tried again later, and count their time-outs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0056_heartbeats"),
    ]

    operations = [
        migrations.AddField(
            model_name="submission",
            name="retry_at",
            field=models.DateTimeField(help_text="after an attempt: not tried again before", null=True),
        ),
        migrations.AddField(
            model_name="submission",
            name="time_outs",
            field=models.PositiveSmallIntegerField(
                db_default=0, default=0, help_text="attempts that exceeded the time limit of a document"
            ),
        ),
    ]
