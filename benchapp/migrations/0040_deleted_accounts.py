"""When an account was deleted."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0039_audit_records"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="deleted_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
