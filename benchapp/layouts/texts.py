"""Texts about the ranking of layouts, its remembered answer, and what to measure next."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from shlex import join
from typing import Final

from django.http import QueryDict

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import BadFilter
from benchapp.catalog.metrics import (
    CATALOG,
    UNKNOWN,
    format_count,
    format_percent,
    format_signed_percent,
    format_value,
    format_with_unit,
    group_thousands,
    lower_label,
    show_rates_in,
)
from benchapp.charts.texts.levels import describe_fixed, describe_mixed_kinds, describe_values
from benchapp.framework.times import describe_age, format_moment, to_iso
from benchapp.layouts.read.next_runs import NextRun, NextRuns
from benchapp.layouts.read.prices import UnknownRegion, list_prices, select_prices
from benchapp.layouts.read.question import PATTERNS, BadQuestion, LayoutQuestion, read_question
from benchapp.layouts.read.ranking import (
    WORKLOAD_DETAILS,
    LayoutRanking,
    Load,
    MeasuredLoad,
    RankedLayout,
    rank_layouts,
)
from benchapp.layouts.read.run_commands import RunCommand
from benchapp.layouts.rules.answers import LayoutFacts, RememberedAnswer
from benchapp.layouts.rules.next_runs import RUNS_MAXIMUM, RunReason
from benchapp.layouts.rules.ranking import Lack, RequiredName, Verdict
from benchapp.models import SAMPLE_HOST
from benchapp.models.filtering import WITHOUT_SAMPLE
from benchapp.series.read.titles import describe_setting, describe_value

VERDICT_TEXTS: Final[Mapping[Verdict, str]] = {
    "meets": "meets",
    "median-only": "median only",
    "misses": "misses",
    "unknown": "unknown",
}
_LARGE_BLOCKS: Final = 64 * 2**10
_LACKING: Final[Mapping[RequiredName, str]] = {
    "iops": "IOPS",
    "bandwidth_bytes_per_s": "bandwidth",
    "latency_p99_ns": "p99 latency",
    "capacity_bytes": "capacity",
    "price": "price",
}


def format_money(amount: float | None, currency: str) -> str:
    """Return an amount with its currency, from 100 on without decimals: "USD 643", "USD 0.31"."""
    if amount is None:
        return UNKNOWN
    text = group_thousands(amount) if amount >= 99.5 else f"{amount:.2f}"
    return f"{currency} {text}".strip()


def format_layouts_title(ranking: LayoutRanking) -> str:
    """Return the answer in a sentence."""
    if not ranking.all_rows:
        return "No measurements of this workload"
    met = [row for row in ranking.all_rows if row.verdict == "meets"]
    if not met and ranking.elsewhere:
        with_these = ", ".join(describe_values(each.dimension, each.values) for each in ranking.fixed)
        layouts = format_count(len(ranking.elsewhere), "other layout")
        verb = "meets" if len(ranking.elsewhere) == 1 else "meet"
        return f"No layout with {with_these} meets the requirement; {layouts} {verb} it"
    if not met:
        return "No measured layout meets the requirement"
    best = met[0]
    if best.is_in_doubt:
        sure = next((row for row in met if not row.is_in_doubt), None)
        cost = (
            "" if sure is None or sure.least_price is None else f", {describe_price(sure, ranking.currency)}"
        )
        surely = "surely: no layout" if sure is None else f"surely: {sure.layout.short_title}{cost}"
        incidents = "incident" if len(best.incident_ids) == 1 else "incidents"
        named = f" ({incidents} {', '.join(map(str, best.incident_ids))})" if best.incident_ids else ""
        return (
            f"{best.layout.short_title} meets the requirement only without open regressions{named}; {surely}"
        )
    if best.price is None:
        return f"{best.layout.short_title} meets the requirement with the largest margin"
    if best.least_price is None:
        return f"{best.layout.short_title} meets the requirement; its price is unknown"
    price = describe_price(best, ranking.currency)
    return f"{best.layout.short_title} meets the requirement for {price} per month"


def describe_price(row: RankedLayout, currency: str) -> str:
    """Return the price with its notes: "USD 64.21 or more (volumes only)"."""
    text = format_money(row.least_price, currency)
    if row.price is None or row.least_price is None:
        return text
    more = " or more" if row.price.is_minimum else ""
    return f"{text}{more}{' (volumes only)' if row.price.is_of_volumes else ''}"


def list_price_notes(row: RankedLayout) -> tuple[str, ...]:
    """Return why the price may be higher, and "volumes only" without the price of the instance."""
    if row.price is None or row.least_price is None:
        return ()
    return tuple(
        text
        for text, applies in (
            ("or more", row.price.is_minimum),
            ("volumes only", row.price.is_of_volumes),
        )
        if applies
    )


def describe_ranking(ranking: LayoutRanking, *, has_ages: bool = True) -> Iterator[str]:
    """Yield how many layouts meet what is required, a caveat and the closest miss; then the rest, in sentences.

    has_ages: False for the times of runs, which stay true in a snapshot.
    """
    required = f"Required: {describe_requirement(ranking.question, ranking.currency)}."
    if not ranking.all_rows:
        yield required
        return
    yield f"{describe_counts(ranking)}."
    best = next((row for row in ranking.all_rows if row.verdict == "meets"), None)
    caveats = [
        *([] if best is None else describe_left_out(best)),
        *_describe_without_regressions(ranking, best),
        *describe_elsewhere(ranking, best),
    ]
    yield from caveats[:1]
    if ranking.closest is not None:
        yield describe_closest_miss(ranking.closest, ranking.currency)
    yield from caveats[1:]
    if best is not None:
        yield f"Best: {describe_load(best, ranking.varying, has_ages=has_ages)}."
    yield required


def describe_counts(ranking: LayoutRanking) -> str:
    """Return how many layouts have each verdict: "3 of 6 measured layouts meet it, 3 miss it"."""
    rows = ranking.all_rows
    total = format_count(len(rows), "measured layout")
    parts = [f"{ranking.count('meets')} of {total} meet it"]
    texts: tuple[tuple[Verdict, str], ...] = (
        ("median-only", "by the medians only"),
        ("misses", "miss it"),
        ("unknown", "with something required unknown"),
    )
    parts += [f"{ranking.count(verdict)} {text}" for verdict, text in texts if ranking.count(verdict)]
    return ", ".join(parts)


def describe_left_out(row: RankedLayout) -> Iterator[str]:
    """Yield which series have an open regression, and the verdict with or without them; file sizes that miss it."""
    if row.left_out and row.verdict_with_all is not None:
        count = format_count(row.left_out, "series")
        verdict = (
            "the same verdict" if row.verdict_with_all == row.verdict else VERDICT_TEXTS[row.verdict_with_all]
        )
        yield f"{count} with an open regression not counted; with all series: {verdict}."
    if row.regressed_count:
        total = format_count(len(row.load.series_ids), "series")
        verdict = "not measured" if row.verdict_without is None else VERDICT_TEXTS[row.verdict_without]
        yield f"Open regression in {row.regressed_count} of {total}; without: {verdict}."
    if row.missed_file_sizes:
        yield f"With {describe_values('file_size_bytes', row.missed_file_sizes)}: not met."


def _describe_without_regressions(ranking: LayoutRanking, best: RankedLayout | None) -> Iterator[str]:
    """Yield the best layout without series with an open regression, if it is another one."""
    first = ranking.first_without
    is_same = (best and best.layout) == (first and first.layout)
    if is_same or not any(row.regressed_count for row in ranking.all_rows):
        return
    if first is None:
        yield "Without series with an open regression: no layout meets it."
        return
    cost = "" if first.least_price is None else f" for {describe_price(first, ranking.currency)} per month"
    yield f"Without series with an open regression: {first.layout.short_title} meets it{cost}."


def describe_elsewhere(ranking: LayoutRanking, best: RankedLayout | None) -> Iterator[str]:
    """Yield how many layouts outside the fixed dimensions meet the requirement, and the first of them."""
    if not ranking.elsewhere:
        return
    first = ranking.elsewhere[0]
    verb = "meets" if len(ranking.elsewhere) == 1 else "meet"
    price, own = first.least_price, None if best is None else best.least_price
    cheaper = ", cheaper" if price is not None and own is not None and price < own else ""
    open_names = (*ranking.varying, *(each.dimension for each in ranking.fixed))
    named = ", ".join((first.layout.short_title, *describe_workload(first.load, open_names)))
    cost = f" for {describe_price(first, ranking.currency)} per month" if price is not None else ""
    yield (
        f"{format_count(len(ranking.elsewhere), 'layout')} outside the fixed values {verb} it:"
        f" {named}{cost}{cheaper}."
    )


def describe_closest_miss(row: RankedLayout, currency: str) -> str:
    """Return the layout that lacks least, and what it lacks, as a sentence."""
    return f"Closest miss: {row.layout.short_title}: {'; '.join(describe_lacks(row, currency))}."


def describe_omitted(ranking: LayoutRanking) -> Iterator[str]:
    """Yield what does not count, in sentences."""
    if ranking.outdated_count:
        days = format_count(ranking.question.max_age_days or 0, "day")
        yield f"{format_count(ranking.outdated_count, 'series')} not counted: newest run more than {days} ago."
    if text := describe_fixed(ranking.fixed, shown=ranking.series_count, hidden=ranking.hidden_count):
        yield f"{text}."
    if WITHOUT_SAMPLE in ranking.question.filter.terms:
        yield f"The sample is left out. Data from host:{SAMPLE_HOST} shows it."
    yield from describe_mixed_kinds(ranking.latency_kinds)
    if ranking.incomplete_count:
        yield f"{format_count(ranking.incomplete_count, 'load')} not counted: only one direction was measured."
    count = sum(row.price_amount is None and row.least_price is not None for row in ranking.unpriced)
    if count:
        yield (
            f"{format_count(count, 'layout')} with the price of the volumes only: the price of the instance is"
            ' unknown. "Price includes: Volumes only" ranks all layouts by the price of their volumes.'
        )
    if any(row.price is not None and row.price.is_minimum for row in ranking.all_rows):
        yield '"Or more": what is provisioned is not recorded. The price is for what was measured.'
    if ranking.question.price_of == "volumes":
        yield "Prices are of the volumes only."
    if ranking.is_cut:
        yield "More series match than are read: narrow the filter."


def describe_requirement(question: LayoutQuestion, currency: str) -> str:
    """Return what is required: "20 000 IOPS, random read, 4k blocks, p99 at most 3 ms, 1 000 GB"."""
    required = question.requirement
    parts = []
    if required.iops is not None:
        parts.append(format_with_unit(required.iops, CATALOG["iops"]))
    if required.bandwidth_bytes_per_s is not None:
        parts.append(format_value(required.bandwidth_bytes_per_s, "bytes/s"))
    parts.append(PATTERNS[question.pattern].lower())
    if question.read_share is not None and question.is_mixed:
        parts.append(f"{question.read_share} % reads")
    if question.block_size:
        parts.append(f"{question.block_size} blocks")
    if required.latency_p99_ns is not None:
        parts.append(f"p99 latency at most {format_value(required.latency_p99_ns, 'ns')}")
    if required.capacity_bytes is not None:
        parts.append(
            f"at least {format_value(required.capacity_bytes, 'bytes')}"
            f" ({group_thousands(required.capacity_bytes / 10**9)} GB)"
        )
    if required.price is not None:
        parts.append(f"at most {format_money(required.price, currency)} per month")
    return ", ".join(parts)


def describe_load(row: RankedLayout, varying: Sequence[str], *, has_ages: bool = True) -> str:
    """Return what the deciding load of a layout delivers, in one sentence without a period.

    varying: details of the workload to name; has_ages: as above.
    """
    load, margin = row.load, row.assessment.margin
    latency = load.levels.latency_p99_ns
    at = "" if latency is None else f" at p99 latency {format_value(latency.median or latency.p90, 'ns')}"
    more = "" if margin is None else f", margin {format_signed_percent(margin)} at p10"
    newest = describe_age(load.last_at) if has_ages else format_moment(load.last_at)
    runs = f"{format_count(load.n, 'run')}, the newest {newest}"
    return f"{format_throughput(load)}{at}, {format_load(load, varying)}{more}; {runs}"


def describe_lacks(row: RankedLayout, currency: str) -> list[str]:
    """Return each requirement that a layout does not meet: "IOPS 19 344 of 20 000 (−3.3 %)"."""
    return [
        f"price {describe_price(row, currency)}, at most {format_money(lack.required, currency)}"
        if lack.name == "price" and lack.value is None and row.least_price is not None
        else _describe_lack(lack, row, currency=currency)
        for lack in row.assessment.lacks
    ]


def format_throughput(load: MeasuredLoad) -> str:
    """Return the median throughput of a load: IOPS, bandwidth for 64 KiB blocks and more."""
    is_large = (load.block_size_bytes or 0) >= _LARGE_BLOCKS and load.levels.bandwidth_bytes_per_s is not None
    if load.levels.iops is not None and not is_large:
        return format_with_unit(load.levels.iops.median, CATALOG["iops"])
    bandwidth = load.levels.bandwidth_bytes_per_s
    return format_value(None if bandwidth is None else bandwidth.median, "bytes/s")


def format_load(load: Load, varying: Sequence[str]) -> str:
    """Return the details of a load that vary, queue depth and jobs: "4k blocks, QD 32 × 1 job"."""
    depth = "unknown" if load.iodepth is None else str(load.iodepth)
    jobs = "" if load.numjobs is None else f" × {format_count(load.numjobs, 'job')}"
    return ", ".join([*describe_workload(load, varying), f"QD {depth}{jobs}"])


def describe_workload(load: Load, names: Sequence[str]) -> list[str]:
    """Return the known details of a load by some dimensions: ["4k blocks", "20 GiB files"]."""
    values = ((name, getattr(load, name)) for name in WORKLOAD_DETAILS if name in names)
    return [describe_setting(name, value) for name, value in values if value is not None]


def list_fixed(ranking: LayoutRanking) -> list[tuple[str, str, str]]:
    """Return name, label and value of each fixed dimension."""
    return [
        (
            each.dimension,
            DIMENSIONS[each.dimension].label,
            " or ".join(describe_value(each.dimension, value) for value in each.values),
        )
        for each in ranking.fixed
    ]


def _describe_lack(lack: Lack, row: RankedLayout, *, currency: str) -> str:
    name = _LACKING[lack.name]
    if lack.value is None:
        return f"{name} unknown"
    if lack.name == "iops":
        value, required = (
            format_value(lack.value, "operations/s"),
            format_value(lack.required, "operations/s"),
        )
        return f"{value} of {required} IOPS ({format_signed_percent(-lack.shortfall)})"
    if lack.name == "price":
        value, required = describe_price(row, currency), format_money(lack.required, currency)
    elif lack.name == "capacity_bytes":
        value, required = format_value(lack.value, "bytes"), format_value(lack.required, "bytes")
        return f"{value} of {required} ({format_signed_percent(-lack.shortfall)})"
    elif lack.name == "bandwidth_bytes_per_s":
        value, required = format_value(lack.value, "bytes/s"), format_value(lack.required, "bytes/s")
        return f"{value} of {required} ({format_signed_percent(-lack.shortfall)})"
    else:
        value, required = format_value(lack.value, "ns"), format_value(lack.required, "ns")
    excess = f" ({format_signed_percent(lack.value / lack.required - 1)})" if lack.required else ""
    return f"{name} {value}, at most {required}{excess}"


class NotAnswerable(Exception):
    """A question without an answer today; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """An answer of now. requirement: in words; layouts: those that were asked for, and those of the answer."""

    answer: RememberedAnswer
    requirement: str
    layouts: tuple[LayoutFacts, ...]


# The text is sent to readers with any units.
@show_rates_in("si")
def find_layout_answer(query: str, *, titles: Collection[str], now: datetime) -> FoundAnswer:
    """Return the answer to a question, as of `read_question`, and the facts of layouts. Raises NotAnswerable."""
    try:
        ranking = rank_layouts(read_question(QueryDict(query)), now=now)
    except (BadQuestion, BadFilter, UnknownRegion) as problem:
        raise NotAnswerable(str(problem)) from problem
    rows = ranking.all_rows
    best, closest = rows[0] if rows else None, ranking.closest
    answer = RememberedAnswer(
        sentence=format_layouts_title(ranking),
        best=None if best is None else _describe(best, ranking),
        closest=None if closest is None else _describe(closest, ranking),
        lacks="" if closest is None else "; ".join(describe_lacks(closest, ranking.currency)),
        prices=_identify_prices(ranking, now),
    )
    wanted = {*titles, *(each.title for each in (answer.best, answer.closest) if each is not None)}
    return FoundAnswer(
        answer,
        describe_requirement(ranking.question, ranking.currency),
        tuple(_describe(row, ranking) for row in rows if row.layout.title in wanted),
    )


def _describe(row: RankedLayout, ranking: LayoutRanking) -> LayoutFacts:
    price = "" if row.price_amount is None else f", {describe_price(row, ranking.currency)} per month"
    return LayoutFacts(
        title=row.layout.title,
        verdict=row.verdict,
        load=f"{format_throughput(row.load)}, {format_load(row.load, ranking.varying)}{price}",
        price=describe_price(row, ranking.currency) if row.price_amount is not None else "",
        runs=row.load.n,
        last_at=to_iso(row.load.last_at),
        incidents=tuple(sorted(row.incident_ids)),
    )


def _identify_prices(ranking: LayoutRanking, now: datetime) -> str:
    prices = select_prices(list_prices(), region=ranking.region, day=now.date())
    volumes, instances = (sorted(each.items()) for each in (prices.volumes, prices.instances))
    return hashlib.sha256(repr((prices.currency, volumes, instances)).encode()).hexdigest()[:16]


NOT_POSSIBLE: Final = (
    "needs a new host or volume: no host has this layout in a directory whose newest run is of the last year"
)
_OTHER_DIRECTION: Final = {"read": "writes", "write": "reads"}


NOTHING_DECIDES: Final = "Nothing to measure: more runs of these layouts would not change the answer."
NOTHING_MISSING: Final = (
    "Nothing to measure: no combination has a gap, few runs, an old level or a wide interval."
)


def describe_next_runs(plan: NextRuns, *, nothing: str = NOTHING_DECIDES) -> str:
    """Return the plan in a sentence. nothing: the sentence without measurements."""
    if not plan.measurements:
        return nothing
    if not plan.commands:
        return "No host can carry out these runs."
    duration = format_duration(plan.duration_s)
    took = f", {duration}" if duration else ", duration unknown"
    more = f" {format_count(plan.more, 'more gap')} not listed." if plan.more else ""
    return f"{format_count(plan.run_count, 'run')}{took} in total.{more}"


def describe_reason(reason: RunReason, measured: NextRun) -> str:
    """Return why to measure: "only 2 runs", "newest run 190 days ago"."""
    if reason.name == "few-runs":
        return f"only {format_count(measured.n, 'run')}"
    if reason.name == "missing":
        return "never measured"
    if reason.name == "failed":
        return "every run failed"
    if reason.name == "wide":
        spread = "" if reason.spread is None else format_percent(reason.spread)
        text = f"95 % interval of the median wider than ±5 %, spread {spread}"
        return text if reason.runs is not None else f"{text}: more than {RUNS_MAXIMUM} runs would be needed"
    if reason.name == "old":
        age = measured.age or timedelta()
        return f"newest run {format_count(age.days, 'day')} ago"
    if reason.name == "one-direction":
        missing = ", ".join(_OTHER_DIRECTION.get(each, each) for each in measured.directions)
        return f"{missing} of the mix not measured"
    name = "" if reason.metric is None else lower_label(CATALOG[reason.metric].label)
    if reason.name == "unknown":
        at = "this load" if measured.iops is None else format_with_unit(measured.iops, CATALOG["iops"])
        return f"{name} at {at} unknown"
    gap = "" if reason.gap is None else format_percent(reason.gap)
    spread = "" if reason.spread is None else format_percent(reason.spread)
    other = "the requirement" if reason.name == "near-requirement" else "the one of the other candidate"
    text = f"{name} {gap} from {other}, spread {spread}"
    return text if reason.runs is not None else f"{text}: more than {RUNS_MAXIMUM} runs would be needed"


def format_queue_depth(measured: NextRun) -> str:
    """Return queue depth and jobs: "32 × 1"; "" for a combination of a chart."""
    if measured.iodepth is None and measured.numjobs is None:
        return ""
    return " × ".join("?" if each is None else str(each) for each in (measured.iodepth, measured.numjobs))


def write_command(command: RunCommand) -> str:
    """Return the shell line of a command; several runs are a loop."""
    line = join(command.argv)
    if command.runs == 1:
        return line
    return f"for run in $(seq {command.runs}); do {line}; done"


def describe_duration(command: RunCommand) -> str:
    """Return the expected duration of a command: "4 × 18 s", and where it comes from."""
    one = format_duration(command.duration_s)
    if not one:
        return "duration unknown"
    source = "as earlier runs" if command.is_duration_stored else "runtime of the workload"
    return f"{one if command.runs == 1 else f'{command.runs} × {one}'} ({source})"


def format_duration(duration_s: float | None) -> str:
    """Return a duration in its largest unit: "18 s", "12 min", "3.5 h"; "" if unknown."""
    if duration_s is None:
        return ""
    if duration_s < 120:
        return f"{max(1, round(duration_s))} s"
    if duration_s < 7200:
        return f"{round(duration_s / 60)} min"
    return f"{duration_s / 3600:.1f} h"
