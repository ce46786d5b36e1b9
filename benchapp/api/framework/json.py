"""Responses in JSON."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import orjson
from rest_framework.renderers import BaseRenderer


class JsonRenderer(BaseRenderer):
    """JSON by orjson: aware times as RFC 3339 with Z, ids as text, dataclasses as objects."""

    media_type = "application/json"
    format = "json"
    charset = None
    render_style = "binary"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return the bytes of a response; none for 204."""
        return b"" if data is None else dump_json(data)


def dump_json(value: Any) -> bytes:
    """Return the JSON of plain values and dataclasses; NaN and infinities, which JSON does not have, become null."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Decimal):
        return float(value)
    return str(value)
