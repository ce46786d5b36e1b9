"""Pages of current levels and detection results have room for a new version of each row.

Each run updates these rows, and no indexed column of them: a version in the same page needs no entry in any index.
"""

from django.db import migrations

_TABLES = ("benchapp_level", "benchapp_detectionresult")


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0053_layout_answers"),
    ]

    operations = [
        # For pages that are written from now on: rows that are updated move there.
        migrations.RunSQL(
            [f"ALTER TABLE {table} SET (fillfactor = 50)" for table in _TABLES],
            [f"ALTER TABLE {table} RESET (fillfactor)" for table in _TABLES],
        ),
    ]
