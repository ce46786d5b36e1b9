"""Find at once what an older parser read, in a table of millions."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Index stored submissions whose body is kept by the version of their parser."""

    dependencies = [("benchapp", "0005_failed_runs_bear_their_badge")]

    operations = [
        migrations.AddIndex(
            model_name="submission",
            index=models.Index(
                condition=models.Q(("body__isnull", False), ("state", "stored")),
                fields=["parser_version", "received_at"],
                name="submission_by_parser",
            ),
        ),
    ]
