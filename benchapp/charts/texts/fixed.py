"""What is shown of the matching series, and why: the sentence of every page with fixed dimensions."""

from collections.abc import Sequence
from typing import Final

from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import Value
from benchapp.metrics import format_count, format_integer, lower_label
from benchapp.queries.charts.scaling_defaults import FixedDimension, Settings
from benchapp.queries.titles import describe_setting

_NAMED: Final = 3


def describe_fixed(fixed: Sequence[FixedDimension], *, shown: int, hidden: int) -> str:
    """Return how many series are shown, and with which values: "12 of 1 000 series: 5 GiB files, host db-02".

    "" if none is hidden.
    """
    if not hidden or not fixed:
        return ""
    total = format_count(shown + hidden, "series")
    return f"{format_integer(shown)} of {total}: {', '.join(map(_describe_values, fixed))}"


def describe_values(dimension: str, values: Sequence[Value | None]) -> str:
    """Return the values of a dimension for use without a header: "5 GiB or 20 GiB files"; "48 values of host"."""
    if len(values) > _NAMED:
        return f"{len(values)} values of {lower_label(DIMENSIONS[dimension].label)}"
    return " or ".join(describe_setting(dimension, value) for value in values)


def _describe_values(fixed: FixedDimension) -> str:
    return describe_values(fixed.dimension, fixed.values)


def describe_settings(settings: Settings, varying: Sequence[str]) -> str:
    """Return the values of a cell in the dimensions in which cells differ: "depth 16, 20 GiB files"."""
    return ", ".join(describe_values(name, values) for name, values in settings if name in varying)
