"""Rankings of layouts can be pinned and saved as views."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0049_study_snapshots"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="pinnedchart",
            name="pinned_chart_kind_is_known",
        ),
        migrations.RemoveConstraint(
            model_name="savedview",
            name="saved_view_kind_is_known",
        ),
        # Earlier versions do not have this kind.
        migrations.RunSQL(
            migrations.RunSQL.noop,
            "DELETE FROM benchapp_pinnedchart WHERE kind = 'layouts';"
            " DELETE FROM benchapp_savedview WHERE kind = 'layouts'",
        ),
        migrations.AlterField(
            model_name="pinnedchart",
            name="kind",
            field=models.CharField(
                choices=[
                    ("scaling", "Scaling"),
                    ("matrix", "Matrix"),
                    ("history", "History"),
                    ("compare", "Comparison"),
                    ("layouts", "Ranking of layouts"),
                ],
                max_length=7,
            ),
        ),
        migrations.AlterField(
            model_name="savedview",
            name="kind",
            field=models.CharField(
                choices=[
                    ("scaling", "Scaling"),
                    ("matrix", "Matrix"),
                    ("history", "History"),
                    ("compare", "Comparison"),
                    ("layouts", "Ranking of layouts"),
                ],
                max_length=7,
            ),
        ),
        migrations.AddConstraint(
            model_name="pinnedchart",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["scaling", "matrix", "history", "compare", "layouts"])),
                name="pinned_chart_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["scaling", "matrix", "history", "compare", "layouts"])),
                name="saved_view_kind_is_known",
            ),
        ),
    ]
