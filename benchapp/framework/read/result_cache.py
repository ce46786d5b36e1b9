"""Results of expensive queries in Django's cache, which each web process has for itself; others have none."""

from collections.abc import Callable
from hashlib import sha256
from typing import Final, TypeVar, cast

from django.core.cache import cache

from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.models import shown_to

T = TypeVar("T")

CHART_S: Final = 10
DAYS_S: Final = 60
STUDY_S: Final = 300
_VERSION_S: Final = 300
# Several, as a record may be committed after one with a larger number.
_READ_NEWEST_WRITES: Final = "SELECT id FROM benchapp_auditrecord ORDER BY id DESC LIMIT 20"


def read_cached(*key: object, load: Callable[[], T], age_s: int) -> T:
    """Return the result of `load`, or an earlier one for this key that is at most age_s old; one query.

    key: a name and all arguments, including what the result has of its reader. Results that arrive are seen after
    age_s, writes of people at once: the key includes the newest audit records. No result names a person.
    """

    def load_for_all() -> T:
        with shown_to(lambda: True):
            return load()

    return cast(T, cache.get_or_set(make_key(*key, fetch_rows(_READ_NEWEST_WRITES)), load_for_all, age_s))


def read_versioned(*key: object, load: Callable[[], T]) -> T:
    """Return the result of `load`, or an earlier one for this key, which includes the version of all that is read."""
    return cast(T, cache.get_or_set(make_key(*key), load, _VERSION_S))


def make_key(*parts: object) -> str:
    """Return a key of any length and characters; parts: told apart by their repr."""
    return sha256(repr(parts).encode()).hexdigest()
