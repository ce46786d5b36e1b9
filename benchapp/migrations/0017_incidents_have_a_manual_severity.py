"""Let editors set the severity of an incident."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0016_levels")]

    operations = [
        migrations.AddField(
            model_name="incident", name="has_manual_severity", field=models.BooleanField(default=False)
        ),
    ]
