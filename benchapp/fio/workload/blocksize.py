"""Block sizes: one, a range, or a split, each perhaps another for reads, writes and trims."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from benchapp.fio.workload.sizes import parse_size

_DEFAULT: Final = "4096"
# Places in "reads,writes,trims" that a kind of I/O uses.
_READ, _WRITE, _TRIM = 0, 1, 2
_PLACES: Final = {
    "read": (_READ,),
    "randread": (_READ,),
    "write": (_WRITE,),
    "randwrite": (_WRITE,),
    "trim": (_TRIM,),
    "randtrim": (_TRIM,),
    "trimwrite": (_WRITE, _TRIM),
    "randtrimwrite": (_WRITE, _TRIM),
}


@dataclass(frozen=True, slots=True)
class BlockSize:
    """size_bytes: where there is one size; text: canonical, for several sizes or anything that is not a size."""

    size_bytes: int | None
    text: str = ""


def read_block_size(options: Mapping[str, str], rw: str, *, kb_base: int) -> BlockSize:
    """Return the block size that counts for this kind of I/O: of bssplit, else bsrange, else bs, else 4 KiB."""

    def write_size(text: str) -> str:
        size = parse_size(text, kb_base=kb_base)
        return text.strip().lower() if size is None else str(size)

    def write_range(text: str) -> str:
        low, _, high = text.replace(":", "-").partition("-")
        ends = write_size(low), write_size(high or low)
        return ends[0] if ends[0] == ends[1] else "-".join(ends)

    def write_split(text: str) -> str:
        shares = []
        for part in text.split(":"):
            size, _, share = part.partition("/")
            shares.append(f"{write_size(size)}/{share.strip()}" if share.strip() else write_size(size))
        return ":".join(shares)

    for name, write in (("bssplit", write_split), ("bsrange", write_range), ("bs", write_size)):
        if options.get(name):
            return _combine(_spread(options[name], write), rw)
    # A timed shell loop writes files of any length, in no blocks of fio's.
    return BlockSize(None) if options.get("ioengine") == "shell" else BlockSize(int(_DEFAULT))


def _spread(text: str, write: Callable[[str], str]) -> list[str]:
    """Return the values for reads, writes and trims: the last one counts for the rest, unless a comma ends it."""
    parts = text.split(",")[:3]
    filler = parts[-1]
    parts += [filler] * (3 - len(parts))
    return [write(part) if part.strip() else _DEFAULT for part in parts]


def _combine(values: list[str], rw: str) -> BlockSize:
    used = [values[place] for place in _PLACES.get(rw, (_READ, _WRITE))]
    text = used[0] if len(set(used)) == 1 else ",".join(used)
    return BlockSize(int(text)) if text.isdecimal() and text.isascii() else BlockSize(None, text)
