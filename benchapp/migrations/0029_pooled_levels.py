"""Store when pooled levels of a host or pool were evaluated, and the pooled levels of an incident."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0028_text_in_stored_incidents_and_notices")]

    operations = [
        migrations.CreateModel(
            name="PooledEvaluation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scope", models.CharField(max_length=260, unique=True)),
                ("evaluated_to_at", models.DateTimeField()),
                ("interval_s", models.FloatField()),
            ],
        ),
        migrations.AddField(
            model_name="incident", name="pooled_levels", field=models.JSONField(default=list)
        ),
    ]
