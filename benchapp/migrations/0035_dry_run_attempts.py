"""Attempts of the next batch of a dry run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0034_detection_policies"),
    ]

    operations = [
        migrations.AddField(
            model_name="detectiondryrun",
            name="attempts",
            field=models.PositiveSmallIntegerField(default=0),
        ),
    ]
