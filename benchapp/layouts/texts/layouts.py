"""Texts about the ranking of layouts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.metrics import (
    CATALOG,
    UNKNOWN,
    format_count,
    format_signed_percent,
    format_value,
    format_with_unit,
    group_thousands,
)
from benchapp.charts.texts.fixed import describe_fixed, describe_values
from benchapp.charts.texts.levels import describe_mixed_kinds
from benchapp.framework.times import describe_age, format_moment
from benchapp.layouts.read.layout import WORKLOAD_DETAILS, Load
from benchapp.layouts.read.question import PATTERNS, LayoutQuestion
from benchapp.layouts.read.ranking import (
    Lack,
    LayoutRanking,
    MeasuredLoad,
    RankedLayout,
    RequiredName,
    Verdict,
)
from benchapp.series.read.titles import describe_setting, describe_value

VERDICT_TEXTS: Final[Mapping[Verdict, str]] = {
    "meets": "meets",
    "median-only": "median only",
    "misses": "misses",
    "unknown": "unknown",
}
_GB: Final = 10**9
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
    if best.price is None:
        return f"{best.layout.title} meets the requirement with the largest margin"
    if best.least_price is None:
        return f"{best.layout.title} meets the requirement; its price is unknown"
    price = describe_price(best, ranking.currency)
    return f"{best.layout.title} meets the requirement for {price} per month"


def describe_price(row: RankedLayout, currency: str) -> str:
    """Return the price, with "at least" where something provisioned is not recorded; with "(volumes only)" where the
    price of the instance is unknown."""
    text = format_money(row.least_price, currency)
    if row.price is None or row.least_price is None:
        return text
    text = f"at least {text}" if row.price.is_minimum else text
    return f"{text} (volumes only)" if row.price.amount is None else text


def describe_ranking(ranking: LayoutRanking, *, has_ages: bool = True) -> Iterator[str]:
    """Yield what is required, how many layouts meet it, the best one and the closest miss, in sentences.

    has_ages: False for the times of runs, which stay true in a snapshot.
    """
    question = ranking.question
    yield f"Required: {describe_requirement(question, ranking.currency)}."
    if not ranking.all_rows:
        return
    yield f"{describe_counts(ranking)}."
    best = next((row for row in ranking.all_rows if row.verdict == "meets"), None)
    if best is not None:
        yield f"Best: {describe_load(best, ranking.varying, has_ages=has_ages)}."
        yield from describe_left_out(best)
    yield from _describe_without_regressions(ranking, best)
    yield from describe_elsewhere(ranking, best)
    if ranking.closest is not None:
        yield describe_closest_miss(ranking.closest, ranking.currency)


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
    yield f"Without series with an open regression: {first.layout.title} meets it{cost}."


def describe_elsewhere(ranking: LayoutRanking, best: RankedLayout | None) -> Iterator[str]:
    """Yield how many layouts outside the fixed dimensions meet the requirement, and the first of them."""
    if not ranking.elsewhere:
        return
    first = ranking.elsewhere[0]
    verb = "meets" if len(ranking.elsewhere) == 1 else "meet"
    price, own = first.least_price, None if best is None else best.least_price
    cheaper = ", cheaper" if price is not None and own is not None and price < own else ""
    open_names = (*ranking.varying, *(each.dimension for each in ranking.fixed))
    named = ", ".join((first.layout.title, *describe_workload(first.load, open_names)))
    cost = f" for {describe_price(first, ranking.currency)} per month" if price is not None else ""
    yield (
        f"{format_count(len(ranking.elsewhere), 'layout')} outside the fixed values {verb} it:"
        f" {named}{cost}{cheaper}."
    )


def describe_closest_miss(row: RankedLayout, currency: str) -> str:
    """Return the layout that lacks least, and what it lacks, as a sentence."""
    return f"Closest miss: {row.layout.title}: {'; '.join(describe_lacks(row, currency))}."


def describe_omitted(ranking: LayoutRanking) -> Iterator[str]:
    """Yield what does not count, in sentences."""
    if ranking.outdated_count:
        days = format_count(ranking.question.max_age_days or 0, "day")
        yield f"{format_count(ranking.outdated_count, 'series')} not counted: newest run more than {days} ago."
    if text := describe_fixed(ranking.fixed, shown=ranking.series_count, hidden=ranking.hidden_count):
        yield f"{text}."
    yield from describe_mixed_kinds(ranking.latency_kinds)
    if ranking.incomplete_count:
        yield f"{format_count(ranking.incomplete_count, 'load')} not counted: only one direction was measured."
    count = sum(row.price_amount is None and row.least_price is not None for row in ranking.unpriced)
    if count:
        yield (
            f"{format_count(count, 'layout')} with the price of the volumes only: the price of the instance is"
            ' unknown. "Price includes: Volumes only" ranks all layouts by the price of their volumes.'
        )
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
        parts.append(f"at least {_format_capacity(required.capacity_bytes)}")
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
    """Return the details of a load that vary, queue depth and jobs: "4k blocks, queue depth 32 × 1 job"."""
    depth = "unknown" if load.iodepth is None else str(load.iodepth)
    jobs = "" if load.numjobs is None else f" × {format_count(load.numjobs, 'job')}"
    return ", ".join([*describe_workload(load, varying), f"queue depth {depth}{jobs}"])


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
        value, required = _format_capacity(lack.value), _format_capacity(lack.required)
        return f"{value} of {required} ({format_signed_percent(-lack.shortfall)})"
    elif lack.name == "bandwidth_bytes_per_s":
        value, required = format_value(lack.value, "bytes/s"), format_value(lack.required, "bytes/s")
        return f"{value} of {required} ({format_signed_percent(-lack.shortfall)})"
    else:
        value, required = format_value(lack.value, "ns"), format_value(lack.required, "ns")
    excess = f" ({format_signed_percent(lack.value / lack.required - 1)})" if lack.required else ""
    return f"{name} {value}, at most {required}{excess}"


def _format_capacity(size_bytes: float) -> str:
    return f"{group_thousands(size_bytes / _GB)} GB"
