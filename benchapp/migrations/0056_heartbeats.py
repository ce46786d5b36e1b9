"""When workers and beat last did something."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0055_host_new_series"),
    ]

    operations = [
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                (
                    "name",
                    models.CharField(
                        choices=[("worker", "Worker"), ("beat", "Beat")],
                        max_length=8,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("seen_at", models.DateTimeField(help_text="PostgreSQL's clock")),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("name__in", ["worker", "beat"])), name="heartbeat_name_is_known"
                    )
                ],
            },
        ),
    ]
