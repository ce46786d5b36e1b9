"""Columns that a web process keeps of the series that it has read, until their rows are written anew.

Nothing here is ever stale, whichever process writes: a reader brings the versions of the rows that it sees, and what is
kept of another version is read anew. A version is the transaction that wrote the row (xmin) and the row's place in its
table (ctid). Who changes what a series stands at writes the series' row in the same transaction (`pipeline.summarize`,
`pipeline.store`), so the version of the one tells of both. The place tells apart two writings of one transaction, and
stands for the number of the transaction once that has gone round: to be mistaken for another, a row would have to be
written again at the same place by a transaction that is a multiple of 2^32 later, with nobody asking in between.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from benchapp.queries.charts.series_table import Codes


@dataclass(frozen=True, slots=True)
class Versions:
    """Rows as somebody sees them: their ids, all different, and which writing of each it is."""

    ids: NDArray[np.int64]
    written_by: NDArray[np.int64]
    places: NDArray[np.int64]

    def take(self, chosen: NDArray[Any]) -> "Versions":
        """Return those of some of the rows; chosen: as numpy takes them."""
        return Versions(self.ids[chosen], self.written_by[chosen], self.places[chosen])

    def join(self, other: "Versions") -> "Versions":
        """Return those of these rows and, behind them, of the other's."""
        return Versions(
            np.concatenate((self.ids, other.ids)),
            np.concatenate((self.written_by, other.written_by)),
            np.concatenate((self.places, other.places)),
        )


@dataclass(frozen=True, slots=True)
class Columns:
    """Some columns of rows, each row as of its version; what is kept is in ascending order of the ids."""

    versions: Versions
    arrays: Mapping[str, NDArray[Any]]
    shared: Mapping[str, Codes]

    def __len__(self) -> int:
        return len(self.versions.ids)

    def locate(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return where the rows with these ids are, and which of them are here at all."""
        if not len(self):
            return np.zeros(len(ids), dtype=np.int64), np.zeros(len(ids), dtype=np.bool_)
        places = np.minimum(np.searchsorted(self.versions.ids, ids), len(self) - 1)
        return places, self.versions.ids[places] == ids

    def is_current(self, wanted: Versions) -> NDArray[np.bool_]:
        """Say of which rows the version here is the one that is wanted."""
        places, is_here = self.locate(wanted.ids)
        if not len(self):
            return is_here
        own = self.versions.take(places)
        is_same: NDArray[np.bool_] = (
            is_here & (own.written_by == wanted.written_by) & (own.places == wanted.places)
        )
        return is_same

    def has_all(self, wanted: Versions) -> bool:
        """Say whether all rows are here in the version that is wanted, and the columns are known at all."""
        return bool(self.arrays) and bool(self.is_current(wanted).all())

    def take(self, chosen: NDArray[Any]) -> "Columns":
        """Return some of the rows; chosen: as numpy takes them, in an order of one's own."""
        return Columns(
            self.versions.take(chosen),
            {name: array[chosen] for name, array in self.arrays.items()},
            {name: codes.take(chosen) for name, codes in self.shared.items()},
        )

    def join(self, fresh: "Columns") -> "Columns":
        """Return these rows and fresh ones, none of which is here."""
        if not len(self):
            return fresh.take(np.argsort(fresh.versions.ids))
        joined = Columns(
            self.versions.join(fresh.versions),
            {name: np.concatenate((array, fresh.arrays[name])) for name, array in self.arrays.items()},
            {name: codes.join(fresh.shared[name]) for name, codes in self.shared.items()},
        )
        return joined.take(np.argsort(joined.versions.ids))

    def compact(self) -> "Columns":
        """Return the same rows without the values that none of them has any more."""
        return Columns(
            self.versions, self.arrays, {name: codes.compact() for name, codes in self.shared.items()}
        )


_NONE = np.zeros(0, dtype=np.int64)


class SeriesColumnCache:
    """Some columns of the rows that were read last, in this process; for many threads.

    load: reads those of some ids, each with its version, without those that there are not.
    """

    def __init__(self, load: Callable[[NDArray[np.int64]], Columns]) -> None:
        self._load = load
        self._lock = Lock()
        # Never changed, only replaced: who has it need not hold the lock.
        self._columns = Columns(Versions(_NONE, _NONE, _NONE), {}, {})

    def __len__(self) -> int:
        return len(self._columns)

    def read(self, wanted: Versions) -> Columns:
        """Return the rows of these ids in their order, as wanted or newer; what is not kept is read.

        Without those that have been deleted since their versions were read.
        """
        columns = self._columns
        if not columns.has_all(wanted):
            # Who waits here finds what the other has read.
            with self._lock:
                columns = self._renew(wanted)
        places, is_there = columns.locate(wanted.ids)
        return columns.take(places[is_there])

    def _renew(self, wanted: Versions) -> Columns:
        columns = self._columns
        if columns.has_all(wanted):
            return columns
        is_current = columns.is_current(wanted)
        fresh = self._load(wanted.ids[~is_current])
        stays = ~np.isin(columns.versions.ids, wanted.ids[~is_current], assume_unique=True)
        columns = columns.take(stays).join(fresh)
        if len(columns) > settings.KEPT_SERIES:
            # Begun anew with what is asked for now; where even that is too much, nothing is kept of it.
            places, is_there = columns.locate(wanted.ids)
            columns = columns.take(np.sort(places[is_there])).compact()
        if len(columns) <= settings.KEPT_SERIES:
            self._columns = columns
        return columns
