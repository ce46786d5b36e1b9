"""Versions of series, for ETags and for keys of cached results."""

from collections.abc import Sequence

from benchapp.framework.read.binary_columns import fetch_rows


def read_series_versions(series_ids: Sequence[int]) -> dict[int, str]:
    """Return the version of each series: it differs after every change of a point. Without series that have no points.

    xmin is the transaction that last wrote the row; ctid is the position of the row, which differs after each write of
    one transaction. Whoever changes a point writes the row: reparsing changes values but neither count nor times.
    One query.
    """
    rows = fetch_rows(
        "SELECT id, concat_ws('.', xmin, ctid, extract(epoch FROM last_at))"
        " FROM benchapp_series WHERE id = ANY(%s) AND last_at IS NOT NULL",
        [list(series_ids)],
    )
    return dict(rows)
