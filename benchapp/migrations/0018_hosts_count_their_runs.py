"""Store the number of runs of each host, so that the list of hosts does not count them."""

from django.db import migrations, models

_COUNT = (
    "UPDATE benchapp_host SET run_count = counted.count FROM"
    " (SELECT host_id, count(*) AS count FROM benchapp_run GROUP BY host_id) AS counted"
    " WHERE benchapp_host.id = counted.host_id"
)


class Migration(migrations.Migration):
    """One aggregate over the runs, from an index."""

    dependencies = [("benchapp", "0017_incidents_have_a_manual_severity")]

    operations = [
        migrations.AddField(
            model_name="host",
            name="run_count",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.RunSQL(_COUNT, migrations.RunSQL.noop),
    ]
