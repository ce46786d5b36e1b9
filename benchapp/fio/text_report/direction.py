"""One direction of one job of fio's text, in base units."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from benchapp.fio.notes import Notes
from benchapp.fio.numbers import read_count
from benchapp.fio.report import Direction, DirectionName, Latency, Samples
from benchapp.fio.text_report.draft import DirectionDraft
from benchapp.fio.text_report.figures import DirectionFindings
from benchapp.fio.text_report.latency import read_samples, read_text_latency
from benchapp.fio.text_report.rates import read_rates
from benchapp.fio.version import SAMPLES_SUMMED, UNKNOWN_VERSION, Version

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
