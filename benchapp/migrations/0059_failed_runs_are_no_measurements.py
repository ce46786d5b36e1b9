"""Mark the runs that failed although no job reported an error, and all measurements of each failed run.

fio was killed or cut, ended with another status than 0, or its report is incomplete: their values were in levels. Workers
read runs again whose submission still has its body; this marks the others, too, and all at once.

Not one transaction, and a few thousand runs a statement: no lock is held for long, and after a break it goes on where
runs are not marked yet.
"""

from collections.abc import Iterator
from typing import Any, Final

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.utils import CursorWrapper

_BATCH_SIZE: Final = 5_000
_SIGNAL: Final = r"(?n)^fio: (?:terminating on signal |pid=\d{1,10}, got signal=)(\d{1,2})\y"
# As pipeline.normalize.failure decided when this migration was made.
_MARK_RUNS: Final = """
UPDATE benchapp_run AS run SET error = -1, command = run.command || jsonb_build_object('failure', failed.reason),
 badges = ARRAY['failed-job']::varchar[] || array_remove(run.badges, 'failed-job')
FROM (
 SELECT id, coalesce(
  'fio was ' || substring(command->>'stderr' from '(?n)^bench-agent: (stopped .+)$'),
  CASE WHEN (command->>'signal')::bigint <> 0 THEN 'fio was killed by signal ' || (command->>'signal') END,
  CASE WHEN (command->>'exit_status')::bigint <> 0 THEN 'fio exited with status ' || (command->>'exit_status') END,
  'fio or one of its jobs was stopped by signal ' || substring(command->>'stderr' from %s),
  CASE WHEN is_partial THEN 'the report of fio is incomplete' END) AS reason
 FROM benchapp_run WHERE id > %s AND id <= %s AND error = 0) AS failed
WHERE run.id = failed.id AND failed.reason IS NOT NULL
"""
_MARK_MEASUREMENTS: Final = """
UPDATE benchapp_measurement AS measurement SET error = run.error,
 badges = jsonb_build_array(jsonb_build_object('code', 'failed-job', 'numbers', jsonb_build_object('error', run.error),
  'sentence', 'The run failed: ' || coalesce(nullif(run.command->>'failure', ''), 'fio reported error ' || run.error)
   || '. The values do not count in medians.')) || measurement.badges
FROM benchapp_run AS run WHERE run.id > %s AND run.id <= %s AND run.error <> 0
 AND measurement.run_id = run.id AND measurement.error = 0 RETURNING measurement.series_id
"""
_MARK_SERIES: Final = """
UPDATE benchapp_series AS series SET judging_is_due = TRUE, judging_resumes = FALSE, badges = ARRAY(
 SELECT DISTINCT badge->>'code' FROM jsonb_array_elements((
  SELECT badges FROM benchapp_measurement WHERE series_id = series.id ORDER BY started_at DESC, id DESC LIMIT 1
 )) AS badge ORDER BY 1)::varchar[]
WHERE id = ANY(%s)
"""


def mark_failures(_apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Mark runs, measurements and series; workers judge the series again."""
    with schema_editor.connection.cursor() as cursor:
        for span in _list_spans(cursor):
            # Measurements of a run that is marked already may not be, after a break.
            cursor.execute(_MARK_RUNS, [_SIGNAL, *span])
            cursor.execute(_MARK_MEASUREMENTS, span)
            series_ids = sorted({series_id for (series_id,) in cursor.fetchall()})
            cursor.execute(_MARK_SERIES, [series_ids])


def _list_spans(cursor: CursorWrapper) -> Iterator[tuple[int, int]]:
    """Yield ranges of ids that hold so many runs each, however wide the gaps are; left is exclusive."""
    last = 0
    while True:
        cursor.execute(
            "SELECT max(id) FROM (SELECT id FROM benchapp_run WHERE id > %s ORDER BY id LIMIT %s) AS batch",
            [last, _BATCH_SIZE],
        )
        (end,) = cursor.fetchone()
        if end is None:
            return
        yield last, end
        last = end


class Migration(migrations.Migration):
    """Mark failed runs; going back leaves the marks, as they are true."""

    atomic = False

    dependencies = [("benchapp", "0058_signed_links")]

    operations = [migrations.RunPython(mark_failures, migrations.RunPython.noop, atomic=False, elidable=True)]
