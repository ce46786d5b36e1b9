"""Preferences of accounts: time zone, units of throughput, theme, default filter."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0043_notes"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="default_filter",
            field=models.CharField(blank=True, default="", max_length=2000),
        ),
        migrations.AddField(
            model_name="user",
            name="rate_units",
            field=models.CharField(
                choices=[
                    ("si", "kB/s, MB/s, GB/s (powers of 1000)"),
                    ("binary", "KiB/s, MiB/s, GiB/s (powers of 1024)"),
                ],
                default="si",
                max_length=6,
            ),
        ),
        migrations.AddField(
            model_name="user",
            name="theme",
            field=models.CharField(
                choices=[("system", "As in the system"), ("light", "Light"), ("dark", "Dark")],
                default="system",
                max_length=6,
            ),
        ),
        migrations.AddField(
            model_name="user",
            name="time_zone",
            field=models.CharField(blank=True, default="", max_length=64),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(("rate_units__in", ["si", "binary"])), name="user_rate_units_are_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(("theme__in", ["system", "light", "dark"])), name="user_theme_is_known"
            ),
        ),
    ]
