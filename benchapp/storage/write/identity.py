"""Identity of comparable measurements: typed fields, hashed as canonical JSON."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from benchapp.models import RECENTLY_REPORTED

SERIES_KEY_VERSION: Final = 1
# A fleet has few workloads, targets and parameters, each used thousands of times. Longer texts are not kept.
_KEPT_MAXIMUM: Final = 4096
_KEPT_BYTES_MAXIMUM: Final = 4096


def key_of(fields: Mapping[str, Any]) -> bytes:
    """Return the 32-byte key of a row of typed fields; equal fields, equal key, in any order.

    Names stay with their values, so that iodepth 8 × numjobs 1 never equals iodepth 1 × numjobs 8.
    """
    return hashlib.sha256(canonical_json(fields)).digest()


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
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return _make_canonical(text) if len(text) <= _KEPT_BYTES_MAXIMUM else _make_canonical.__wrapped__(text)


@lru_cache(maxsize=_KEPT_MAXIMUM)
def _make_canonical(text: bytes) -> bytes:
    return orjson.dumps(_plain(orjson.loads(text)), option=orjson.OPT_SORT_KEYS)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
