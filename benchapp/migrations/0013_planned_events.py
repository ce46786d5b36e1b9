"""Expectations become planned events; who reported a host's schedule, and which token enrolls, get their present names."""

from typing import Any

from django.db import migrations, models

_RENAMED_ACTIONS = {"said": "scheduled", "taken_back": "canceled", "put_back": "restored"}
_ACTIONS = [
    ("scheduled", "scheduled"),
    ("ended", "ended early"),
    ("canceled", "canceled"),
    ("resumed", "resumed"),
    ("restored", "restored"),
]
_KINDS = [
    ("change", "Expected change: recorded without notifications"),
    ("maintenance", "Maintenance: runs are excluded from levels"),
]


def _rename_actions(apps: Any, names: dict[str, str]) -> None:
    entries = apps.get_model("benchapp", "PlannedEventLogEntry").objects
    for old, new in names.items():
        entries.filter(action=old).update(action=new)


def rename_actions(apps: Any, schema_editor: Any) -> None:
    """Replace the stored names of three actions."""
    _rename_actions(apps, _RENAMED_ACTIONS)


def restore_actions(apps: Any, schema_editor: Any) -> None:
    """Undo rename_actions."""
    _rename_actions(apps, {new: old for old, new in _RENAMED_ACTIONS.items()})


class Migration(migrations.Migration):
    """Renames change the catalog only; three of five values in the log are rewritten (one row per action of a person)."""

    dependencies = [("benchapp", "0012_email_addresses_are_confirmed")]

    operations = [
        migrations.RenameModel("Expectation", "PlannedEvent"),
        migrations.RenameModel("ExpectationEvent", "PlannedEventLogEntry"),
        migrations.RenameField("plannedevent", "taken_back_at", "canceled_at"),
        migrations.RenameField("plannedevent", "taken_back_by", "canceled_by"),
        migrations.AlterField("plannedevent", "kind", models.CharField(choices=_KINDS, max_length=11)),
        migrations.RemoveConstraint("plannedevent", "expectation_kind_is_known"),
        migrations.AddConstraint(
            "plannedevent",
            models.CheckConstraint(
                condition=models.Q(("kind__in", [kind for kind, _ in _KINDS])),
                name="planned_event_kind_is_known",
            ),
        ),
        migrations.RemoveConstraint("plannedevent", "expectation_begins_before_it_ends"),
        migrations.AddConstraint(
            "plannedevent",
            models.CheckConstraint(
                condition=models.Q(("from_at__lt", models.F("to_at"))),
                name="planned_event_begins_before_it_ends",
            ),
        ),
        migrations.RenameIndex(
            "plannedevent", new_name="planned_event_by_time", old_name="expectation_by_time"
        ),
        migrations.RemoveConstraint("plannedeventlogentry", "expectation_act_is_known"),
        # RenameField does not rename the column in the fields of an index of the migration state.
        migrations.RemoveIndex("plannedeventlogentry", "expectation_event_by_time"),
        migrations.RenameField("plannedeventlogentry", "expectation", "planned_event"),
        migrations.RenameField("plannedeventlogentry", "act", "action"),
        migrations.AlterField(
            "plannedeventlogentry", "action", models.CharField(choices=_ACTIONS, max_length=10)
        ),
        migrations.AlterField(
            "plannedeventlogentry",
            "planned_event",
            models.ForeignKey(
                db_index=False,
                on_delete=models.CASCADE,
                related_name="log_entries",
                to="benchapp.plannedevent",
            ),
        ),
        migrations.AddIndex(
            "plannedeventlogentry",
            models.Index(fields=["planned_event", "at", "id"], name="planned_event_log_by_time"),
        ),
        migrations.RunPython(rename_actions, restore_actions),
        migrations.AddConstraint(
            "plannedeventlogentry",
            models.CheckConstraint(
                condition=models.Q(("action__in", [action for action, _ in _ACTIONS])),
                name="planned_event_action_is_known",
            ),
        ),
        migrations.RenameField("host", "schedule_told_by", "schedule_reported_by"),
        migrations.AlterField(
            "host",
            "schedule_reported_by",
            models.CharField(blank=True, default="", help_text="token that reported it", max_length=100),
        ),
        migrations.AlterField(
            "apitoken",
            "scope",
            models.CharField(
                choices=[
                    ("ingest", "Posts the results of one host"),
                    ("read", "Reads everything"),
                    ("admin", "Reads everything and manages hosts"),
                    ("enroll", "Enrolls new hosts"),
                ],
                max_length=8,
            ),
        ),
    ]
