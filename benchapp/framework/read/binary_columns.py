"""Query columns as arrays in PostgreSQL's binary format, and results of expensive queries in Django's cache."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final, TypeVar, cast

import numpy as np
from django.core.cache import cache
from django.db import connection
from numpy.typing import NDArray
from psycopg import Cursor as PsycopgCursor
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format

from benchapp.models import shown_to
from benchapp.models.limits import read_limit

# PostgreSQL counts microseconds from 2000.
EPOCH_2000_US: Final = 946_684_800_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Header of a one-dimensional array: dimensions, nulls, type, length, lower bound.
_HEADER_BYTES: Final = 20
_KINDS: Final[Mapping[str, np.dtype[Any]]] = {
    "bigint": np.dtype(">i8"),
    "integer": np.dtype(">i4"),
    "double precision": np.dtype(">f8"),
    "timestamptz": np.dtype(">i8"),
    "boolean": np.dtype("?"),
}


def to_us(at: datetime) -> int:
    """Return a moment as microseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def from_us(at_us: int) -> datetime:
    """Return the moment of so many microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=int(at_us))


class _Raw(Loader):
    """Return an array as received from PostgreSQL."""

    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


def fetch_arrays(
    rows: sql.Composable, values: Sequence[object], *, columns: Mapping[str, str]
) -> dict[str, NDArray[Any]]:
    """Return the columns of a query as arrays, in the order of its rows; one query, beside Django's cursor.

    rows: a SELECT. columns: their names → bigint, integer, double precision, boolean or timestamptz
    (then microseconds since 1970); without nulls. 100 000 rows of six columns: 60 ms, and a second as rows.
    """
    query = sql.SQL("SELECT {arrays} FROM ({rows}) AS rows").format(
        arrays=sql.SQL(", ").join(sql.SQL("array_agg({})").format(sql.Identifier(name)) for name in columns),
        rows=rows,
    )
    connection.ensure_connection()
    with connection.wrap_database_errors, PsycopgCursor(connection.connection) as cursor:
        cursor.format = Format.BINARY
        for kind in ("int8", "int4", "float8", "timestamptz", "bool"):
            cursor.adapters.register_loader(cursor.adapters.types[kind].array_oid, _Raw)
        row = cursor.execute(query, values).fetchone()
    arrays = row or (None,) * len(columns)
    return {
        name: _read_array(array, kind) for (name, kind), array in zip(columns.items(), arrays, strict=True)
    }


def write_ids(ids: Iterable[int]) -> str:
    """Return ids as the text of an array, for a parameter that is cast to bigint[].

    psycopg takes three times as long to write a list of 4 000 numbers.
    """
    return f"{{{','.join(map(str, ids))}}}"


def fetch_rows(query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a query, which PostgreSQL sends in its binary format. JSON is read.

    The web process prepares queries that it repeats (BENCHAPP_PREPARED_STATEMENTS).

    As text, PostgreSQL writes each number in decimal digits, and Django reads each time in Python: for 200 rows with
    three times, 2 ms more; for 1 000 points of 8 metrics, 6 ms.
    """
    connection.ensure_connection()
    # Django's own cursor binds values in the client, which excludes the binary format.
    plain = PsycopgCursor(connection.connection)
    plain.format = Format.BINARY
    make_cursor = connection.make_debug_cursor if connection.queries_logged else connection.make_cursor
    with make_cursor(plain) as cursor:  # type: ignore[arg-type]
        cursor.execute(query, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _read_array(array: bytes | None, kind: str) -> NDArray[Any]:
    element = _KINDS[kind]
    packed = np.dtype([("length", ">i4"), ("value", element)])
    content = np.frombuffer(b"" if array is None else array[_HEADER_BYTES:], dtype=packed)["value"]
    found: NDArray[Any] = content.astype(element.newbyteorder("="))
    return found + EPOCH_2000_US if kind == "timestamptz" else found


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
    """Return a key of any length and characters, and of the reader's limit; parts: told apart by their repr."""
    return sha256(repr((read_limit(), *parts)).encode()).hexdigest()
