"""Store the class of the device with the environment of a run: nvme, ssd, hdd, network or memory."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0067_newest_values_have_a_table")]

    operations = [
        migrations.AddField(
            model_name="environment",
            name="device_class",
            field=models.CharField(blank=True, max_length=20, null=True),
        ),
    ]
