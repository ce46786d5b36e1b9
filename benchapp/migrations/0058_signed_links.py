"""Signed links have an id and an owner.

Those of before are known from their audit records. They keep their address, and end with the account or token of the
record.
"""

from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlencode

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.utils import timezone


def store_earlier_links(apps, schema_editor):
    link, record, token, user = (
        apps.get_model("benchapp", name) for name in ("SignedLink", "AuditRecord", "ApiToken", "User")
    )
    tokens = dict(token.objects.values_list("public_id", "pk"))
    users = set(user.objects.values_list("pk", flat=True))
    for made in record.objects.filter(kind="link", action="signed").iterator():
        # The address has whole seconds.
        expires_at = datetime.fromisoformat(made.after["expires_at"]).astimezone(UTC).replace(microsecond=0)
        owner = {
            "created_by_id": made.user_id if made.user_id in users else None,
            "token_id": tokens.get(made.via.removeprefix("bench_")),
        }
        if expires_at > timezone.now() and any(owner.values()):
            path, _, query = made.object_name.partition("?")
            members = urlencode(sorted(parse_qsl(query, keep_blank_values=True)))
            link.objects.create(
                url=f"{path}?{members}" if members else path,
                created_at=made.at,
                expires_at=expires_at,
                is_numbered=False,
                **owner,
            )


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0057_retries"),
    ]

    operations = [
        migrations.CreateModel(
            name="SignedLink",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("url", models.TextField()),
                ("created_at", models.DateTimeField(help_text="server's clock")),
                ("expires_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
                ("is_numbered", models.BooleanField(default=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "token",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="benchapp.apitoken",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["-created_at", "-id"], name="signed_link_by_time")],
            },
        ),
        # In one migration with the table, which nothing else writes before it is committed.
        migrations.RunPython(store_earlier_links, migrations.RunPython.noop),
    ]
