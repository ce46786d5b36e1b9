"""One direction of one job of fio's text, in base units."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from benchapp.fio.numbers import BIGINT_MAXIMUM, SAMPLES_SUMMED, UNKNOWN_VERSION, Version, read_count
from benchapp.fio.report import USUAL_PERCENTS, Direction, DirectionName, Latency, Notes, Samples
from benchapp.fio.text_report.draft import DirectionDraft
from benchapp.fio.text_report.figures import DirectionFindings, read_rates

_UNITS_NS: Final[Mapping[str, int]] = {"nsec": 1, "usec": 1000, "msec": 1_000_000, "sec": 1_000_000_000}
_FACTORS: Final[Mapping[str, int]] = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_VALUE: Final = r"= *+([^ ,\r\n]{1,24}) *+"
_MOMENTS: Final = rf"min{_VALUE}, max{_VALUE},(?: per=[^,]{{0,24}},)? avg{_VALUE}, stdev{_VALUE}"
_LATENCY: Final = re.compile(rf"\(([a-z]{{3,4}})\) *+: {_MOMENTS}")
_TABLE: Final = re.compile(r"percentiles \(([a-z]{3,4})\)")
# A search for [0-9] goes faster than for \d, and fastest where the first character is not part of a repetition.
_CELL: Final = re.compile(r"([0-9.][0-9.]{0,11}+)th=\[ *+([0-9.]{1,20}+[kKMG]?)\]")
# One match takes half the time of a search for each. Nine digits of seconds are below 2^63 ns.
_USUAL_TABLE: Final = re.compile(
    r"[\s,|]*+".join(["", *(rf"{percent:.2f}th=\[ *+([0-9]{{1,9}}+)\]" for percent in USUAL_PERCENTS), ""])
)
_SAMPLES: Final = re.compile(
    rf"(?:\( *+([A-Za-z]{{1,6}}) *+/s\))? *+: {_MOMENTS}(?:, samples=(\d{{1,19}}))?", re.ASCII
)
_SHARE: Final = re.compile(r"([0-9][0-9]{0,4}+)=([0-9]{1,5}+\.?[0-9]{0,8})%")
_KIB: Final = 1024
# What fio counts in KiB/s, whatever prefix it prints (a run with kb_base=1000 prints kB/s for the same numbers).
_SAMPLE_UNITS: Final = {
    **dict.fromkeys(("KiB", "kB", "KB"), _KIB),
    **dict.fromkeys(("Kibit", "kbit", "Kbit"), _KIB // 8),
}
_LARGE_SAMPLE_UNITS: Final = {"MiB": _KIB, "MB": _KIB, "Mibit": _KIB // 8, "Mbit": _KIB // 8}
# fio's own limit is 20 percentiles, about four in a row.
_ROWS_MAXIMUM: Final = 32
_CELLS_MAXIMUM: Final = 64
_TABLE_LENGTH_MAXIMUM: Final = 8192
# fio prints five in a line.
_SHARES_LENGTH_MAXIMUM: Final = 1000
# ns, about 18 minutes: thousandths are exact below.
_EXACT_MAXIMUM: Final = 2**40
# An I/O takes no longer than the run and what came before it; a counter that wrapped is far above.
_RUNTIMES_MAXIMUM: Final = 10
_HOUR_NS: Final = 3600 * 10**9


_Table = tuple[tuple[tuple[float, float], ...], bool]

_NO_TABLE: Final[_Table] = ((), False)


def read_text_latency(
    stats: str,
    rows: Sequence[str],
    findings: DirectionFindings,
    *,
    name: str,
    kind: str,
    runtime_s: float | None,
) -> Latency | None:
    """Read "(usec): min=3, max=417, avg=12.06, stdev= 5.71" and the table of percentiles, head first; either may
    be empty.

    name: of the value in the findings; kind: its word in the text ("clat"). Values above ten run times (or an hour)
    are out of range, as is a minimum above the maximum.
    """
    match = _LATENCY.match(stats)
    factor = _UNITS_NS.get(match[1]) if match else None
    percents, is_ambiguous = _read_table(rows) if rows else _NO_TABLE
    if match is None or factor is None:
        if not any(value for _, value in percents):
            findings.missing[name] = _explain(stats) if stats else findings.unprinted
            return None
        findings.sources.append((name, f"{kind} in {_read_table_unit(rows)}"))
        return Latency(None, None, None, None, None, percents)
    unit, *moments = match.groups()
    minimum, maximum, mean, stddev = _read_values(moments, factor)
    highest = max(minimum or 0, maximum or 0, mean or 0)
    is_absurd = highest > _HOUR_NS and highest > (runtime_s or 0) * 1e9 * _RUNTIMES_MAXIMUM
    if is_absurd or (minimum is not None and maximum is not None and minimum > maximum):
        findings.missing[name] = "out-of-range"
        return None
    if None in (minimum, maximum, mean, stddev):
        findings.missing[name] = _explain(stats)
    findings.sources.append((name, f"{kind} in {unit}"))
    # As of "100th" for 99.5 to 99.99.
    if is_ambiguous:
        findings.notes.add(
            "text-percents-rounded",
            findings.where,
            f"fio printed percents of {kind} without decimals, so that several are equal; those were skipped",
        )
    return Latency(minimum, maximum, mean, stddev, None, percents)


def _explain(stats: str) -> str:
    return "not-a-number" if "nan" in stats or "inf" in stats else "out-of-range"


def _parse_number(text: str) -> float:
    """Return a number that may end in k or M; nan for an unknown end. Raises ValueError for other text."""
    return float(text) if text[-1] <= "9" else float(text[:-1]) * _FACTORS.get(text[-1], math.nan)


def _read_value(text: str, factor: int) -> float | None:
    """Return a number times a factor, to the thousandth; None for nan, inf and anything else."""
    try:
        value = _parse_number(text) * factor
    except ValueError:
        return None
    # Comparisons with nan are false.
    return round(value, 3) if 0 <= value <= BIGINT_MAXIMUM else None


def _read_table_unit(rows: Sequence[str]) -> str:
    match = _TABLE.match(rows[0]) if rows else None
    return match[1] if match else ""


def _read_table(rows: Sequence[str]) -> _Table:
    """Return the percentiles, and whether some percents could not be distinguished."""
    factor = _UNITS_NS.get(_read_table_unit(rows))
    text = rows[1] if len(rows) == 2 else "".join(rows[1:_ROWS_MAXIMUM])
    match = _USUAL_TABLE.fullmatch(text, 0, _TABLE_LENGTH_MAXIMUM) if factor else None
    if match is not None and factor:
        return tuple(
            zip(USUAL_PERCENTS, [float(value) * factor for value in match.groups()], strict=True)
        ), False
    cells = _CELL.findall("".join(rows[:_ROWS_MAXIMUM])[:_TABLE_LENGTH_MAXIMUM])[:_CELLS_MAXIMUM]
    if factor is None or not cells:
        return _NO_TABLE
    percents, texts = zip(*cells, strict=True)
    known = _parse_percents(percents)
    # Whole ones, as fio prints, need no rounding: 40 % less time again.
    is_whole = "".join(texts).isdecimal()
    values = [float(text) * factor for text in texts] if is_whole else _read_values(texts, factor)
    pairs = [
        (percent, value)
        for percent, value in zip(known, values, strict=True)
        if percent is not None and value is not None and value <= BIGINT_MAXIMUM
    ]
    return tuple(pairs), None in known


def _read_values(texts: Sequence[str], factor: int) -> Sequence[float | None]:
    """Return `_read_value` of each."""
    thousandfold = factor * 1000
    # Nearly all are numbers, that take 40 % less time without round().
    try:
        values = [int(_parse_number(text) * thousandfold + 0.5) / 1000 for text in texts]
    except (ValueError, OverflowError):
        return [_read_value(text, factor) for text in texts]
    if min(values) >= 0 and max(values) < _EXACT_MAXIMUM:
        return values
    return [_read_value(text, factor) for text in texts]


@lru_cache(maxsize=64)
def _parse_percents(texts: tuple[str, ...]) -> tuple[float | None, ...]:
    """Return the percents, None for those that occur twice, are none or out of order. Lists of them are few."""
    percents: list[float | None] = []
    last = 0.0
    for text in texts:
        try:
            percent = float(text)
        except ValueError:
            percent = 0.0
        is_usable = last < percent <= 100 and texts.count(text) == 1
        percents.append(percent if is_usable else None)
        last = percent if is_usable else last
    return tuple(percents)


def read_samples(text: str, *, is_decimal: bool) -> Samples | None:
    """Read a line of samples after "bw" (bytes/s) or "iops"; None if a value is not a number.

    is_decimal: whether the run had kb_base=1000, which divides by 1000 on the way to MiB.
    """
    match = _SAMPLES.match(text)
    if match is None:
        return None
    factor = _find_sample_factor(match[1], is_decimal=is_decimal)
    if factor is None:
        return None
    minimum, maximum, mean, stddev = _read_values(match.groups()[1:5], factor)
    if minimum is None or maximum is None or mean is None or stddev is None:
        return None
    return Samples(minimum, maximum, mean, stddev, read_count(int(match[6])) if match[6] else None)


def _find_sample_factor(unit: str | None, *, is_decimal: bool) -> int | None:
    if unit is None:
        return 1
    large = _LARGE_SAMPLE_UNITS.get(unit)
    if large is not None:
        return large * (1000 if is_decimal else _KIB)
    return _SAMPLE_UNITS.get(unit)


def read_text_shares(lines: Iterable[str]) -> tuple[tuple[int | None, float], ...]:
    """Read "(usec)   : 500=70.67%, 750=29.17%" into (upper bound in ns, per cent), ascending, None the last."""
    shares: dict[int, float] = {}
    above: dict[None, float] = {}
    for line in lines:
        factor = _UNITS_NS.get(line[1:5])
        if factor is None:
            continue
        below, _, rest = line[:_SHARES_LENGTH_MAXIMUM].partition(">")
        shares.update([(int(bound) * factor, float(share)) for bound, share in _SHARE.findall(below)])
        if rest:
            above.update((None, float(share)) for _, share in _SHARE.findall(rest))
    return (*sorted(shares.items()), *above.items())


_NAMES: Final[Mapping[str, DirectionName]] = {
    "read": "read",
    "write": "write",
    "trim": "trim",
    "mixed": "mixed",
}
_PLACES: Final = {"read": 0, "write": 1, "trim": 2}
_SYNC_PLACE: Final = 3
_INTEGER: Final = re.compile(r"[0-9]+")
# Twelve counts of 20 digits, and what names them.
_ISSUED_LENGTH_MAXIMUM: Final = 1000
_KINDS: Final = (("submission", "slat"), ("completion", "clat"), ("total", "lat"))
# A run of this length has samples of 500 ms each, unless they were switched off.
_SHORT_RUN_S: Final = 2.0
_IOPS_SAMPLES_SINCE: Final[Version] = (2, 99, 0)


class Issued(Struct, frozen=True, gc=False):
    """Counts of I/Os of reads, writes, trims and (3.4) syncs; empty where not printed."""

    total: tuple[int, ...] = ()
    short: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()


class JobFacts(Struct, frozen=True, gc=False):
    """The properties of a job that apply to all its directions.

    block_sizes: bytes, of reads, writes and trims, None where not one or not known. is_whole: whether no line is
    known to be missing. where: for notes.
    """

    version: Version
    clones: int
    issued: Issued
    block_sizes: tuple[int | None, int | None, int | None]
    is_whole: bool
    where: str


def build_direction(lines: DirectionDraft, facts: JobFacts, notes: Notes) -> Direction | None:
    """Return the direction of these lines; None if the first one cannot be read."""
    where = f"{facts.where}, {lines.label}"
    findings = DirectionFindings(notes, where, "not-measured" if facts.is_whole else "not-reported")
    if lines.label == "sync":
        return _build_sync(lines, facts, findings)
    summary = lines.figures
    if summary is None:
        kind = lines.label or "a direction"
        message = (
            f"the line with the results of {kind} is missing or cannot be read; its latencies were skipped"
        )
        notes.add("unreadable-direction", facts.where, message)
        return None
    issued = facts.issued
    total_ios, short, dropped = (
        count_issued(counts, lines.label) for counts in (issued.total, issued.short, issued.dropped)
    )
    rates = read_rates(
        summary,
        findings,
        total_ios=total_ios,
        block_size=None if short or dropped else _find_block_size(facts, lines.label),
        version=facts.version,
    )
    if total_ios is None:
        findings.missing["total_ios"] = "out-of-range" if issued.total else "not-reported"
    else:
        findings.sources.append(("total_ios", "total of issued"))
    runtime_s = summary.runtime_ms / 1000
    latencies = _read_latencies(lines, findings, runtime_s=runtime_s)
    samples = _read_samples(lines, facts, findings, is_decimal=rates.is_decimal, runtime_s=runtime_s)
    return Direction(
        _NAMES[lines.label],
        rates.io_bytes,
        total_ios,
        rates.iops,
        rates.bandwidth_bytes_per_s,
        runtime_s,
        *latencies,
        *samples,
        findings.missing,
        _share(tuple(findings.sources)),
        short,
        dropped,
    )


@lru_cache(maxsize=1024)
def _share(sources: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(sources)


def read_issued(text: str) -> Issued:
    """Return the counts of I/Os, as many as the version prints.

    Reads "rwts: total=0,119984,0,0 short=0,0,0,0 dropped=0,0,0,0" or "total=r=1/w=0/d=0, short=r=0/w=0/d=0".
    """
    total, _, rest = text[:_ISSUED_LENGTH_MAXIMUM].partition("short=")
    short, dropped = _read_losses(rest)
    return Issued(_read_counts(total), short, dropped)


# Nearly always all zeros.
@lru_cache(maxsize=64)
def _read_losses(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    short, _, dropped = text.partition("drop")
    return _read_counts(short), _read_counts(dropped)


def _read_counts(text: str) -> tuple[int, ...]:
    return tuple(map(int, _INTEGER.findall(text)))


def count_issued(counts: tuple[int, ...], label: str) -> int | None:
    """Return the count of a direction, None if absent; "mixed" is the sum of all except sync."""
    if len(counts) < len(_PLACES):
        return None
    return read_count(sum(counts[:_SYNC_PLACE]) if label == "mixed" else counts[_PLACES[label]])


def _find_block_size(facts: JobFacts, label: str) -> int | None:
    """Return the size of all I/Os of a direction; None if there are several sizes."""
    if label != "mixed":
        return facts.block_sizes[_PLACES[label]]
    return facts.block_sizes[0] if len(set(facts.block_sizes)) == 1 else None


def _read_latencies(
    lines: DirectionDraft, findings: DirectionFindings, *, runtime_s: float
) -> tuple[Latency | None, Latency | None, Latency | None]:
    """Return submission, completion and total latency."""
    submission, completion, total = [
        _read_latency(lines, findings, name=name, kind=kind, runtime_s=runtime_s) for name, kind in _KINDS
    ]
    if completion is None and total is None:
        reason = findings.missing.pop("completion")
        reason = findings.missing.pop("total") if reason == "not-measured" else reason
        findings.missing.pop("total", None)
        findings.missing.pop("submission", None)
        findings.missing["latency"] = findings.missing["percentiles"] = reason
    elif not (completion and completion.percentiles) and not (total and total.percentiles):
        findings.missing["percentiles"] = "not-reported"
    return submission, completion, total


def _read_latency(
    lines: DirectionDraft, findings: DirectionFindings, *, name: str, kind: str, runtime_s: float | None
) -> Latency | None:
    stats, rows = lines.latencies.get(kind, ""), lines.percentiles.get(kind, ())
    return read_text_latency(stats, rows, findings, name=name, kind=kind, runtime_s=runtime_s)


def _read_samples(
    lines: DirectionDraft, facts: JobFacts, findings: DirectionFindings, *, is_decimal: bool, runtime_s: float
) -> tuple[Samples | None, Samples | None]:
    """Return samples of bandwidth and of IOPS."""
    found: list[Samples | None] = []
    for name, word in (("bandwidth_samples", "bw"), ("iops_samples", "iops")):
        text = lines.samples.get(word)
        samples = read_samples(text, is_decimal=is_decimal) if text else None
        if samples is not None and facts.clones > 1 and facts.version < SAMPLES_SUMMED:
            findings.missing[name] = "per-job-samples"
            samples = None
        elif samples is not None:
            findings.sources.append((name, f"{word} line"))
        elif text:
            findings.missing[name] = "not-a-number"
        else:
            findings.missing[name] = _explain_no_samples(word, lines, facts, runtime_s=runtime_s)
        found.append(samples)
    return found[0], found[1]


def _explain_no_samples(word: str, lines: DirectionDraft, facts: JobFacts, *, runtime_s: float) -> str:
    version = facts.version
    is_old = version < _IOPS_SAMPLES_SINCE and (version != UNKNOWN_VERSION or "bw" in lines.samples)
    if (word == "iops" and is_old) or not facts.is_whole:
        return "not-reported"
    return "short-run" if runtime_s < _SHORT_RUN_S else "not-measured"


def _build_sync(lines: DirectionDraft, facts: JobFacts, findings: DirectionFindings) -> Direction | None:
    """Return fsync and the like: latency only; fio before 3.4 and some engines do not count them."""
    total = _read_latency(lines, findings, name="latency", kind="sync", runtime_s=None)
    if total is None:
        return None
    counts = facts.issued.total
    counted = counts[_SYNC_PLACE] if len(counts) > _SYNC_PLACE else 0
    findings.missing.update(
        dict.fromkeys(("io_bytes", "iops", "bandwidth_bytes_per_s", "runtime_s"), "not-reported")
    )
    if not counted:
        findings.missing["total_ios"] = "not-reported"
    if not total.percentiles:
        findings.missing["percentiles"] = "not-reported"
    findings.sources = [("total", source) for _, source in findings.sources]
    return Direction(
        "sync",
        None,
        read_count(counted) or None,
        None,
        None,
        None,
        total=total,
        missing=findings.missing,
        sources=_share(tuple(findings.sources)),
    )
