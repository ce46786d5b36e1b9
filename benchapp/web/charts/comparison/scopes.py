"""The table of a comparison by host or pool, and its sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.metrics import CATALOG, UNKNOWN
from benchapp.queries.comparison_scopes import ScopeResult, ScopeResults
from benchapp.web.charts.comparison.table import ComparisonLine
from benchapp.web.site.value_texts import format_count, format_signed_percent

_NAMED_MAXIMUM: Final = 3
_SHOWN_MAXIMUM: Final = 100
_TOTAL: Final = "All"


@dataclass(frozen=True, slots=True)
class ScopeLine:
    """One host or pool as shown. number: of its largest regression in the data table; None if not shown there."""

    result: ScopeResult
    name: str
    change: str
    change_class: str
    worst: str
    number: int | None


@dataclass(frozen=True, slots=True)
class ScopeTable:
    """The worst first, the total last. metric: label of the metric of the column of changes. left_out: not shown."""

    metric: str
    lines: Sequence[ScopeLine]
    left_out: int


def make_scope_table(results: ScopeResults, lines: Sequence[ComparisonLine]) -> ScopeTable:
    """Return the table; lines: those of the data table."""
    numbers = {id(line.pair): line.number for line in lines}
    shown = [*results.scopes[:_SHOWN_MAXIMUM], results.total]
    return ScopeTable(
        metric=CATALOG[results.total.metric].label,
        lines=[_make_line(result, numbers.get(id(result.worst))) for result in shown],
        left_out=max(0, len(results.scopes) - _SHOWN_MAXIMUM),
    )


def describe_scope_results(results: ScopeResults) -> str:
    """Return the worst: "1 of 7 hosts or pools is worse: db-9 (IOPS −22 %, 3 of 4 values worse)."."""
    count = len(results.scopes)
    if not results.worse_count:
        return f"None of {count} hosts or pools is significantly worse."
    verb = "is" if results.worse_count == 1 else "are"
    named = ", ".join(map(_describe_scope, results.scopes[: min(_NAMED_MAXIMUM, results.worse_count)]))
    more = results.worse_count - _NAMED_MAXIMUM
    rest = f" and {more} more" if more > 0 else ""
    return f"{results.worse_count} of {count} hosts or pools {verb} worse: {named}{rest}."


def _describe_scope(result: ScopeResult) -> str:
    label = CATALOG[result.metric].label
    change = UNKNOWN if result.ratio is None else format_signed_percent(result.ratio - 1)
    return f"{result.name} ({label} {change}, {result.worse} of {format_count(result.values, 'value')} worse)"


def _make_line(result: ScopeResult, number: int | None) -> ScopeLine:
    worst = result.worst
    text = ""
    if worst is not None and worst.comparison.ratio is not None:
        change = format_signed_percent(worst.comparison.ratio - 1)
        text = f"{worst.title.split(' · ')[0]}, {CATALOG[worst.metric].label} {change}"
    return ScopeLine(
        result=result,
        name=result.name or _TOTAL,
        change=UNKNOWN if result.ratio is None else format_signed_percent(result.ratio - 1),
        change_class="worse" if result.worse else "better" if result.better else "none",
        worst=text,
        number=number,
    )
