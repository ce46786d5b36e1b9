"""Increase in spread and alternation between two states, with each detection result."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0030_detection_state")]

    operations = [
        migrations.AddField("detectionresult", "spread_increase", models.JSONField(blank=True, null=True)),
        migrations.AddField("detectionresult", "two_states", models.JSONField(blank=True, null=True)),
    ]
