"""Real outputs of all formats with random damage: truncated, bits flipped, parts swapped, doubled, bytes inserted."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from tests.fio.outputs import OUTPUTS

# Text that has a meaning for one of the readers, inserted at random places.
_PIECES: Final = (
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b";", b"%", b"=", b"(", b"/", b"..."),
    *(b"\n", b"\r", b"\t", b"\x00", b"\x1b[", b"\xff\xfe", b"\xef\xbb\xbf", b"\\ud800", b"\\u0000"),
    *(
        b"nan",
        b"-nan",
        b"inf",
        b"1e999",
        b"-1",
        b"0",
        b"9" * 25,
        b"18446744073709551615",
        b"null",
        b"{}",
        b"k",
        b"M",
    ),
    *(
        b'"fio version" : "fio-3.1"',
        b"3;fio-3.1;a;0;0;",
        b"(groupid=0, jobs=1): err= 0",
        b"real\t0m0.1s",
        b"<vm> ",
    ),
)
_LENGTH_MAXIMUM: Final = 2000


def list_outputs() -> list[Path]:
    """Return the files of all formats, in order."""
    return [path for path in sorted(OUTPUTS.rglob("*")) if path.is_file() and path.suffix != ".md"]


def mutate(output: bytes, chance: Random) -> bytes:
    """Return an output with one to four damages, mostly one; the same for the same state of `chance`."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        output = chance.choice(_DAMAGES)(output, chance)
    return output


def _cut(output: bytes, chance: Random) -> bytes:
    return output[: chance.randint(0, len(output))]


def _flip(output: bytes, chance: Random) -> bytes:
    if not output:
        return output
    place = chance.randrange(len(output))
    return output[:place] + bytes([output[place] ^ (1 << chance.randrange(8))]) + output[place + 1 :]


def _swap(output: bytes, chance: Random) -> bytes:
    a, b, c = sorted(chance.randint(0, len(output)) for _ in range(3))
    return output[:a] + output[b:c] + output[a:b] + output[c:]


def _double(output: bytes, chance: Random) -> bytes:
    start = chance.randint(0, len(output))
    end = min(len(output), start + chance.randint(0, _LENGTH_MAXIMUM))
    return output[:end] + output[start:end] + output[end:]


def _drop(output: bytes, chance: Random) -> bytes:
    start = chance.randint(0, len(output))
    return output[:start] + output[start + chance.randint(0, _LENGTH_MAXIMUM) :]


def _insert(output: bytes, chance: Random) -> bytes:
    place = chance.randint(0, len(output))
    return output[:place] + chance.choice(_PIECES) * chance.randint(1, 3) + output[place:]


def _overwrite(output: bytes, chance: Random) -> bytes:
    """Replace bytes by a number or word of the same length, so that the structure remains."""
    place = chance.randint(0, len(output))
    return output[:place] + (piece := chance.choice(_PIECES)) + output[place + len(piece) :]


_DAMAGES: Final[tuple[Callable[[bytes, Random], bytes], ...]] = (
    _cut,
    _flip,
    _swap,
    _double,
    _drop,
    _insert,
    _overwrite,
)
