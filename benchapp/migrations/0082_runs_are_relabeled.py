"""Deletions become corrections, which also relabel runs."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0079_hosts_and_pools_are_renamed"),
    ]

    operations = [
        migrations.RemoveConstraint("deletionlogentry", "deletion_action_is_known"),
        migrations.RenameModel("Deletion", "Correction"),
        migrations.RenameModel("DeletionLogEntry", "CorrectionLogEntry"),
        migrations.RenameField("correctionlogentry", "deletion", "correction"),
        migrations.RenameField("deletedrun", "deletion", "correction"),
        migrations.RenameIndex("correction", new_name="correction_due", old_name="deletion_due"),
        migrations.AlterField(
            "correctionlogentry",
            "action",
            models.CharField(
                choices=[("created", "created"), ("canceled", "undone"), ("restored", "applied again")],
                max_length=10,
            ),
        ),
        migrations.AddConstraint(
            "correctionlogentry",
            models.CheckConstraint(
                condition=models.Q(("action__in", ["created", "canceled", "restored"])),
                name="correction_action_is_known",
            ),
        ),
        migrations.AddField(
            "correction",
            "kind",
            models.CharField(
                choices=[("deletion", "deletion"), ("relabeling", "relabeling")],
                default="deletion",
                max_length=10,
            ),
            preserve_default=False,
        ),
        migrations.AddField("correction", "changes", models.JSONField(blank=True, default=dict)),
        migrations.AddConstraint(
            "correction",
            models.CheckConstraint(
                condition=models.Q(("kind__in", ["deletion", "relabeling"])), name="correction_kind_is_known"
            ),
        ),
        migrations.AddField("submission", "relabeled", models.JSONField(blank=True, null=True)),
        migrations.AddField("run", "stated", models.JSONField(blank=True, null=True)),
        migrations.CreateModel(
            "RelabeledRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("document", models.PositiveSmallIntegerField()),
                (
                    "correction",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="relabeled_runs",
                        to="benchapp.correction",
                    ),
                ),
                (
                    "submission",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="benchapp.submission",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["correction", "id"], name="relabeled_by_correction")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("submission", "document", "correction"), name="run_is_relabeled_once"
                    )
                ],
            },
        ),
    ]
