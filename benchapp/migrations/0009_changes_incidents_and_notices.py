"""Changes, incidents, what is expected, and the outbox of notices."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """New tables; series are judged once their next run comes, or by `manage.py redetect`."""

    dependencies = [
        ("benchapp", "0008_series_are_summarized_once"),
    ]

    operations = [
        migrations.CreateModel(
            name="Change",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("metric", models.CharField(max_length=30)),
                ("started_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("suspected", "Suspected: one or two runs"),
                            ("provisional", "Provisional: three runs or more"),
                            ("confirmed", "Confirmed: still there five runs later"),
                            ("withdrawn", "Withdrawn: later runs do not bear it out"),
                        ],
                        max_length=11,
                    ),
                ),
                ("is_regression", models.BooleanField()),
                ("before_median", models.FloatField()),
                ("before_n", models.PositiveIntegerField()),
                ("before_spread", models.FloatField()),
                ("after_median", models.FloatField()),
                ("after_n", models.PositiveIntegerField()),
                ("after_spread", models.FloatField()),
                ("relative", models.FloatField()),
                ("relative_low", models.FloatField(blank=True, null=True)),
                ("relative_high", models.FloatField(blank=True, null=True)),
                ("confidence", models.FloatField()),
                ("method", models.CharField(max_length=50)),
                ("evidence", models.JSONField(default=dict)),
                ("found_at", models.DateTimeField(help_text="server's clock")),
                ("updated_at", models.DateTimeField(help_text="server's clock")),
                ("withdrawn_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Expectation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("change", "A change is expected: it is recorded and tells nobody"),
                            ("maintenance", "Maintenance: runs within it count in no level"),
                        ],
                        max_length=11,
                    ),
                ),
                ("filter", models.CharField(blank=True, default="", max_length=2000)),
                ("from_at", models.DateTimeField()),
                ("to_at", models.DateTimeField()),
                ("reason", models.CharField(max_length=500)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Incident",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scope", models.CharField(blank=True, default="", max_length=260)),
                ("title", models.CharField(max_length=300)),
                (
                    "state",
                    models.CharField(
                        choices=[("new", "New"), ("acknowledged", "Acknowledged"), ("resolved", "Resolved")],
                        default="new",
                        max_length=12,
                    ),
                ),
                (
                    "verdict",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "None yet"),
                            ("real", "Real"),
                            ("fixed", "Fixed"),
                            ("expected", "Expected"),
                            ("environment", "Environment"),
                            ("noise", "Noise"),
                        ],
                        default="",
                        max_length=11,
                    ),
                ),
                (
                    "severity",
                    models.CharField(
                        choices=[("high", "High"), ("medium", "Medium"), ("low", "Low")], max_length=6
                    ),
                ),
                ("is_regression", models.BooleanField(default=True)),
                ("started_at", models.DateTimeField()),
                ("relative", models.FloatField()),
                ("change_count", models.PositiveIntegerField(default=0)),
                ("explained_by", models.JSONField(default=list)),
                ("suspects", models.JSONField(default=list)),
                ("link", models.URLField(blank=True, default="", max_length=500)),
                ("snoozed_until", models.DateTimeField(blank=True, null=True)),
                ("recovered_at", models.DateTimeField(blank=True, null=True)),
                ("opened_at", models.DateTimeField(help_text="server's clock")),
                ("updated_at", models.DateTimeField(help_text="server's clock")),
                ("resolved_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="IncidentEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(help_text="server's clock")),
                ("kind", models.CharField(max_length=20)),
                ("words", models.TextField(blank=True, default="", max_length=5000)),
                ("before", models.JSONField(default=dict)),
                ("undone_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Judgement",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("metric", models.CharField(max_length=30)),
                (
                    "standing",
                    models.CharField(
                        choices=[
                            ("learning", "Learning: too few runs"),
                            ("steady", "Steady"),
                            ("noisy", "Too noisy to judge"),
                            ("stale", "Stale: no run for long"),
                        ],
                        max_length=8,
                    ),
                ),
                ("n", models.PositiveIntegerField()),
                ("level", models.FloatField(blank=True, null=True)),
                ("spread", models.FloatField(blank=True, null=True)),
                ("least_change", models.FloatField(blank=True, null=True)),
                ("runs_needed", models.PositiveIntegerField(blank=True, null=True)),
                ("baseline_from_at", models.DateTimeField(blank=True, null=True)),
                ("method", models.CharField(max_length=50)),
                ("judged_at", models.DateTimeField(help_text="server's clock")),
            ],
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=200)),
                ("body", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("sent", "Sent"),
                            ("failed", "Given up"),
                            ("dropped", "Not sent: taken back before its time"),
                        ],
                        default="waiting",
                        max_length=7,
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("not_before_at", models.DateTimeField()),
                ("created_at", models.DateTimeField(help_text="server's clock")),
                ("settled_at", models.DateTimeField(blank=True, null=True)),
                ("log", models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name="Subscription",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "channel",
                    models.CharField(
                        choices=[
                            ("email", "E-mail"),
                            ("slack", "Slack-compatible webhook"),
                            ("webhook", "Webhook (Standard Webhooks)"),
                        ],
                        max_length=7,
                    ),
                ),
                ("address", models.CharField(max_length=500)),
                ("secret", models.CharField(blank=True, default="", max_length=100)),
                ("filter", models.CharField(blank=True, default="", max_length=2000)),
                ("least_severity", models.CharField(default="low", max_length=6)),
                (
                    "wants_silence",
                    models.BooleanField(default=True, help_text="also of hosts that fall silent"),
                ),
                ("is_digest", models.BooleanField(default=False)),
                ("digest_hour", models.PositiveSmallIntegerField(default=7)),
                ("quiet_from_hour", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("quiet_to_hour", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("is_active", models.BooleanField(default=True)),
                ("failures", models.PositiveSmallIntegerField(default=0)),
                ("paused_reason", models.CharField(blank=True, default="", max_length=500)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.AddField(
            model_name="series",
            name="judging_is_due",
            field=models.BooleanField(default=False, help_text="measurements changed since it was judged"),
        ),
        migrations.AddIndex(
            model_name="series",
            index=models.Index(
                condition=models.Q(("judging_is_due", True)), fields=["id"], name="series_to_judge"
            ),
        ),
        migrations.AddField(
            model_name="change",
            name="last_good_run",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="benchapp.run",
            ),
        ),
        migrations.AddField(
            model_name="change",
            name="run",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="benchapp.run",
            ),
        ),
        migrations.AddField(
            model_name="change",
            name="series",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="changes",
                to="benchapp.series",
            ),
        ),
        migrations.AddField(
            model_name="expectation",
            name="created_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="incident",
            name="assignee",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="incident",
            name="merged_into",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="benchapp.incident",
            ),
        ),
        migrations.AddField(
            model_name="change",
            name="incident",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="changes",
                to="benchapp.incident",
            ),
        ),
        migrations.AddField(
            model_name="incidentevent",
            name="by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="incidentevent",
            name="incident",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="events",
                to="benchapp.incident",
            ),
        ),
        migrations.AddField(
            model_name="judgement",
            name="series",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="judgements",
                to="benchapp.series",
            ),
        ),
        migrations.AddField(
            model_name="notice",
            name="incident",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="benchapp.incident",
            ),
        ),
        migrations.AddField(
            model_name="subscription",
            name="owner",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="subscriptions",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="notice",
            name="subscription",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="notices",
                to="benchapp.subscription",
            ),
        ),
        migrations.AddConstraint(
            model_name="expectation",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["change", "maintenance"])), name="expectation_kind_is_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="expectation",
            constraint=models.CheckConstraint(
                condition=models.Q(("from_at__lt", models.F("to_at"))),
                name="expectation_begins_before_it_ends",
            ),
        ),
        migrations.AddIndex(
            model_name="incident",
            index=models.Index(fields=["state", "-started_at", "-id"], name="incident_by_state"),
        ),
        migrations.AddIndex(
            model_name="incident",
            index=models.Index(fields=["scope", "-started_at"], name="incident_by_scope"),
        ),
        migrations.AddConstraint(
            model_name="incident",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["new", "acknowledged", "resolved"])),
                name="incident_state_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="incident",
            constraint=models.CheckConstraint(
                condition=models.Q(("severity__in", ["high", "medium", "low"])),
                name="incident_severity_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="incident",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("verdict__in", ["", "real", "fixed", "expected", "environment", "noise"])
                ),
                name="incident_verdict_is_known",
            ),
        ),
        migrations.AddIndex(
            model_name="change",
            index=models.Index(fields=["series", "metric", "started_at"], name="change_by_series"),
        ),
        migrations.AddIndex(
            model_name="change",
            index=models.Index(fields=["-started_at", "-id"], name="change_by_time"),
        ),
        migrations.AddConstraint(
            model_name="change",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["suspected", "provisional", "confirmed", "withdrawn"])),
                name="change_state_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="change",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "withdrawn"), _negated=True),
                fields=("series", "metric", "started_at"),
                name="change_is_kept_once",
            ),
        ),
        migrations.AddIndex(
            model_name="incidentevent",
            index=models.Index(fields=["incident", "at", "id"], name="incident_event_by_time"),
        ),
        migrations.AddConstraint(
            model_name="judgement",
            constraint=models.UniqueConstraint(fields=("series", "metric"), name="judgement_is_kept_once"),
        ),
        migrations.AddConstraint(
            model_name="judgement",
            constraint=models.CheckConstraint(
                condition=models.Q(("standing__in", ["learning", "steady", "noisy", "stale"])),
                name="judgement_standing_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.CheckConstraint(
                condition=models.Q(("channel__in", ["email", "slack", "webhook"])),
                name="subscription_channel_is_known",
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("state", "waiting")), fields=["not_before_at"], name="notice_waiting"
            ),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.UniqueConstraint(fields=("subscription", "key"), name="notice_is_told_once"),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["waiting", "sent", "failed", "dropped"])),
                name="notice_state_is_known",
            ),
        ),
    ]
