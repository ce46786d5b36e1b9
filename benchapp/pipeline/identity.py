"""Identity of comparable measurements: typed fields, hashed as canonical JSON."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from benchapp.models import RECENTLY_REPORTED

SERIES_KEY_VERSION: Final = 1


def key_of(fields: Mapping[str, Any]) -> bytes:
    """Return the 32-byte key of a row of typed fields; equal fields, equal key, in any order.

    Names stay with their values, so that iodepth 8 × numjobs 1 never equals iodepth 1 × numjobs 8.
    """
    return _key_of_json(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))


@lru_cache(maxsize=4096)
def _key_of_json(text: bytes) -> bytes:
    # A fleet has few workloads and targets, each used thousands of times.
    return hashlib.sha256(canonical_json(orjson.loads(text))).digest()


def environment_key(fields: Mapping[str, Any]) -> bytes:
    """Return the 32-byte key of an environment; unknown fields that were added later are not part of it."""
    return key_of(
        {name: value for name, value in fields.items() if value is not None or name not in RECENTLY_REPORTED}
    )


def series_key(*, scope: str, target_key: bytes, workload_key: bytes, direction: str) -> bytes:
    """Return the 32-byte key of a series: version, scope, target, workload and direction."""
    return key_of(
        {
            "version": SERIES_KEY_VERSION,
            "scope": scope,
            "target": target_key.hex(),
            "workload": workload_key.hex(),
            "direction": direction,
        }
    )


def canonical_json(value: Mapping[str, Any]) -> bytes:
    """Return JSON with sorted keys and no whitespace; whole floats are written as integers (8.0 is 8)."""
    return orjson.dumps(_plain(value), option=orjson.OPT_SORT_KEYS)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
