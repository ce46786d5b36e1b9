"""Limit expected changes to a metric and a direction, and link them with the incidents that they mute."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0021_pinned_charts")]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="planned_event",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="muted_incidents",
                to="benchapp.plannedevent",
            ),
        ),
        migrations.AddField(
            model_name="plannedevent",
            name="incident",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="mutes",
                to="benchapp.incident",
            ),
        ),
        migrations.AddField(
            model_name="plannedevent",
            name="is_regression",
            field=models.BooleanField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="plannedevent",
            name="metric",
            field=models.CharField(blank=True, default="", max_length=30),
        ),
        migrations.AddConstraint(
            model_name="plannedevent",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind", "change"),
                    models.Q(("is_regression__isnull", True), ("metric", "")),
                    _connector="OR",
                ),
                name="planned_maintenance_is_of_all_changes",
            ),
        ),
    ]
