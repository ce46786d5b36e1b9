"""Calendar profile of each metric of a series."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0031_variability")]

    operations = [
        migrations.AddField("detectionresult", "seasons", models.JSONField(blank=True, default=dict)),
    ]
