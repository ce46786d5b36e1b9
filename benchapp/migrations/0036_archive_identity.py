"""Identities of incidents, studies, planned events and detection policies in archives."""

import django.contrib.postgres.functions
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0035_dry_run_attempts"),
    ]

    operations = [
        migrations.AddField(
            model_name="detectionpolicy",
            name="uid",
            field=models.UUIDField(
                db_default=django.contrib.postgres.functions.RandomUUID(), editable=False, unique=True
            ),
        ),
        migrations.AddField(
            model_name="incident",
            name="uid",
            field=models.UUIDField(
                db_default=django.contrib.postgres.functions.RandomUUID(), editable=False, unique=True
            ),
        ),
        migrations.AddField(
            model_name="plannedevent",
            name="uid",
            field=models.UUIDField(
                db_default=django.contrib.postgres.functions.RandomUUID(), editable=False, unique=True
            ),
        ),
        migrations.AddField(
            model_name="study",
            name="uid",
            field=models.UUIDField(
                db_default=django.contrib.postgres.functions.RandomUUID(), editable=False, unique=True
            ),
        ),
    ]
