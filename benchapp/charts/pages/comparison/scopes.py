"""The table of a comparison by host or pool, and its sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.charts.pages.comparison.table import ComparisonLine
from benchapp.charts.read.comparison_scopes import ScopeResult, ScopeResults
from benchapp.charts.texts.comparison import describe_difference
from benchapp.models import name_scopes

_NAMED_MAXIMUM: Final = 3
_SHOWN_MAXIMUM: Final = 100
_TOTAL: Final = "All"


@dataclass(frozen=True, slots=True)
class ShownDifference:
    """One pattern and metric. number: of its largest difference in the data table; None if not shown there."""

    text: str
    is_worse: bool
    number: int | None


@dataclass(frozen=True, slots=True)
class ScopeLine:
    """One host or pool as shown, its largest differences first. left_out: differences that are not shown."""

    result: ScopeResult
    name: str
    differences: Sequence[ShownDifference]
    left_out: int


@dataclass(frozen=True, slots=True)
class ScopeTable:
    """The worst first, the total last. left_out: hosts and pools that are not shown."""

    lines: Sequence[ScopeLine]
    left_out: int


def make_scope_table(results: ScopeResults, lines: Sequence[ComparisonLine]) -> ScopeTable:
    """Return the table; lines: those of the data table."""
    numbers = {id(line.pair): line.number for line in lines}
    shown = [*results.scopes[:_SHOWN_MAXIMUM], results.total]
    return ScopeTable(
        lines=[_make_line(result, numbers) for result in shown],
        left_out=max(0, len(results.scopes) - _SHOWN_MAXIMUM),
    )


def describe_scope_results(results: ScopeResults) -> str:
    """Return the worst: "1 of 7 hosts is worse: db-9 (random read, IOPS −22 % (3 of 4 series))."."""
    count = len(results.scopes)
    kinds = {result.scope.partition(":")[0] for result in results.scopes}
    noun = " or ".join(f"{kind}s" for kind in sorted(kinds))
    if not results.worse_count:
        return f"None of {count} {noun} is worse."
    verb = "is" if results.worse_count == 1 else "are"
    named = "; ".join(map(_describe_worst, results.scopes[: min(_NAMED_MAXIMUM, results.worse_count)]))
    more = results.worse_count - _NAMED_MAXIMUM
    rest = f"; and {more} more" if more > 0 else ""
    return f"{results.worse_count} of {count} {noun} {verb} worse: {named}{rest}."


def _describe_worst(result: ScopeResult) -> str:
    worst = next(each for each in result.differences if each.is_worse)
    return f"{name_scopes([result.scope])}: {describe_difference(worst)}"


def _make_line(result: ScopeResult, numbers: dict[int, int]) -> ScopeLine:
    return ScopeLine(
        result=result,
        name=name_scopes([result.scope]) if result.scope else _TOTAL,
        differences=[
            ShownDifference(describe_difference(each), each.is_worse, numbers.get(id(each.largest)))
            for each in result.differences[:_NAMED_MAXIMUM]
        ],
        left_out=sum(each.count for each in result.differences[_NAMED_MAXIMUM:]),
    )
