"""Incidents are suspected, last, or come and go; subscriptions choose how certain they are to be."""

import django.core.validators
from django.db import migrations, models

# What was told before: an incident that was confirmed lasts; kinds of notices become phases.
_CONFIRMED = (
    "UPDATE benchapp_incident SET course = 'lasting' WHERE id IN"
    " (SELECT incident_id FROM benchapp_incidentevent WHERE kind = 'confirmed' AND undone_at IS NULL)"
)
_TOLD = (
    "UPDATE benchapp_notice SET body = jsonb_set(body, '{kind}', CASE WHEN body->>'kind' IN ('incident.opened',"
    " 'incident.grew', 'incident.reopened') THEN '\"incident.worse\"'::jsonb ELSE '\"incident.over\"'::jsonb END)"
    " WHERE incident_id IS NOT NULL"
)


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0086_series_are_found_by_layout"),
    ]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="course",
            field=models.CharField(
                choices=[
                    ("suspected", "Suspected: not confirmed by further runs"),
                    ("lasting", "Lasting: confirmed by further runs"),
                    ("intermittent", "Comes and goes"),
                ],
                default="suspected",
                max_length=12,
            ),
        ),
        migrations.AddField(
            model_name="subscription",
            name="further_runs",
            field=models.PositiveSmallIntegerField(
                default=3, validators=[django.core.validators.MaxValueValidator(50)]
            ),
        ),
        migrations.RunSQL(_CONFIRMED, migrations.RunSQL.noop),
        migrations.RunSQL(_TOLD, migrations.RunSQL.noop),
    ]
