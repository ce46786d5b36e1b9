"""Audit records; a trigger refuses to change them."""

import django.core.serializers.json
from django.db import migrations, models

REFUSE_CHANGES = """
CREATE FUNCTION benchapp_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN RAISE EXCEPTION 'audit records cannot be changed'; END$$;
CREATE TRIGGER audit_record_is_append_only BEFORE UPDATE ON benchapp_auditrecord
 FOR EACH ROW EXECUTE FUNCTION benchapp_refuse_audit_change();
"""
ALLOW_CHANGES = """
DROP TRIGGER audit_record_is_append_only ON benchapp_auditrecord;
DROP FUNCTION benchapp_refuse_audit_change();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0038_canceled_dry_runs"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(help_text="server's clock")),
                ("user_id", models.BigIntegerField(null=True)),
                ("username", models.CharField(blank=True, default="", max_length=150)),
                ("via", models.CharField(blank=True, default="", max_length=60)),
                ("kind", models.CharField(max_length=20)),
                ("object_id", models.CharField(blank=True, default="", max_length=253)),
                ("object_name", models.TextField(blank=True, default="")),
                ("action", models.CharField(max_length=40)),
                (
                    "before",
                    models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder, null=True),
                ),
                (
                    "after",
                    models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder, null=True),
                ),
                ("address", models.CharField(blank=True, default="", max_length=100)),
                ("request_id", models.CharField(blank=True, default="", max_length=64)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["-at", "-id"], name="audit_record_by_time"),
                    models.Index(fields=["kind", "object_id", "-at", "-id"], name="audit_record_by_object"),
                    models.Index(fields=["username", "-at", "-id"], name="audit_record_by_username"),
                ],
            },
        ),
        migrations.RunSQL(REFUSE_CHANGES, ALLOW_CHANGES),
    ]
