"""Read all numbers of a terse line at once if they have the usual form, as nearly always.

A JSON parser reads ten numbers in the time in which Python converts one from text.
"""

from collections.abc import Sequence
from functools import lru_cache
from operator import contains, le
from typing import Any, Final

import orjson
from msgspec import Struct

TAIL_LENGTH: Final = 34
_PERCENTILES: Final = 20
_DIGITS: Final = b"0123456789"
# With a blank for the sign, digits behind it make no number.
_AS_JSON: Final = bytes.maketrans(b";=%", b",, ")
# The longest number that is read has 40 characters.
_RUN_OF_DIGITS: Final = b"0" * 41
_ANY_DIGIT: Final = bytes.maketrans(b"123456789.", b"0" * 10)
_COUNT, _MEASURE, _SHARE = frozenset((b"",)), frozenset((b"", b".")), frozenset((b".%",))
_PERCENTILE: Final = frozenset((b".%=", b"%="))
_BLOCK: Final = (
    *(_COUNT,) * 4,
    *(_MEASURE,) * 8,
    *(_PERCENTILE,) * _PERCENTILES,
    *(_MEASURE,) * 6,
    _SHARE,
    *(_MEASURE,) * 2,
)
# Samples of bandwidth and IOPS, of version 5.
_FURTHER: Final = (_COUNT, *(_MEASURE,) * 4, _COUNT)
_TAIL: Final = (*(_SHARE,) * 2, *(_COUNT,) * 3, *(_SHARE,) * 29)
# Places of the minimum of slat, clat and lat; the maximum follows it.
_EXTREMES: Final = (4, 8, 52)
# All together, so that each is a number that a database keeps: latencies also as ns (µs of a century).
_SUM_MAXIMUM: Final = 3 * 10**15


class PlainLine(Struct, frozen=True, gc=False):
    """A line of plain numbers, none negative.

    head: fields before the first block; numbers: of all blocks (percentiles as two each) and of the tail, int
    without a decimal point; length: how many a block has; further: fields after the tail.
    """

    head: list[str]
    blocks: int
    length: int
    numbers: list[Any]
    further: list[str]


def read_plain_line(text: str, *, stride: int) -> PlainLine | None:
    """Return the numbers of a line whose blocks have so many fields; None where any is odd, or missing."""
    head, *before = text[: max(text.find("%="), 0)].rsplit(";", 13)
    if len(before) != 13:
        return None
    rest = text[len(head) + 1 :]
    layout = _find_layout(rest.encode(errors="replace").translate(None, _DIGITS), stride)
    if layout is None:
        return None
    numeric, *further = rest.rsplit(";", layout.further)
    line = numeric.encode()
    if b";%" in line or _RUN_OF_DIGITS in line.translate(_ANY_DIGIT):
        return None
    try:
        numbers = orjson.loads(b"[%b]" % line.translate(_AS_JSON))
    except ValueError:
        return None
    if not sum(numbers) < _SUM_MAXIMUM:
        return None
    length = stride + _PERCENTILES
    end = layout.blocks * length
    for place in _EXTREMES:
        if not all(map(le, numbers[place:end:length], numbers[place + 1 : end : length])):
            return None
    return PlainLine(head.split(";"), layout.blocks, length, numbers, further)


class _Layout(Struct, frozen=True, gc=False):
    """How many blocks there are, and fields behind the tail."""

    blocks: int
    further: int


@lru_cache(maxsize=256)
def _find_layout(skeleton: bytes, stride: int) -> _Layout | None:
    """Return the layout of a line without its digits; None if it is not whole blocks and a tail of plain numbers.

    Texts have but a few different ones.
    """
    fields = skeleton.split(b";")
    block = _BLOCK if stride == len(_BLOCK) else (*_BLOCK, *_FURTHER)
    blocks = 0
    while _fits(fields[blocks * stride : (blocks + 1) * stride], block):
        blocks += 1
    end = blocks * stride + TAIL_LENGTH
    return _Layout(blocks, len(fields) - end) if _fits(fields[end - TAIL_LENGTH : end], _TAIL) else None


def _fits(fields: Sequence[bytes], kinds: Sequence[frozenset[bytes]]) -> bool:
    return len(fields) == len(kinds) and all(map(contains, kinds, fields))
