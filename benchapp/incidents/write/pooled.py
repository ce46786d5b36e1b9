"""The pooled levels of an incident: how many series of a host or pool changed, and by how much."""

from collections.abc import Sequence
from typing import Any

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.metrics import CATALOG, format_integer, format_signed_percent
from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.incidents.write.common_factors import name_value
from benchapp.models import Change


def describe_pooled_levels(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Return the changes of pooled levels among these changes, each with its series, the most series first."""
    found: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for change in changes:
        if change.method == POOLED_METHOD:
            pooled, scope = change.evidence["pooled"], change.series.scope
            key = (scope, change.metric, pooled["dimension"], pooled["value"])
            found[key] = {
                "scope": scope,
                "dimension": pooled["dimension"],
                "value": pooled["value"],
                "metric": change.metric,
                "series": pooled["members"],
                "changed": pooled["changed"],
                "relative": pooled["median"],
                "text": _describe(change.metric, pooled, is_rise=change.relative > 0),
            }
    return sorted(found.values(), key=lambda one: (-one["changed"], one["scope"], one["metric"]))


def _describe(metric: str, pooled: dict[str, Any], *, is_rise: bool) -> str:
    """Return a sentence: "IOPS lower in 36 of 40 series, median −3.0 %"."""
    way = "higher" if is_rise else "lower"
    changed, members = format_integer(pooled["changed"]), format_integer(pooled["members"])
    series = f"{changed} of {members} series"
    if name := pooled["dimension"]:
        is_text = DIMENSIONS[name].kind == "text"
        series += f" with {name_value(name, pooled['value'] if is_text else int(pooled['value']))}"
    return f"{CATALOG[metric].label} {way} in {series}, median {format_signed_percent(pooled['median'])}"
