"""Store the typical metric of an incident and the sizes of its changes by metric; set by its next evaluation."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0022_expected_changes_of_a_metric")]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="metric",
            field=models.CharField(blank=True, default="", max_length=30),
        ),
        migrations.AddField(model_name="incident", name="metric_sizes", field=models.JSONField(default=list)),
    ]
