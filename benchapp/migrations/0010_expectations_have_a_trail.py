"""Expectations end early, are taken back and keep a trail of who did so; settled notices are found by their age."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

_person = {
    "blank": True,
    "null": True,
    "on_delete": django.db.models.deletion.SET_NULL,
    "related_name": "+",
    "to": settings.AUTH_USER_MODEL,
}
_ACTS = [
    ("said", "said"),
    ("ended", "ended early"),
    ("taken_back", "taken back"),
    ("resumed", "let run to its planned end again"),
    ("put_back", "put back"),
]


class Migration(migrations.Migration):
    """New columns are null and new tables empty: no row is rewritten."""

    dependencies = [("benchapp", "0009_changes_incidents_and_notices")]

    operations = [
        migrations.AddField("expectation", "ended_by", models.ForeignKey(**_person)),
        migrations.AddField("expectation", "taken_back_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("expectation", "taken_back_by", models.ForeignKey(**_person)),
        migrations.AddIndex(
            "expectation", models.Index(fields=["-from_at", "-id"], name="expectation_by_time")
        ),
        migrations.CreateModel(
            name="ExpectationEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(help_text="server's clock")),
                ("via", models.CharField(blank=True, default="", max_length=40)),
                ("act", models.CharField(choices=_ACTS, max_length=10)),
                ("by", models.ForeignKey(**_person)),
                (
                    "expectation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="benchapp.expectation",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["expectation", "at", "id"], name="expectation_event_by_time")
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("act__in", [act for act, _ in _ACTS])),
                        name="expectation_act_is_known",
                    )
                ],
            },
        ),
        migrations.AddIndex(
            "notice",
            models.Index(
                fields=["settled_at"],
                name="notice_settled",
                condition=models.Q(("settled_at__isnull", False)),
            ),
        ),
    ]
