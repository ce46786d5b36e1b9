"""Evaluations are not repeated while what they depend on stays.

Dropped: the binary state of detection with its mark, and the level of a detection result, which nothing reads. Nothing
of them is lost: the next run of a series evaluates it again.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0065_unknown_patterns"),
    ]

    operations = [
        migrations.RemoveField(
            model_name="detectionresult",
            name="level",
        ),
        migrations.RemoveField(
            model_name="series",
            name="judging_resumes",
        ),
        migrations.AddField(
            model_name="detectionresult",
            name="evaluated_to_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="detectionresult",
            name="input_hash",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.DeleteModel(
            name="DetectionState",
        ),
    ]
