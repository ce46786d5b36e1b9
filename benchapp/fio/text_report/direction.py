"""One direction of one job of fio's text, in base units."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from benchapp.fio.notes import Notes
from benchapp.fio.numbers import read_count
from benchapp.fio.report import Direction, DirectionName, Latency, Samples
from benchapp.fio.text_report.draft import DirectionDraft
from benchapp.fio.text_report.latency import read_samples, read_text_latency
from benchapp.fio.text_report.rates import count_runtime_in_us, read_rates
from benchapp.fio.version import SAMPLES_SUMMED, UNKNOWN_VERSION, Version

_NAMES: Final[Mapping[str, DirectionName]] = {
    "read": "read",
    "write": "write",
    "trim": "trim",
    "mixed": "mixed",
}
_PLACES: Final = {"read": 0, "write": 1, "trim": 2}
_SYNC_PLACE: Final = 3
_KINDS: Final = (("submission", "slat"), ("completion", "clat"), ("total", "lat"))
# By then there are some of 500 ms each, unless they were switched off.
_SHORT_RUN_S: Final = 2.0
_IOPS_SAMPLES_SINCE: Final[Version] = (2, 99, 0)


class JobFacts(Struct, frozen=True, gc=False):
    """What of a job bears on all its directions.

    issued, short, dropped: counts of I/Os of reads, writes, trims and (3.4) syncs; empty where not printed.
    block_sizes: bytes, of reads, writes and trims, None where not one or not known. is_whole: whether no line is
    known to be missing. has_runtime_in_us: whether what fio calls msec is µs. where: for notes.
    """

    version: Version
    clones: int
    issued: tuple[int, ...]
    short: tuple[int, ...]
    dropped: tuple[int, ...]
    block_sizes: tuple[int | None, int | None, int | None]
    is_whole: bool
    has_runtime_in_us: bool
    where: str


class _Ledger(Struct):
    """Why values are missing, where they are from, and what is to be said of them.

    unprinted: why what has no line is missing.
    """

    missing: dict[str, str]
    sources: list[tuple[str, str]]
    notes: Notes
    where: str
    unprinted: str


def build_direction(lines: DirectionDraft, facts: JobFacts, notes: Notes) -> Direction | None:
    """Return the direction of these lines; None if the first of them cannot be read."""
    where = f"{facts.where}, {lines.label}"
    unprinted = "not-measured" if facts.is_whole else "not-reported"
    if lines.label == "sync":
        return _build_sync(lines, facts, _Ledger({}, [], notes, where, unprinted))
    summary = lines.figures
    if summary is None:
        kind = lines.label or "a direction"
        message = (
            f"the line with the results of {kind} is missing or cannot be read; its latencies were left out"
        )
        notes.add("unreadable-direction", facts.where, message)
        return None
    total_ios = count_issued(facts.issued, lines.label)
    short, dropped = count_issued(facts.short, lines.label), count_issued(facts.dropped, lines.label)
    rates = read_rates(
        summary,
        total_ios=total_ios,
        block_size=None if short or dropped else _find_block_size(facts, lines.label),
        version=facts.version,
    )
    if facts.has_runtime_in_us:
        rates = count_runtime_in_us(rates, summary, total_ios)
    for code, message in rates.faults:
        notes.add(code, where, message)
    ledger = _Ledger(rates.missing, list(rates.sources), notes, where, unprinted)
    if total_ios is None:
        ledger.missing["total_ios"] = "out-of-range" if facts.issued else "not-reported"
    else:
        ledger.sources.append(("total_ios", "total of issued"))
    runtime_s = summary.runtime_ms / (1_000_000 if facts.has_runtime_in_us else 1000)
    latencies = _read_latencies(lines, ledger, runtime_s=runtime_s)
    samples = _read_samples(lines, facts, ledger, is_decimal=rates.is_decimal, runtime_s=runtime_s)
    return Direction(
        _NAMES[lines.label],
        rates.io_bytes,
        total_ios,
        rates.iops,
        rates.bandwidth_bytes_per_s,
        runtime_s,
        *latencies,
        *samples,
        ledger.missing,
        _share(tuple(ledger.sources)),
        short,
        dropped,
    )


@lru_cache(maxsize=1024)
def _share(sources: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(sources)


def count_issued(counts: tuple[int, ...], label: str) -> int | None:
    """Return the count of a direction, None where there is none; "mixed" is all that is not sync."""
    if len(counts) < len(_PLACES):
        return None
    return read_count(sum(counts[:_SYNC_PLACE]) if label == "mixed" else counts[_PLACES[label]])


def _find_block_size(facts: JobFacts, label: str) -> int | None:
    """Return the one size that all I/Os of a direction had, as none were short or dropped."""
    if label != "mixed":
        return facts.block_sizes[_PLACES[label]]
    return facts.block_sizes[0] if len(set(facts.block_sizes)) == 1 else None


def _read_latencies(
    lines: DirectionDraft, ledger: _Ledger, *, runtime_s: float
) -> tuple[Latency | None, Latency | None, Latency | None]:
    """Return submission, completion and total latency."""
    submission, completion, total = [
        _read_latency(lines, kind, name=name, runtime_s=runtime_s, ledger=ledger) for name, kind in _KINDS
    ]
    if completion is None and total is None:
        reason = ledger.missing.pop("completion")
        reason = ledger.missing.pop("total") if reason == "not-measured" else reason
        ledger.missing.pop("total", None)
        ledger.missing.pop("submission", None)
        ledger.missing["latency"] = ledger.missing["percentiles"] = reason
    elif not (completion and completion.percentiles) and not (total and total.percentiles):
        ledger.missing["percentiles"] = "not-reported"
    return submission, completion, total


def _read_latency(
    lines: DirectionDraft, kind: str, *, name: str, runtime_s: float | None, ledger: _Ledger
) -> Latency | None:
    found = read_text_latency(
        lines.latencies.get(kind, ""), lines.percentiles.get(kind, ()), runtime_s=runtime_s
    )
    if found.reason:
        ledger.missing[name] = ledger.unprinted if found.reason == "not-measured" else found.reason
    if found.latency is not None:
        ledger.sources.append((name, f"{kind} in {found.unit}"))
    if found.has_rounded_percents:
        ledger.notes.add(
            "text-percents-rounded",
            ledger.where,
            f"fio printed percents of {kind} without decimals, so that several read alike; those were left out",
        )
    return found.latency


def _read_samples(
    lines: DirectionDraft, facts: JobFacts, ledger: _Ledger, *, is_decimal: bool, runtime_s: float
) -> tuple[Samples | None, Samples | None]:
    """Return samples of bandwidth and of IOPS."""
    found: list[Samples | None] = []
    for name, word in (("bandwidth_samples", "bw"), ("iops_samples", "iops")):
        text = lines.samples.get(word)
        samples = read_samples(text, is_decimal=is_decimal) if text else None
        if samples is not None and facts.clones > 1 and facts.version < SAMPLES_SUMMED:
            ledger.missing[name] = "per-job-samples"
            samples = None
        elif samples is not None:
            ledger.sources.append((name, f"{word} line"))
        elif text:
            ledger.missing[name] = "not-a-number"
        else:
            ledger.missing[name] = _explain_no_samples(word, lines, facts, runtime_s=runtime_s)
        found.append(samples)
    return found[0], found[1]


def _explain_no_samples(word: str, lines: DirectionDraft, facts: JobFacts, *, runtime_s: float) -> str:
    version = facts.version
    is_old = version < _IOPS_SAMPLES_SINCE and (version != UNKNOWN_VERSION or "bw" in lines.samples)
    if (word == "iops" and is_old) or not facts.is_whole:
        return "not-reported"
    return "short-run" if runtime_s < _SHORT_RUN_S else "not-measured"


def _build_sync(lines: DirectionDraft, facts: JobFacts, ledger: _Ledger) -> Direction | None:
    """Return fsync and the like: latency alone; fio before 3.4 and some engines do not count them."""
    total = _read_latency(lines, "sync", name="latency", runtime_s=None, ledger=ledger)
    if total is None:
        return None
    counted = facts.issued[_SYNC_PLACE] if len(facts.issued) > _SYNC_PLACE else 0
    ledger.missing.update(
        dict.fromkeys(("io_bytes", "iops", "bandwidth_bytes_per_s", "runtime_s"), "not-reported")
    )
    if not counted:
        ledger.missing["total_ios"] = "not-reported"
    if not total.percentiles:
        ledger.missing["percentiles"] = "not-reported"
    ledger.sources = [("total", source) for _, source in ledger.sources]
    return Direction(
        "sync",
        None,
        read_count(counted) or None,
        None,
        None,
        None,
        total=total,
        missing=ledger.missing,
        sources=_share(tuple(ledger.sources)),
    )
