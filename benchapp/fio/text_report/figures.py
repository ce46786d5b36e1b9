"""Figures of fio's text with the precision of their rounding, and the rates that they state."""

import math
import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final

from msgspec import Struct, field

from benchapp.fio.numbers import BIGINT_MAXIMUM, UNKNOWN_VERSION, Version, read_amount, read_count
from benchapp.fio.report import Notes

_FIGURE: Final = re.compile(
    r"([0-9]{1,20}+)(?:\.([0-9]{1,9}+))?([KMGTPE]i|[kKMGTPE])?+ ?+(B|bit|b)?+(?:/s)?+"
)
_NOT_NUMBERS: Final = ("nan", "inf")
_EIGHT: Final = 8


class Prefixes(Struct, frozen=True, eq=False):
    """The factors of the prefixes of one kind of figure; compared by identity."""

    factors: Mapping[str, int]


# Since 2.17: Ki is 1024, k and M are powers of 1000.
MODERN: Final = Prefixes(
    {
        "": 1,
        "K": 1000,
        **{prefix: 1000**power for power, prefix in enumerate("kMGTPE", 1)},
        **{f"{prefix}i": 1024**power for power, prefix in enumerate("KMGTPE", 1)},
    }
)
# Until 2.16 fio's list of prefixes has no T, so that a terabyte prints as P.
OLD_BYTES, OLD_COUNTS = (
    Prefixes(
        {"": 1, "k": base, "T": base**4, **{prefix: base**power for power, prefix in enumerate("KMGPE", 1)}}
    )
    for base in (1024, 1000)
)
# 11.98 prints as 11.0: broken by commit 9e55f2c7 of fio, fixed by c736b361.
_CARRY_LOST: Final[tuple[Version, Version]] = ((2, 20, 0), (3, 26, 0))
# The remainder of 1024 (or 1000) is printed as if it were decimals: 12 345 bytes are "12.57KB".
_DECIMALS_FIXED: Final[Version] = (2, 20, 0)
# fio cuts a count to whole ones before it rounds it to four digits.
_CUT_TO_WHOLE: Final = 1
_UNIT_AND_ROUNDING: Final = 1.06


class Figure(Struct, frozen=True, gc=False):
    """One printed number in base units (bytes, operations).

    step: value of one in its last digit; unit: value of one before the decimal point; prefix: as
    printed ("Ki", "k"), suffix likewise ("B", "bit"); decimals: number of digits after the point; is_round: all
    of them are zeros. conversion: to base units, for people (" in MiB × 1048576"), empty for none.
    """

    value: float
    step: float
    unit: float
    prefix: str
    suffix: str
    decimals: int
    is_round: bool
    conversion: str


class DirectionFindings(Struct):
    """Reasons for missing values, sources of the others, and notes, while a direction is built.

    where: for notes; unprinted: the reason for values without a line.
    """

    notes: Notes
    where: str
    unprinted: str
    missing: dict[str, str] = field(default_factory=dict)
    sources: list[tuple[str, str]] = field(default_factory=list)


class FigureVerdict(Enum):
    """Result of comparing a printed figure with its exact value."""

    AGREES = "agrees"
    CARRY_LOST = "text-carry-lost"
    DECIMALS_ARE_JUNK = "text-decimals-wrong"
    CONTRADICTS = "contradicts"


# Four digits, and storage that does much the same each time: the same texts come again and again.
@lru_cache(maxsize=4096)
def read_figure(text: str, prefixes: Prefixes) -> Figure | None:
    """Return the figure of "33.4k", "69.5MiB" or "592Mibit/s" (in bytes); None for nan and anything else.

    None above 2^63 - 1 too. Cached; the texts are short.
    """
    match = _FIGURE.fullmatch(text.strip())
    if match is None:
        return None
    whole, fraction, prefix, suffix = match.groups(default="")
    factor = prefixes.factors.get(prefix)
    if factor is None:
        return None
    is_divided = suffix in ("bit", "b")
    unit = factor / _EIGHT if is_divided else factor
    decimals = len(fraction)
    value = int(whole) * unit if not decimals else int(whole + fraction) * unit / 10**decimals
    if value > BIGINT_MAXIMUM:
        return None
    conversion = f" in {prefix}{suffix} × {factor}{' / 8' if is_divided else ''}" if unit != 1 else ""
    step, is_round = unit / 10**decimals, not fraction.strip("0")
    return Figure(value, step, unit, prefix, suffix, decimals, is_round, conversion)


def explain_absence(text: str) -> str:
    """Return the reason code for a figure that could not be read."""
    return "not-a-number" if text.strip().lstrip("-+").lower().startswith(_NOT_NUMBERS) else "out-of-range"


def judge_figure(figure: Figure, exact: float, version: Version, *, tolerance: float = 0) -> FigureVerdict:
    """Compare a printed figure with its exact value (± tolerance), allowing for known faults of its version.

    An unknown version (0, 0, 0) may be any.
    """
    difference = exact - figure.value
    if abs(difference) <= figure.step + _CUT_TO_WHOLE + tolerance:
        return FigureVerdict.AGREES
    is_unknown = version == UNKNOWN_VERSION
    may_lose_carry = is_unknown or _CARRY_LOST[0] <= version < _CARRY_LOST[1]
    if may_lose_carry and looks_cut(figure) and 0 < difference <= figure.unit * _UNIT_AND_ROUNDING:
        return FigureVerdict.CARRY_LOST
    may_be_junk = figure.decimals > 0 and (is_unknown or version < _DECIMALS_FIXED)
    if may_be_junk and math.floor(exact / figure.unit) == math.floor(figure.value / figure.unit):
        return FigureVerdict.DECIMALS_ARE_JUNK
    return FigureVerdict.CONTRADICTS


def looks_cut(figure: Figure) -> bool:
    """Return whether a figure ends in .0, as figures with a lost carry do."""
    return figure.decimals > 0 and figure.is_round


_MODERN_SUMMARY: Final = re.compile(
    r"IOPS=([^,]{1,40}), BW=([^(]{1,40}?) ?\(([^)]{1,40})\)\(([^/]{1,40})/ *+(\d{1,18})msec\)", re.ASCII
)
_OLD_SUMMARY: Final = re.compile(
    r"io= *+([^,]{1,40}), bw= *+([^,]{1,40}), iops= *+([^,]{1,40}), runt= *+(\d{1,18}) ?msec", re.ASCII
)
# IOPS=1 may be 1.99: below this, the fraction that fio cuts off is more than 1 %.
_WHOLE_IS_COARSE: Final = 100
_FAULTS: Final = {
    FigureVerdict.CARRY_LOST: "fio 2.20 to 3.25 lose the carry when they round up to .0",
    FigureVerdict.DECIMALS_ARE_JUNK: "decimals of fio before 2.20 are the remainder of a division, not a fraction",
}


class RateSummary(Struct, frozen=True, gc=False):
    """The first line of a direction, its figures as printed; other_bandwidth: in the other kind of prefixes."""

    io: str
    bandwidth: str
    other_bandwidth: str
    iops: str
    runtime_ms: int
    is_modern: bool


class Rates(Struct, frozen=True, gc=False):
    """Values in base units; is_decimal: whether the run had kb_base=1000."""

    io_bytes: int | None
    iops: float | None
    bandwidth_bytes_per_s: float | None
    is_decimal: bool


def read_summary(text: str) -> RateSummary | None:
    """Read "IOPS=1999, BW=7999KiB/s (8191kB/s)(469MiB/60001msec)", or 2.x's "io=…, bw=…, iops=…, runt=…"."""
    match = _MODERN_SUMMARY.match(text)
    if match is not None:
        iops, bandwidth, other, io, runtime = match.groups()
        return RateSummary(io, bandwidth, other, iops, int(runtime), is_modern=True)
    match = _OLD_SUMMARY.match(text)
    if match is None:
        return None
    io, bandwidth, iops, runtime = match.groups()
    return RateSummary(io, bandwidth, "", iops, int(runtime), is_modern=False)


class _Printed(Struct, frozen=True, gc=False):
    """A figure with its label and the text it was read from."""

    label: str
    text: str
    figure: Figure | None


class _Reference(Struct, frozen=True, gc=False):
    """The value expected from counts or another figure, ± tolerance; source: in words."""

    value: float
    source: str
    tolerance: float = 0.0


def read_rates(
    summary: RateSummary,
    findings: DirectionFindings,
    *,
    total_ios: int | None,
    block_size: int | None,
    version: Version,
) -> Rates:
    """Return the values of a summary, in bytes, bytes/s and operations/s.

    total_ios × block_size, where known, gives io_bytes exactly if the printed figure agrees with it.
    """
    exact = total_ios * block_size if total_ios and block_size else None
    prefixes = _find_prefixes(summary, exact, version)
    bandwidth = _Printed(
        "BW" if summary.is_modern else "bw", summary.bandwidth, read_figure(summary.bandwidth, prefixes)
    )
    io = _Printed("io", summary.io, read_figure(summary.io, prefixes))
    if exact is not None and not _fits(bandwidth.figure, exact, summary.runtime_ms, version):
        exact = None
    io_bytes = _choose_io(
        findings, io, version, exact=exact, bandwidth=bandwidth.figure, runtime_ms=summary.runtime_ms
    )
    iops = rate = None
    if not summary.runtime_ms:
        findings.missing["iops"] = findings.missing["bandwidth_bytes_per_s"] = "zero-runtime"
    else:
        is_exact = exact is not None and io_bytes == exact
        reference = _find_rate(summary, io.figure, prefixes, exact=exact if is_exact else None)
        rate = _choose_value(findings, "bandwidth_bytes_per_s", bandwidth, reference, version)
        iops = _choose_iops(findings, summary, total_ios, version)
    findings.sources.append(("runtime_s", "msec / 1000"))
    return Rates(
        read_count(io_bytes),
        None if iops is None else read_amount(float(iops)),
        None if rate is None else read_amount(float(rate)),
        prefixes is OLD_COUNTS or _is_decimal(bandwidth.figure, summary),
    )


def _choose_value(
    findings: DirectionFindings, name: str, printed: _Printed, reference: _Reference | None, version: Version
) -> float | None:
    """Return a value: as printed, or of the reference if that proves a fault of fio."""
    figure = printed.figure
    if figure is None:
        findings.missing[name] = explain_absence(printed.text)
        return None
    if reference is not None:
        verdict = judge_figure(figure, reference.value, version, tolerance=reference.tolerance)
        # Asked first, as the hash of an enum is a call.
        if verdict is not FigureVerdict.AGREES and verdict in _FAULTS:
            meant = f"{reference.value / figure.unit:.2f}{figure.prefix}{figure.suffix}"
            findings.sources.append((name, f"{reference.source}; {printed.label}= is at fault"))
            difference = f"{printed.label}={printed.text.strip()} means {meant} by {reference.source}"
            findings.notes.add(verdict.value, findings.where, f"{difference}: {_FAULTS[verdict]}")
            return reference.value
    findings.sources.append((name, f"{printed.label}={figure.conversion}"))
    return figure.value


def _find_prefixes(summary: RateSummary, exact: int | None, version: Version) -> Prefixes:
    """Return the factors of K and M: 2.x uses them for 1000 too (kb_base=1000), which only the counts show."""
    if summary.is_modern:
        return MODERN
    binary, decimal = read_figure(summary.io, OLD_BYTES), read_figure(summary.io, OLD_COUNTS)
    if exact is None or binary is None or decimal is None:
        return OLD_BYTES
    is_binary = judge_figure(binary, exact, version) is not FigureVerdict.CONTRADICTS
    is_decimal = judge_figure(decimal, exact, version) is not FigureVerdict.CONTRADICTS
    return OLD_COUNTS if is_decimal and not is_binary else OLD_BYTES


def _fits(bandwidth: Figure | None, exact: int, runtime_ms: int, version: Version) -> bool:
    """Return whether bytes by the block size are possible: a group may have jobs of other sizes than its first."""
    if bandwidth is None or not runtime_ms:
        return True
    return judge_figure(bandwidth, exact * 1000 / runtime_ms, version) is not FigureVerdict.CONTRADICTS


def _is_decimal(bandwidth: Figure | None, summary: RateSummary) -> bool:
    """Return whether kB is printed outside the brackets and KiB inside."""
    return (
        summary.is_modern
        and bandwidth is not None
        and bandwidth.prefix != ""
        and not bandwidth.prefix.endswith("i")
    )


def _multiply(bandwidth: Figure | None, runtime_ms: int) -> _Reference | None:
    if bandwidth is None or looks_cut(bandwidth):
        return None
    return _Reference(
        bandwidth.value * runtime_ms / 1000, "bandwidth × run time", bandwidth.step * runtime_ms / 1000
    )


def _choose_io(
    findings: DirectionFindings,
    io: _Printed,
    version: Version,
    *,
    exact: int | None,
    bandwidth: Figure | None,
    runtime_ms: int,
) -> int | None:
    if exact is not None and io.figure is not None:
        if judge_figure(io.figure, exact, version) is FigureVerdict.AGREES:
            findings.sources.append(("io_bytes", "total_ios × block size, which agrees with io="))
            return exact
        reference: _Reference | None = _Reference(exact, "total_ios × block size")
    else:
        reference = _multiply(bandwidth, runtime_ms)
    value = _choose_value(findings, "io_bytes", io, reference, version)
    return None if value is None else int(value)


def _find_rate(
    summary: RateSummary, io: Figure | None, prefixes: Prefixes, *, exact: int | None
) -> _Reference | None:
    """Return what bandwidth should be: by exact bytes, else by the figure in brackets, else by rounded bytes."""
    runtime_s = summary.runtime_ms / 1000
    if exact is not None:
        return _Reference(exact / runtime_s, "total_ios × block size / run time")
    other = read_figure(summary.other_bandwidth, prefixes)
    if other is not None and not looks_cut(other):
        return _Reference(other.value, "the figure in brackets", other.step)
    if io is not None and not looks_cut(io):
        return _Reference(io.value / runtime_s, "io / run time", io.step / runtime_s)
    return None


def _choose_iops(
    findings: DirectionFindings, summary: RateSummary, total_ios: int | None, version: Version
) -> float | None:
    prefixes = MODERN if summary.is_modern else OLD_COUNTS
    printed = _Printed(
        "IOPS" if summary.is_modern else "iops", summary.iops, read_figure(summary.iops, prefixes)
    )
    if total_ios is None:
        return _choose_value(findings, "iops", printed, None, version)
    quotient = total_ios * 1000 / summary.runtime_ms
    figure = printed.figure
    if figure is not None and quotient < _WHOLE_IS_COARSE and int(quotient) == figure.value:
        findings.sources.append(
            ("iops", f"total_ios / run time, of which {printed.label}= is the whole part")
        )
        return quotient
    return _choose_value(findings, "iops", printed, _Reference(quotient, "total_ios / run time"), version)
