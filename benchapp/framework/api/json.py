"""Responses in JSON."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from rest_framework.renderers import BaseRenderer


class JsonRenderer(BaseRenderer):
    """JSON by msgspec: aware times as RFC 3339 with Z, ids as text, answers and dataclasses as objects."""

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
    """Return the JSON of answers, dataclasses and plain values; NaN and infinities become null."""
    return _ENCODER.encode(value)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain, decimal_format="number", order=None)
