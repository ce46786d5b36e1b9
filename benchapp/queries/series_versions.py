"""Versions of series, and a cache of values by version."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Generic, TypeVar

from benchapp.queries.binary_columns import fetch_rows

T = TypeVar("T")


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


class VersionedCache(Generic[T]):
    """A cache of values by series, version and parameters, in this process; the least recently read are dropped.

    An entry is never stale, as a changed series has another version: there is no invalidation step.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[int, str, object], T] = OrderedDict()
        self._lock = Lock()

    def read(
        self, versions: Mapping[int, str], about: object, *, load: Callable[[list[int]], Mapping[int, T]]
    ) -> dict[int, T]:
        """Return the value of each series; `load` reads the missing ones in one call. about: the parameters."""
        with self._lock:
            found = {
                series_id: self._kept[key]
                for series_id, version in versions.items()
                if (key := (series_id, version, about)) in self._kept
            }
            for series_id in found:
                self._kept.move_to_end((series_id, versions[series_id], about))
        missing = [series_id for series_id in versions if series_id not in found]
        if not missing:
            return found
        loaded = load(missing)
        with self._lock:
            for series_id in missing:
                self._kept[series_id, versions[series_id], about] = loaded[series_id]
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return found | {series_id: loaded[series_id] for series_id in missing}
