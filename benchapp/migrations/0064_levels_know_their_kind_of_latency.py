"""Levels of latencies have their kind, clat or lat; "" until the next run of their series."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0063_raid_levels_have_one_spelling"),
    ]

    operations = [
        migrations.AddField(
            model_name="level",
            name="latency_kind",
            field=models.CharField(
                blank=True,
                choices=[
                    ("clat", "Completion latency (clat)"),
                    ("lat", "Total latency (lat)"),
                    ("", "Not measured"),
                ],
                default="",
                max_length=4,
            ),
        ),
    ]
