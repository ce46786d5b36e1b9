"""Name the text of each chart of a study `text`."""

from django.db import migrations

_RENAME = """
UPDATE benchapp_study SET panels = (
    SELECT jsonb_agg(
        CASE WHEN jsonb_exists(panel, '{old}')
            THEN (panel - '{old}') || jsonb_build_object('{new}', panel -> '{old}')
            ELSE panel
        END ORDER BY place
    )
    FROM jsonb_array_elements(panels) WITH ORDINALITY AS each (panel, place)
)
WHERE jsonb_path_exists(panels, '$[*].{old}')
"""


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0025_study_text")]

    operations = [
        migrations.RunSQL(
            _RENAME.format(old="words", new="text"), reverse_sql=_RENAME.format(old="text", new="words")
        )
    ]
