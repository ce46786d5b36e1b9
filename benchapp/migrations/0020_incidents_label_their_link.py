"""Let the link of an incident have a short label."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0019_series_environments")]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="link_label",
            field=models.CharField(blank=True, default="", max_length=60),
        ),
    ]
