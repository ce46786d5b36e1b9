"""Notice a database that does not answer any more.

PostgreSQL limits statements itself (statement_timeout), but not while it is frozen; TCP is acknowledged by the kernel,
so keepalives notice nothing, either. As a statement may take long, a database hangs if it does not answer a new
connection.
"""

import time
from threading import Lock
from typing import Any, Final, TypeVar

import psycopg
from django.db import connection
from django.db.backends.postgresql.base import DatabaseWrapper as PostgresqlWrapper
from psycopg.abc import PQGen
from psycopg.errors import ConnectionTimeout, _WaitTimeout
from psycopg.waiting import Ready

_T = TypeVar("_T")

# Nearly all statements take milliseconds. With the two below: an answer within 4 s.
_PATIENCE_S: Final = 1.0
# The smallest that libpq knows.
_CONNECT_TIMEOUT_S: Final = 2
# For how long an answer counts, so that one of the threads that wait asks.
_ASKED_EVERY_S: Final = 1.0
_INTERVAL_S: Final = 0.1


class DatabaseHangs(psycopg.OperationalError):
    """PostgreSQL, or the network to it, does not answer."""

    def __init__(self) -> None:
        super().__init__("the database does not answer")


class DatabaseWrapper(PostgresqlWrapper):
    """Django's, which takes no connection of the pool while the database hangs: there will be none."""

    @property
    def pool(self) -> Any:
        """Return the pool, of watched connections."""
        self.settings_dict["OPTIONS"]["pool"].setdefault("connection_class", WatchedConnection)
        return super().pool

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a connection of the pool. Raises DatabaseHangs."""
        if _WATCH.still_hangs():
            raise DatabaseHangs
        return super().get_new_connection(conn_params)


class WatchedConnection(psycopg.Connection[Any]):
    """A connection of the pool. Its statements raise DatabaseHangs, and close it, once the database hangs."""

    def wait(self, gen: PQGen[_T], interval: float = _INTERVAL_S, timeout: float | None = None) -> _T:
        """Wait for a step of the protocol, as psycopg does."""
        try:
            return super().wait(gen, interval, _PATIENCE_S if timeout is None else timeout)
        except _WaitTimeout:
            if timeout is not None:
                raise
        return super().wait(self._continue(gen), interval)

    def _continue(self, gen: PQGen[_T]) -> PQGen[_T]:
        """Continue a step that waits. psycopg sends Ready.NONE after each interval in which nothing came."""
        ready: Ready | int = Ready.NONE
        while True:
            if not ready and _WATCH.hangs():
                self.close()
                raise DatabaseHangs
            try:
                wanted = gen.send(ready)
            except StopIteration as end:
                result: _T = end.value
                return result
            ready = yield wanted


class _Watch:
    """Whether the database hangs, asked at most once a second, by one thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._asked_at_s = -_ASKED_EVERY_S
        self._is_hanging = False

    def hangs(self) -> bool:
        """Return whether the database hangs."""
        with self._lock:
            return self._ask(_ASKED_EVERY_S)

    def still_hangs(self) -> bool:
        """Return whether the database that hung still does; does not wait for another thread that asks."""
        if not self._is_hanging or not self._lock.acquire(blocking=False):
            return self._is_hanging
        try:
            # Longer, so that a request that has just waited for the answer does not wait for another.
            return self._ask(2 * _ASKED_EVERY_S)
        finally:
            self._lock.release()

    def _ask(self, every_s: float) -> bool:
        if time.monotonic() - self._asked_at_s >= every_s:
            self._is_hanging = not _answers()
            self._asked_at_s = time.monotonic()
        return self._is_hanging


def _answers() -> bool:
    """Return whether the database answers a new connection; a refusal is an answer."""
    try:
        psycopg.connect(
            **{**connection.get_connection_params(), "connect_timeout": _CONNECT_TIMEOUT_S}
        ).close()
    except ConnectionTimeout:
        return False
    except psycopg.OperationalError:
        return True
    return True


_WATCH: Final = _Watch()
