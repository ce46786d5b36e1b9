"""What the same series measured before a run, to hold its percentiles against."""

from typing import Final

from django.db.models.expressions import RawSQL

from benchapp.models import Measurement
from benchapp.queries.run_detail import MeasurementRow, RunDetail, list_measurements

# Of each series, how many measurements back a good one is looked for.
LOOKED_AT: Final = 50
# By the index measurement_by_series; in a run of equal ordinals the one of its own.
_BEFORE: Final = """
    SELECT good.id FROM benchapp_measurement own CROSS JOIN LATERAL (
      SELECT id FROM (
        SELECT id, started_at, ordinal, error, is_excluded FROM benchapp_measurement earlier
        WHERE earlier.series_id = own.series_id AND earlier.run_id <> own.run_id
          AND (earlier.started_at, earlier.id) < (own.started_at, own.id)
        ORDER BY started_at DESC, id DESC LIMIT %s
      ) AS newest
      WHERE error = 0 AND NOT is_excluded AND ordinal = own.ordinal ORDER BY started_at DESC, id DESC LIMIT 1
    ) AS good
    WHERE own.run_id = %s AND own.percentiles <> '{}'
"""


def read_before(run: RunDetail) -> dict[int, MeasurementRow]:
    """Return the last good measurement before each of a run that has percentiles, by the id of the run's; one query.

    Good: fio reported no error, and nobody excluded it. Left out where there is none among the 50 before, where it has
    no percentiles, and where they are of another kind of latency. No query where the run has no percentiles.
    """
    own = {(row.series_id, row.ordinal): row for row in run.measurements if row.percentiles}
    if not own:
        return {}
    before = RawSQL(_BEFORE, [LOOKED_AT, run.id])  # nosec B611 (a constant of this file; the values are parameters)
    found = list_measurements(Measurement.objects.filter(pk__in=before))
    pairs = [(own[row.series_id, row.ordinal], row) for row in found]
    return {
        after.id: before
        for after, before in pairs
        if before.percentiles and before.latency_kind == after.latency_kind
    }
