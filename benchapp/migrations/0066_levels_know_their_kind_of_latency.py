"""Levels of latencies have their kind, clat or lat; "" until the next run of their series."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0061_incidents_know_whether_they_are_open"),
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
