"""Results of queries that are returned again as long as no transaction has written anything since."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import datetime
from threading import Lock
from typing import Any, Final, TypeVar

from django.utils import timezone

from benchapp.queries.binary_columns import fetch_rows

T = TypeVar("T")

# For a value that another request loads. Then both load it: a request that fails after its time limit delays no others.
_WAIT_S: Final = 5.0
# A default matrix has 120 KB, a page of the series grid 700 KB.
_MAXIMUM_BYTES: Final = 24 * 2**20
# pg_current_snapshot names the first transaction that has not ended and all before it that have not: it is another one
# as soon as any transaction that has written ends. Transactions are numbered for the whole server, and anew by another
# server behind the same address; a standby does not list those that have not ended.
_READ_SNAPSHOT: Final = (
    "SELECT concat_ws(' ', current_database(), pg_postmaster_start_time(), pg_current_snapshot())"
    " WHERE pg_current_xact_id_if_assigned() IS NULL AND NOT pg_is_in_recovery()"
)


def read_snapshot() -> str | None:
    """Return which transactions are visible; the same text means the same rows. One query.

    None if rows can change without another text: in a transaction that has written, and on a standby.
    """
    rows = fetch_rows(_READ_SNAPSHOT)
    return rows[0][0] if rows else None


def read_minute() -> datetime:
    """Return the beginning of the current minute: for the keys of values that depend on the time, too."""
    return timezone.now().replace(second=0, microsecond=0)


class _Turn:
    """Requests that load a key of one snapshot or wait for it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.requests = 0
        # The value, for those that wait: it is not kept if another request read a later snapshot meanwhile.
        self.loaded: list[Any] = []


class SnapshotCache:
    """Values of one snapshot by key, in this process; the least recently read are dropped beyond maximum_bytes.

    A value of more bytes than that is not kept, and drops no other. Requests that miss the same value of the same
    snapshot at the same time load it once.

    A value is never stale: the snapshot is read before the value, and one committed write of any table makes another
    snapshot, which drops all values. There is no invalidation step, so none can be missed.
    """

    def __init__(self, maximum_bytes: int = _MAXIMUM_BYTES) -> None:
        self._maximum_bytes = maximum_bytes
        self._snapshot: str | None = None
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._turns: dict[Hashable, _Turn] = {}
        self._lock = Lock()

    def read(self, key: Hashable, load: Callable[[], T], *, estimate_bytes: Callable[[T], int]) -> T:
        """Return the value of a key; `load` reads it if there is none. One query beside those of `load`.

        key: the function and all of its arguments, and the time that the value depends on (`read_minute`). Nobody may
        change the value.
        """
        snapshot = read_snapshot()
        if snapshot is None:
            return load()
        with self._lock:
            if snapshot != self._snapshot:
                self._snapshot, self._bytes = snapshot, 0
                self._kept.clear()
            elif key in self._kept:
                self._kept.move_to_end(key)
                kept: T = self._kept[key][0]
                return kept
        # Not by the key alone: a request after a write cannot use the value of one before it, and does not wait for it.
        with self._take_turn((snapshot, key)) as turn:
            with self._lock:
                # Meanwhile another request may have loaded it.
                if snapshot == self._snapshot and key in self._kept:
                    return self._kept[key][0]  # type: ignore[no-any-return]
            if not turn.loaded:
                turn.loaded.append(self._load(snapshot, key, load, estimate_bytes))
            return turn.loaded[0]  # type: ignore[no-any-return]

    @contextmanager
    def _take_turn(self, key: Hashable) -> Iterator[_Turn]:
        """Let one request load a value, and others for the same value wait for it, but not long."""
        with self._lock:
            turn = self._turns.setdefault(key, _Turn())
            turn.requests += 1
        has_turn = turn.lock.acquire(timeout=_WAIT_S)
        try:
            yield turn
        finally:
            if has_turn:
                turn.lock.release()
            with self._lock:
                turn.requests -= 1
                if not turn.requests:
                    del self._turns[key]

    def _load(
        self, snapshot: str, key: Hashable, load: Callable[[], T], estimate_bytes: Callable[[T], int]
    ) -> T:
        value = load()
        size = estimate_bytes(value)
        if size > self._maximum_bytes:
            return value
        with self._lock:
            # Meanwhile another request may have read a later snapshot, or, without waiting, the same value.
            if snapshot == self._snapshot and key not in self._kept:
                self._kept[key] = value, size
                self._bytes += size
                while self._bytes > self._maximum_bytes:
                    self._bytes -= self._kept.popitem(last=False)[1][1]
        return value


# Shared by all queries whose results are cached.
RESULTS: Final = SnapshotCache()
