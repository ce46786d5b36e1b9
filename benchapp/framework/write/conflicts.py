"""What a write refuses: conflicts with concurrent changes, and invalid values.

To avoid deadlocks, rows are locked in this order: submissions, runs, series, the lock of incidents (`lock_incidents`),
changes, incidents, subscriptions, notices, hosts, run requests; rows of one table by id. The retry covers conflicts
that this order cannot avoid.
"""

import random
import time
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

import structlog
from django.db import OperationalError, connection
from psycopg.errors import DeadlockDetected, SerializationFailure

log = structlog.get_logger(__name__)

_ATTEMPTS_MAXIMUM: Final = 5
# Random, with a maximum that doubles on each attempt, so that the same transactions do not collide again.
_PAUSE_S: Final = 0.02
# pg_advisory lock: "grop".
_INCIDENTS_LOCK: Final = 0x67726F70

_P = ParamSpec("_P")
_T = TypeVar("_T")


def is_conflict(error: BaseException) -> bool:
    """Return whether PostgreSQL rolled back a transaction because of a concurrent one; the database is fine."""
    return isinstance(error, OperationalError) and isinstance(
        error.__cause__, DeadlockDetected | SerializationFailure
    )


def retry_conflicts(step: Callable[_P, _T]) -> Callable[_P, _T]:
    """Retry a function whose writes are one transaction after a deadlock, at most five times.

    Not inside the transaction of a caller, which is rolled back as a whole: its own caller retries it.
    """

    @wraps(step)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        attempt = 1
        while True:
            try:
                return step(*args, **kwargs)
            except OperationalError as error:
                if not is_conflict(error) or attempt >= _ATTEMPTS_MAXIMUM or connection.in_atomic_block:
                    raise
                log.warning("transaction.conflict", step=step.__qualname__, attempt=attempt)
            time.sleep(random.uniform(0, _PAUSE_S * 2**attempt))
            attempt += 1

    return run


def end_if_frozen() -> None:
    """Have PostgreSQL end this transaction if its process does nothing in it for 40 s, which releases its locks.

    A process that is frozen holds its locks until the time limit of its task, and all that need the same rows wait. For
    this transaction alone: poolers refuse the setting as a parameter of the connection.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', '40s', true)")


def lock_incidents() -> None:
    """Take the lock of grouping and triage until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_INCIDENTS_LOCK])


class BadValue(Exception):
    """An invalid value; the message gives the reason. field: name or path, as `panels/0/query`; "" for the whole."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field

    @property
    def pointer(self) -> str:
        """Return the JSON pointer of the value, "" for the whole."""
        return f"/{self.field}" if self.field else ""
