"""Arrays of numbers as parameters of statements, in PostgreSQL's binary form: psycopg writes lists one by one."""

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Literal

import numpy as np
from django.db import connection
from numpy.typing import NDArray
from psycopg import Cursor as PsycopgCursor
from psycopg.abc import DumperKey, PyFormat
from psycopg.adapt import Dumper
from psycopg.pq import Format

ArrayType = Literal["float8", "int8", "timestamptz"]

# Ids of the types of the elements and of their arrays in PostgreSQL.
_OIDS: Final[dict[ArrayType, tuple[int, int]]] = {
    "float8": (701, 1022),
    "int8": (20, 1016),
    "timestamptz": (1184, 1185),
}
# Number of dimensions, whether there are nulls, type of the elements, number of these, index of the first one.
_HEADER: Final = Struct(">iiIii")


@dataclass(frozen=True, slots=True)
class PackedArray:
    """A parameter: values of one dimension, 8 bytes each; timestamptz: µs since 2000."""

    values: NDArray[np.float64] | NDArray[np.int64]
    type: ArrayType


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def get_key(self, obj: PackedArray, format: PyFormat) -> DumperKey:
        return (PackedArray, obj.type)  # type: ignore[return-value]

    def upgrade(self, obj: PackedArray, format: PyFormat) -> "_ArrayDumper":
        dumper = _ArrayDumper(PackedArray)
        dumper.oid = _OIDS[obj.type][1]
        return dumper

    def dump(self, obj: PackedArray) -> bytes:
        elements = np.empty(
            len(obj.values), np.dtype([("size", ">i4"), ("value", obj.values.dtype.newbyteorder(">"))])
        )
        elements["size"], elements["value"] = 8, obj.values
        return _HEADER.pack(1, 0, _OIDS[obj.type][0], len(elements), 1) + elements.tobytes()


def execute_packed(statement: str, parameters: Mapping[str, Any]) -> None:
    """Execute a statement with parameters some of which are packed arrays."""
    with connection.wrap_database_errors, PsycopgCursor(connection.connection) as cursor:
        cursor.adapters.register_dumper(PackedArray, _ArrayDumper)
        cursor.execute(statement, parameters)
