"""Notes: planned events that only charts show; a note can be of one time."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0042_prices"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="plannedevent",
            name="planned_event_kind_is_known",
        ),
        migrations.RemoveConstraint(
            model_name="plannedevent",
            name="planned_event_begins_before_it_ends",
        ),
        migrations.RemoveConstraint(
            model_name="plannedevent",
            name="planned_maintenance_is_of_all_changes",
        ),
        migrations.AlterField(
            model_name="plannedevent",
            name="kind",
            field=models.CharField(
                choices=[("change", "Expected change"), ("maintenance", "Maintenance"), ("note", "Note")],
                max_length=11,
            ),
        ),
        migrations.AddConstraint(
            model_name="plannedevent",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["change", "maintenance", "note"])),
                name="planned_event_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="plannedevent",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind", "change"),
                    models.Q(("is_regression__isnull", True), ("metric", "")),
                    _connector="OR",
                ),
                name="planned_limits_are_of_expected_changes",
            ),
        ),
        migrations.AddConstraint(
            model_name="plannedevent",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("from_at__lt", models.F("to_at")),
                    models.Q(("from_at", models.F("to_at")), ("kind", "note")),
                    _connector="OR",
                ),
                name="planned_event_begins_before_it_ends",
            ),
        ),
    ]
