from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0077_runs_are_deleted"),
    ]

    operations = [
        migrations.RenameField(model_name="host", old_name="clock_ahead_s", new_name="clock_offset_s"),
        migrations.AlterField(
            model_name="host",
            name="clock_offset_s",
            field=models.BigIntegerField(
                blank=True,
                help_text="positive: ahead of the server; null: unknown, or up to 90 s",
                null=True,
            ),
        ),
        # Those of before are of results, and no request would end them.
        migrations.RunSQL("UPDATE benchapp_host SET clock_offset_s = NULL", migrations.RunSQL.noop),
    ]
