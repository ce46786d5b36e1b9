"""Let the workers summarise every series that was measured before there were summaries."""

from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def mark_series(_apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Mark the series that have measurements; the workers do the work, bit by bit."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("UPDATE benchapp_series SET summary_is_due = TRUE WHERE last_at IS NOT NULL")


class Migration(migrations.Migration):
    """One statement: a series is a row per thousands of measurements."""

    dependencies = [("benchapp", "0007_summaries_studies_and_exclusion")]

    operations = [migrations.RunPython(mark_series, migrations.RunPython.noop)]
