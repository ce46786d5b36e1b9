"""Give failed runs, which were stored before there were badges, the one badge that their rows tell without the text.

Not one transaction, and a few thousand rows a statement: no lock is held for long, and after a break it goes on where
rows have none yet. `manage.py renormalize` finds the other badges.
"""

import json
import os
from collections.abc import Iterator
from typing import Any, Final

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.utils import CursorWrapper
from psycopg import sql

_BATCH_SIZE: Final = 5_000


def mark_failures(_apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Set the badge on failed measurements and runs, and on series whose newest measurement bears it."""
    with schema_editor.connection.cursor() as cursor:
        for span in _list_spans(cursor, "benchapp_measurement"):
            _mark_measurements(cursor, span)
        for span in _list_spans(cursor, "benchapp_run"):
            cursor.execute(
                "UPDATE benchapp_run SET badges = '{failed-job}'"
                " WHERE id > %s AND id <= %s AND error <> 0 AND badges = '{}'",
                span,
            )
        for span in _list_spans(cursor, "benchapp_series"):
            cursor.execute(
                "UPDATE benchapp_series SET badges = '{failed-job}' WHERE id > %s AND id <= %s AND badges = '{}'"
                ' AND (SELECT badges @> \'[{"code": "failed-job"}]\' FROM benchapp_measurement'
                "  WHERE series_id = benchapp_series.id ORDER BY started_at DESC, id DESC LIMIT 1)",
                span,
            )


def _list_spans(cursor: CursorWrapper, table: str) -> Iterator[tuple[int, int]]:
    """Yield ranges of ids that hold so many rows each, however wide the gaps are; left is exclusive."""
    last = 0
    while True:
        cursor.execute(
            sql.SQL(
                "SELECT max(id) FROM (SELECT id FROM {} WHERE id > %s ORDER BY id LIMIT %s) AS batch"
            ).format(sql.Identifier(table)),
            [last, _BATCH_SIZE],
        )
        (end,) = cursor.fetchone()
        if end is None:
            return
        yield last, end
        last = end


def _mark_measurements(cursor: CursorWrapper, span: tuple[int, int]) -> None:
    cursor.execute(
        "SELECT DISTINCT error FROM benchapp_measurement"
        " WHERE id > %s AND id <= %s AND error <> 0 AND badges = '[]'",
        span,
    )
    for (error,) in cursor.fetchall():
        cursor.execute(
            "UPDATE benchapp_measurement SET badges = %s::jsonb"
            " WHERE id > %s AND id <= %s AND error = %s AND badges = '[]'",
            [json.dumps([_describe_failure(error)]), *span, error],
        )


def _describe_failure(error: int) -> dict[str, Any]:
    # As analysis.validity wrote it when this migration was made.
    sentence = (
        f"fio ended the job with error {error} ({os.strerror(error)}): what it printed is not the whole test"
        " and counts in no median."
    )
    return {"code": "failed-job", "sentence": sentence, "numbers": {"error": error}}


class Migration(migrations.Migration):
    """Set the badge of failed jobs; going back leaves it, as it is true."""

    atomic = False

    dependencies = [("benchapp", "0004_hosts_know_their_schedule")]

    operations = [migrations.RunPython(mark_failures, migrations.RunPython.noop, atomic=False, elidable=True)]
