"""Workloads of reports without fio's options were stored as "read", "write", "rw" or "trim", as sequential ones are.

They become "unknown-read" and so on, as new results of them are stored: it is unknown whether they were random. Their
keys, and those of their series, change with them, so that the series continue.
"""

import hashlib
from typing import Any, Final

import orjson
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

_PREFIX: Final = "unknown-"
_COLUMNS: Final = (
    *("rw", "block_size_bytes", "block_size_text", "iodepth", "numjobs", "file_size_bytes", "file_size_text"),
    *("is_direct", "engine", "read_share_percent", "runtime_s", "options"),
)
# Reports that print some options, as text does, have the engine, and their rw is known.
_FIND_WORKLOADS: Final = f"""
SELECT id, {", ".join(_COLUMNS[:-1])}, options::text FROM benchapp_workload
WHERE rw = ANY(%s) AND engine = '' AND options->>'options' = 'not-reported' ORDER BY id
"""  # noqa: S608
_CHANGE_WORKLOAD: Final = "UPDATE benchapp_workload SET rw = %s, key = %s WHERE id = %s"
_FIND_SERIES: Final = """
SELECT series.id, scope, target.key, direction FROM benchapp_series AS series
JOIN benchapp_target AS target ON target.id = series.target_id WHERE workload_id = %s
"""
_CHANGE_SERIES: Final = "UPDATE benchapp_series SET rw = %s, key = %s WHERE id = %s"
_OLD: Final = ("read", "write", "trim", "rw")


def name_unknown(_apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Name the patterns that are unknown."""
    _rename(schema_editor, {name: f"{_PREFIX}{name}" for name in _OLD})


def forget_unknown(_apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Name them as before."""
    _rename(schema_editor, {f"{_PREFIX}{name}": name for name in _OLD})


def _rename(schema_editor: BaseDatabaseSchemaEditor, names: dict[str, str]) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_FIND_WORKLOADS, [list(names)])
        for workload_id, rw, *values, options in cursor.fetchall():
            fields = dict(zip(_COLUMNS, (names[rw], *values, orjson.loads(options)), strict=True))
            key = _hash(fields)
            cursor.execute(_CHANGE_WORKLOAD, [names[rw], key, workload_id])
            cursor.execute(_FIND_SERIES, [workload_id])
            for series_id, scope, target_key, direction in cursor.fetchall():
                identity = {"version": 1, "scope": scope, "target": bytes(target_key).hex()}
                series_key = _hash({**identity, "workload": key.hex(), "direction": direction})
                cursor.execute(_CHANGE_SERIES, [names[rw], series_key, series_id])


def _hash(fields: dict[str, Any]) -> bytes:
    """Return the key as of pipeline.identity when this migration was made; none of the numbers is a fraction."""
    return hashlib.sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).digest()


class Migration(migrations.Migration):
    """Name unknown patterns."""

    dependencies = [("benchapp", "0064_levels_know_their_kind_of_latency")]

    operations = [migrations.RunPython(name_unknown, forget_unknown, elidable=True)]
