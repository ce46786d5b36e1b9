"""Subscriptions: a layout question with its remembered answer, and whether incidents are reported."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0052_thresholds"),
    ]

    operations = [
        migrations.CreateModel(
            name="StoredLayoutAnswer",
            fields=[
                (
                    "subscription",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="layout_answer",
                        serialize=False,
                        to="benchapp.subscription",
                    ),
                ),
                ("answer", models.JSONField(null=True)),
                ("pending", models.JSONField(null=True)),
                ("problem", models.CharField(blank=True, default="", max_length=300)),
                ("evaluated_at", models.DateTimeField(help_text="server's clock")),
                ("changed_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.AddField(
            model_name="subscription",
            name="layout_question",
            field=models.CharField(blank=True, default="", max_length=2000),
        ),
        migrations.AddField(
            model_name="subscription",
            name="notify_incidents",
            field=models.BooleanField(default=True, help_text="also about incidents"),
        ),
    ]
