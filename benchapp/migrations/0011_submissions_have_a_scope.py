"""Add the scope of submissions to databases that were created before 0001 had it.

0001 was edited after it had landed: a database that had applied its first variant never got this column, and every
POST failed. Where the column exists, which is everywhere else, nothing is done and no lock is taken.
"""

from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

_TABLE = "benchapp_submission"


def add_scope(_apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Add the column as 0001 creates it today, and fill it where results were stored: from their series."""
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        columns = connection.introspection.get_table_description(cursor, _TABLE)
        if any(column.name == "scope" for column in columns):
            return
        cursor.execute("ALTER TABLE benchapp_submission ADD COLUMN scope varchar(260) DEFAULT '' NOT NULL")
        cursor.execute("ALTER TABLE benchapp_submission ALTER COLUMN scope DROP DEFAULT")
        # The others stay empty, which stands for the scope that the host has when they are read.
        cursor.execute(
            "UPDATE benchapp_submission SET scope = benchapp_series.scope"
            " FROM benchapp_run"
            " JOIN benchapp_measurement ON benchapp_measurement.run_id = benchapp_run.id"
            " JOIN benchapp_series ON benchapp_series.id = benchapp_measurement.series_id"
            " WHERE benchapp_run.submission_id = benchapp_submission.id"
        )


class Migration(migrations.Migration):
    """The state of the models has the column since 0001; only databases may lack it."""

    dependencies = [("benchapp", "0010_expectations_have_a_trail")]

    operations = [migrations.RunPython(add_scope, migrations.RunPython.noop)]
