"""What a series' version is, and what was computed of one: kept until the series changes."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Generic, TypeVar

from django.db import connection

T = TypeVar("T")


def read_series_versions(series_ids: Sequence[int]) -> dict[int, str]:
    """Return for each series text that changes whenever a point of it does; without those that have no points.

    xmin is the transaction that last wrote the row, ctid the row's place, which tells apart two writings of one
    transaction. Whoever changes a point writes the row: renormalising changes values but neither count nor times.
    One query.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, concat_ws('.', xmin, ctid, extract(epoch FROM last_at))"
            " FROM benchapp_series WHERE id = ANY(%s) AND last_at IS NOT NULL",
            [list(series_ids)],
        )
        return dict(cursor.fetchall())


class VersionedCache(Generic[T]):
    """Values by series, version and what else they depend on, in this process; those asked for least lately fall out.

    An entry is never stale, as its version would be another: none is ever taken out by hand.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[int, str, object], T] = OrderedDict()
        self._lock = Lock()

    def read(
        self, versions: Mapping[int, str], about: object, *, load: Callable[[list[int]], Mapping[int, T]]
    ) -> dict[int, T]:
        """Return the value of each series; `load` makes those that are missing, in one call."""
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
