"""Transactions that PostgreSQL ended because they were in each other's way: tried again, as nothing of them was kept.

Whoever locks several rows takes them in this order, so that no two wait for each other: submissions, runs, series,
the lock of incidents (`group.lock_incidents`), changes, incidents, subscriptions, notices, hosts; several of one
table by their ids. What is tried again here is what that order does not reach.
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
# Doubled at each attempt and drawn at random, so that the same two do not meet again.
_PAUSE_S: Final = 0.02

_P = ParamSpec("_P")
_T = TypeVar("_T")


def is_conflict(error: BaseException) -> bool:
    """Say whether PostgreSQL ended a transaction for another one's sake: nothing is wrong with the database."""
    return isinstance(error, OperationalError) and isinstance(
        error.__cause__, DeadlockDetected | SerializationFailure
    )


def retry_conflicts(step: Callable[_P, _T]) -> Callable[_P, _T]:
    """Have a function whose writes are one transaction run again, five times at most, after a deadlock.

    Inside the transaction of a caller it is not: that one is lost as a whole, and its own caller tries it again.
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
            time.sleep(random.uniform(0, _PAUSE_S * 2**attempt))  # nosec B311 - no secret
            attempt += 1

    return run
