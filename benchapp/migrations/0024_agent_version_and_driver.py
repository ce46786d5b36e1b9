"""Store the driver of the storage and the version of the agent with the environment of a run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0023_incident_sizes_by_metric")]

    operations = [
        migrations.AddField(
            model_name="environment",
            name="agent_version",
            field=models.CharField(blank=True, max_length=50, null=True),
        ),
        migrations.AddField(
            model_name="environment",
            name="device_driver",
            field=models.CharField(blank=True, max_length=100, null=True),
        ),
    ]
