"""Hosts count the series that their results add in a day."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0054_room_for_updates"),
    ]

    operations = [
        migrations.AddField(
            model_name="host",
            name="new_series_count",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="host",
            name="new_series_on",
            field=models.DateField(blank=True, null=True),
        ),
    ]
