"""One execution in several formats in one file: each part, read alone, has the same values within its precision."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import pytest
from _pytest.mark.structures import ParameterSet
from msgspec import Struct

from benchapp.fio import read_output
from benchapp.fio.report import Direction, Disk, Document, Job, Latency
from tests.corpus import ORIGINALS
from tests.fio.expected_table import COPIES, list_files

# Before 2.7 json,normal printed text alone or failed an assertion.
_WITHOUT_JSON: Final = ("2.0.8", "2.0.10", "2.1.3", "2.1.14", "2.2.8", "2.2.10", "2.2.12", "2.3")
_OWN: Final = (
    "generated/09_json_normal.out",
    "generated/10_normal_json_terse.out",
    *(
        name
        for name in list_files(COPIES, "versions")
        if name.endswith("/json_and_normal.txt") and name.split("/")[1][4:] not in _WITHOUT_JSON
    ),
)
# Terse lines and text of one execution; one file is read in test_expected alone, as its first line is glued.
_PUBLIC: Final = tuple(
    f"public/hikalium__bench/{name}.txt"
    for name in (
        "16gg_E516G1546_DWLN002906663",
        "64g3_2419X91296JF",
        "64g4_2414XY1719JF",
        "64gs_MB-MC64K_MBMCCGVFGBAW-5_KPSK322EG240",
        "result_2246HK6933GS",
        "result_2414XY1719JF",
        "result_4082XC226449",
        "result_LG128GA8HG-X_D0_240312006",
        "result_YF128GYMSM-T0_CCWDS_2406",
    )
)


@dataclass(frozen=True, slots=True)
class Precision:
    """The permitted difference between two formats: the larger of an absolute and a relative one."""

    absolute: float
    relative: float = 0.0


Shares = Mapping[int | None, float]


@dataclass(frozen=True, slots=True)
class Pair:
    """One value in two formats; kind: determines the tolerance.

    scale: factor by which the unit of the text line is coarser than usual: 1000 for ms, 1024 for MiB/s.
    """

    where: str
    kind: str
    one: float
    other: float
    scale: int = 1

    def is_within(self, room: Precision) -> bool:
        allowed = max(room.absolute * self.scale, room.relative * abs(self.one))
        return abs(self.one - self.other) <= allowed + 1e-6


# Whole KiB, operations and µs, truncated, not rounded; means have six digits after the point.
_TERSE: Final = {
    "iops": Precision(1),
    "bandwidth_bytes_per_s": Precision(1024),
    "io_bytes": Precision(1024),
    "total_ios": Precision(0),
    "runtime_s": Precision(0),
    "mean": Precision(0.001),
    "stddev": Precision(0.001),
    "minimum": Precision(1000),
    "maximum": Precision(1000),
    "percentile": Precision(1000),
    "bandwidth sample": Precision(0.01),
    "iops sample": Precision(0.01),
    "count": Precision(0),
    "share": Precision(0.006),
    "rounded share": Precision(0.06),
    "duration": Precision(0),
}
# Three digits at least; latencies of all these files are of ns or µs, means with two digits after the point.
_TEXT: Final = _TERSE | {
    "iops": Precision(1, 0.0055),
    "bandwidth_bytes_per_s": Precision(1024, 0.0055),
    "io_bytes": Precision(1024, 0.0055),
    "mean": Precision(6),
    "stddev": Precision(6),
    "maximum": Precision(1000, 0.0006),
    # Whole KiB/s, or MiB/s.
    "bandwidth sample": Precision(1024),
}
# 2.20 to 3.25 lose a carry: 2.97 becomes 2.0, and so 12.97 12.0.
_TEXT_WITHOUT_CARRY: Final = _TEXT | {
    "iops": Precision(1, 0.07),
    "bandwidth_bytes_per_s": Precision(1024, 0.07),
    "io_bytes": Precision(1024, 0.07),
}


def list_cases() -> list[ParameterSet]:
    return [
        *(pytest.param(name, id=name) for name in _OWN),
        *(pytest.param(name, id=name, marks=pytest.mark.corpus) for name in _PUBLIC),
    ]


@pytest.mark.parametrize("name", list_cases())
def test_formats_of_one_execution_agree(name: str) -> None:
    path = next(root / name for root in (COPIES, ORIGINALS) if (root / name).is_file())
    parts = [read_part(part) for part in split_formats(path.read_text(encoding="utf-8"))]

    differences = [line for one, other in combinations(parts, 2) for line in compare_documents(one, other)]

    assert len(parts) >= 2
    assert differences == []


@pytest.mark.parametrize("name", list_cases())
def test_several_formats_of_one_execution_are_one_document(name: str) -> None:
    path = next(root / name for root in (COPIES, ORIGINALS) if (root / name).is_file())

    report = read_output(path.read_bytes())

    assert [document.format for document in report.documents] == ["terse" if "hikalium" in name else "json"]
    assert [note.code for note in report.warnings if note.code == "same-run-other-format"]


def test_every_version_that_prints_both_is_compared() -> None:
    assert len(_OWN) == 19


def split_formats(text: str) -> list[str]:
    """Return the JSON, the terse lines and the text of one file, those that it has, the most precise first."""
    kinds: dict[str, list[str]] = {"json": [], "terse": [], "text": []}
    is_json = False
    for line in text.splitlines(keepends=True):
        is_json = is_json or line.startswith("{")
        kind = "json" if is_json else "terse" if line.startswith("3;fio-") else "text"
        kinds[kind].append(line)
        is_json = is_json and not line.startswith("}")
    return ["".join(lines) for lines in kinds.values() if lines]


def read_part(part: str) -> Document:
    (document,) = read_output(part.encode()).documents
    return document


def compare_documents(precise: Document, coarse: Document) -> Iterator[str]:
    precision = choose_precision(coarse)
    jobs = list(zip(sort_jobs(precise), sort_jobs(coarse), strict=True))
    pairs = [pair for one, other in jobs for pair in pair_jobs(one, other)]
    pairs += [
        pair
        for one, other in zip(precise.disks, coarse.disks, strict=True)
        for pair in pair_disks(one, other)
    ]
    for pair in pairs:
        if not pair.is_within(precision[pair.kind]):
            yield f"{coarse.format}: {pair.where}: {pair.one} and {pair.other}"


def sort_jobs(document: Document) -> list[Job]:
    return sorted(document.jobs, key=lambda job: job.groupid)


def choose_precision(coarse: Document) -> dict[str, Precision]:
    if coarse.format == "terse":
        return _TERSE
    version = tuple(int(number) for number in coarse.fio_version.removeprefix("fio-").split("."))
    return _TEXT_WITHOUT_CARRY if (2, 20) <= version < (3, 26) else _TEXT


def pair_jobs(one: Job, other: Job) -> Iterator[Pair]:
    assert (one.name, one.groupid, one.error) == (other.name, other.groupid, other.error)
    where = f"{one.name} of group {one.groupid}"
    yield from pair_fields(where, "share", ("cpu_user_percent", "cpu_system_percent"), one, other)
    counts = ("context_switches", "major_faults", "minor_faults", "iodepth")
    yield from pair_fields(where, "count", counts, one, other)
    for name in ("depth", "depth_submitted", "depth_completed"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert not mine or not theirs or mine.keys() == theirs.keys(), name
        for level in mine.keys() & theirs.keys():
            yield Pair(f"{where}, {name} {level}", "rounded share", mine[level], theirs[level])
    # Text omits those of 0 %.
    yield from pair_shares(where, dict(one.latency_shares), dict(other.latency_shares))
    mine = {direction.name: direction for direction in one.directions}
    theirs = {direction.name: direction for direction in other.directions}
    # Terse has no syncs.
    assert mine.keys() - {"sync"} == theirs.keys() - {"sync"}
    for name in mine.keys() & theirs.keys():
        yield from pair_directions(f"{where}, {name}", mine[name], theirs[name])


def pair_directions(where: str, one: Direction, other: Direction) -> Iterator[Pair]:
    for name in ("iops", "bandwidth_bytes_per_s", "io_bytes", "total_ios", "runtime_s"):
        yield from pair_fields(where, name, (name,), one, other)
    yield from pair_fields(where, "count", ("short_ios", "dropped_ios"), one, other)
    for name in ("submission", "completion", "total"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None), name
        if mine is not None and theirs is not None:
            yield from pair_latencies(f"{where}, {name}", mine, theirs)
    for name, kind in (("bandwidth_samples", "bandwidth sample"), ("iops_samples", "iops sample")):
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine is not None and theirs is not None:
            # MiB/s, or, with kb_base=1000, thousands of KiB/s.
            units = (unit for unit in (1024, 1000) if is_in(1024 * unit, theirs.minimum, theirs.maximum))
            scale = next(units, 1)
            values = ("minimum", "maximum", "mean", "stddev")
            yield from pair_fields(f"{where}, {name}", kind, values, mine, theirs, scale=scale)
            yield from pair_fields(f"{where}, {name}", "count", ("count",), mine, theirs)


def pair_latencies(where: str, one: Latency, other: Latency) -> Iterator[Pair]:
    scale = 1000 if is_in(1_000_000, other.minimum_ns, other.maximum_ns) else 1
    for name in ("minimum", "maximum", "mean", "stddev"):
        yield from pair_fields(where, name, (f"{name}_ns",), one, other, scale=scale)
    mine, theirs = dict(one.percentiles), dict(other.percentiles)
    assert mine.keys() == theirs.keys(), where
    scale = 1000 if is_in(1_000_000, *theirs.values()) else 1
    for percent, value in mine.items():
        yield Pair(f"{where}, {percent} %", "percentile", value, theirs[percent], scale)


def is_in(unit: int, *printed: float | None) -> bool:
    """Return whether all values are multiples of a unit: then fio printed them in it."""
    return all(value is not None and value % unit == 0 for value in printed)


def pair_disks(one: Disk, other: Disk) -> Iterator[Pair]:
    assert (one.name, one.is_member) == (other.name, other.is_member)
    counts = ("read_ios", "write_ios", "read_merges", "write_merges")
    yield from pair_fields(one.name, "count", counts, one, other)
    yield from pair_fields(one.name, "duration", ("read_busy_s", "write_busy_s", "queued_s"), one, other)
    yield from pair_fields(one.name, "share", ("utilisation_percent",), one, other)


def pair_fields(
    where: str, kind: str, names: Sequence[str], one: Struct, other: Struct, *, scale: int = 1
) -> Iterator[Pair]:
    """Yield the values that both formats have."""
    for name in names:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine is not None and theirs is not None:
            yield Pair(f"{where}, {name}", kind, mine, theirs, scale)


def pair_shares(where: str, one: Shares, other: Shares) -> Iterator[Pair]:
    """Yield the shares up to each bound that either has; terse counts all below 2 µs together."""
    if not one or not other:
        return
    lowest = max(min(bound for bound in shares if bound is not None) for shares in (one, other))
    mine, theirs = (fold_shares(shares, lowest) for shares in (one, other))
    for bound in mine.keys() | theirs.keys():
        # A sum of rounded shares.
        scale = len(one) if bound == lowest else 1
        yield Pair(f"{where}, up to {bound}", "share", mine.get(bound, 0.0), theirs.get(bound, 0.0), scale)


def fold_shares(shares: Shares, lowest: int) -> Shares:
    below = sum(share for bound, share in shares.items() if bound is not None and bound <= lowest)
    return {lowest: below} | {
        bound: share for bound, share in shares.items() if bound is None or bound > lowest
    }
