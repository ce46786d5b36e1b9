"""Layouts whose RAID level was sent as "0", "RAID 0" or "no raid" become those of the agent: "raid0", "none".

New results are stored with "raid0"; without this they would begin new series. A series whose host has both spellings
keeps its own history: its values are not those of the other.
"""

import hashlib
from typing import Any, Final

import orjson
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

_COLUMNS: Final = (
    *("target_name", "volume_type", "volume_size_bytes", "volume_count", "provisioned_iops", "raid_level"),
    *("stripe_count", "chunk_size_bytes", "filesystem", "mount_options", "instance_type"),
)
_FIND_TARGETS: Final = f"""
SELECT id, substring(raid_level from '^(?:raid)?[\\s_-]*(\\d{{1,3}})$'), {", ".join(_COLUMNS)} FROM benchapp_target
WHERE raid_level = 'no raid' OR raid_level ~ '^(?:raid)?[\\s_-]*\\d{{1,3}}$' AND raid_level !~ '^raid\\d' ORDER BY id
"""  # noqa: S608
_FIND_SERIES: Final = """
SELECT series.id, scope, workload.key, direction FROM benchapp_series AS series
JOIN benchapp_workload AS workload ON workload.id = series.workload_id WHERE target_id = %s
"""
_CHANGE_SERIES: Final = """
UPDATE benchapp_series SET raid_level = %(level)s, target_id = %(target)s,
 key = CASE WHEN EXISTS (SELECT FROM benchapp_series WHERE key = %(key)s) THEN key ELSE %(key)s END
WHERE id = %(id)s
"""


def rename_levels(_apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Rename the levels of layouts and of their series, with their keys."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_FIND_TARGETS)
        for target_id, number, *values in cursor.fetchall():
            level = f"raid{number}" if number else "none"
            key = _hash({**dict(zip(_COLUMNS, values, strict=True)), "raid_level": level})
            cursor.execute("SELECT id FROM benchapp_target WHERE key = %s", [key])
            # It is there if a host has sent the new spelling, too.
            (other_id,) = cursor.fetchone() or (None,)
            if other_id is None:
                cursor.execute(
                    "UPDATE benchapp_target SET raid_level = %s, key = %s WHERE id = %s",
                    [level, key, target_id],
                )
            cursor.execute(_FIND_SERIES, [target_id])
            for series_id, scope, workload_key, direction in cursor.fetchall():
                identity = {"version": 1, "scope": scope, "target": key.hex(), "direction": direction}
                series_key = _hash({**identity, "workload": bytes(workload_key).hex()})
                given = {"level": level, "target": other_id or target_id, "key": series_key, "id": series_id}
                cursor.execute(_CHANGE_SERIES, given)
            if other_id is not None:
                cursor.execute(
                    "UPDATE benchapp_run SET target_id = %s WHERE target_id = %s", [other_id, target_id]
                )
                cursor.execute("DELETE FROM benchapp_target WHERE id = %s", [target_id])


def _hash(fields: dict[str, Any]) -> bytes:
    """Return the key as of pipeline.identity when this migration was made."""
    return hashlib.sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).digest()


class Migration(migrations.Migration):
    """Rename RAID levels; going back leaves them, as agents always sent them so."""

    dependencies = [("benchapp", "0062_filters_match_without_case")]

    operations = [migrations.RunPython(rename_levels, migrations.RunPython.noop, elidable=True)]
