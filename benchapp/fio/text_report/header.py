"""The lines that fio prints before it starts: a header for each job, the version, the number of processes."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from benchapp.fio.text_report.figures import MODERN, OLD_BYTES, Figure, read_figure

# rw=…, bs=…, ioengine=…, iodepth=…; bs itself has commas and blanks.
_HEADER: Final = re.compile(
    r"(.{1,500}?): \(g=(\d{1,10})\): rw=([^,]{1,40}), (?:odir=[^,]{0,10}, )?bs=([^=]{1,200}), "
    r"(?:ioengine=([^,]{1,60}), )?iodepth=(\d{1,10})",
    re.ASCII,
)
# "[n1] job": a section of a job file cannot have such a name.
_TAG: Final = re.compile(r"(?:\[[^\]]{0,100}\]|\{[^}]{0,100}\}|<[^>]{0,100}>) ++(?=\S)")
# A terminal shows the command before the first line.
_COMMAND: Final = re.compile(r"(?:^|[\s/$#%>])fio (?:.* )?(?:-{1,2}\w|\S+\.(?:fio|ini|job)\b)")
_VERSION: Final = re.compile(r"(?:fio[- ])?\d{1,4}\.\d{1,4}[\w.+-]{0,60}", re.ASCII)
_STARTING: Final = re.compile(r"Starting (\d{1,10}) (?:process|thread)(?:es|s)?(?: and (\d{1,10}) process)?")
_GREETING: Final = re.compile(r"hostname=([^,]{0,255}), be=\d.{0,200}? fio=([^,\s]{1,100})", re.ASCII)
_RANGE: Final = re.compile(r"(?:\([RWT]\) )?([\d.]{1,20}[KMGTPEik]{0,2}B?)-([\d.]{1,20}[KMGTPEik]{0,2}B?)")
_RANGES: Final = re.compile(r"[,/] ?")

# Of reads, writes and trims, bytes; None where it is a range, or printed with fewer digits than it has.
BlockSizes = tuple[int | None, int | None, int | None]


class Header(Struct, frozen=True, gc=False):
    """The header line of one job, or of several clones ("..." follows).

    options: rw, bs or bsrange in plain bytes, ioengine, iodepth; as fio names them. Shared between headers.
    """

    name: str
    groupid: int
    hostname: str | None
    options: Mapping[str, str]
    block_sizes: BlockSizes


class Greeting(Struct, frozen=True, gc=False):
    """The greeting of a server to its client."""

    hostname: str
    fio_version: str


def read_header(line: str, hostname: str | None) -> Header | None:
    """Read "job: (g=0): rw=randrw, bs=4K-4K/4K-4K, ioengine=libaio, iodepth=4"; None for anything else."""
    match = _HEADER.match(line)
    if match is None:
        return None
    name, groupid, *asked = match.groups()
    options, block_sizes = _read_asked(*asked)
    return Header(strip_noise(name), int(groupid), hostname, options, block_sizes)


def strip_noise(name: str) -> str:
    """Return the name of a job without what precedes it on the line: a tag, or the command that a terminal shows."""
    name = _TAG.sub("", name)
    before, _, last = name.rpartition(" ")
    return last if before and _COMMAND.search(before) else name


# Executions of one series have the same header: 20 µs each without the cache.
@lru_cache(maxsize=256)
def _read_asked(
    rw: str, sizes: str, engine: str | None, iodepth: str
) -> tuple[Mapping[str, str], BlockSizes]:
    ranges = _read_ranges(sizes)
    options = {"rw": rw, **_name_block_size(ranges)}
    if engine:
        options["ioengine"] = engine
    options["iodepth"] = iodepth
    sizes_known = [_know_size(low, high) for low, high in ranges] or [None]
    filled = (*sizes_known, *[sizes_known[-1]] * 3)
    return options, (filled[0], filled[1], filled[2])


def _read_ranges(text: str) -> list[tuple[Figure, Figure]]:
    """Read "(R) 4096B-4096B, (W) 64.0KiB-64.0KiB" or "4K-4K/64K-64K"; empty if a part is not a range."""
    prefixes = MODERN if "B" in text else OLD_BYTES
    ranges = []
    for part in _RANGES.split(text)[:3]:
        match = _RANGE.fullmatch(part.strip())
        low, high = (read_figure(end, prefixes) for end in match.groups()) if match else (None, None)
        if low is None or high is None:
            return []
        ranges.append((low, high))
    return ranges


def _name_block_size(ranges: list[tuple[Figure, Figure]]) -> dict[str, str]:
    if not ranges:
        return {}
    ends = [(str(int(low.value)), str(int(high.value))) for low, high in ranges]
    if all(low == high for low, high in ends):
        name, values = "bs", [low for low, _ in ends]
    else:
        name, values = "bsrange", ["-".join(pair) for pair in ends]
    return {name: values[0] if len(set(values)) == 1 else ",".join(values)}


def _know_size(low: Figure, high: Figure) -> int | None:
    """Return the one size of a range; 64.0KiB counts as whole, 63.5KiB has lost digits."""
    if low.value != high.value or not low.is_round:
        return None
    return int(low.value)


def read_version_line(line: str) -> str | None:
    """Return "fio-3.28" or, before 2.0.10, "fio 2.0" or "2.0.8", if the line is that and nothing else."""
    line = line.strip()
    return line if _VERSION.fullmatch(line) else None


def read_starting_line(line: str) -> int | None:
    """Return how many jobs fio starts."""
    match = _STARTING.match(line.strip())
    return None if match is None else int(match[1]) + int(match[2] or 0)


def read_greeting(line: str) -> Greeting | None:
    """Read the line with which a server answers a client; None for anything else."""
    match = _GREETING.match(line)
    return None if match is None else Greeting(match[1], match[2])
