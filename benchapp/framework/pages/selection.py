"""Rows that a person selects in a list, to compare them or to show their history.

A list has a check box per row, named `selected`, and one form (`framework/_selection.html`) that sends the values to
Compare or History, which redirect to the address of what is selected.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse

from benchapp.catalog.grammar import Filter, Term, Test, write_filter
from benchapp.catalog.metrics import CATALOG, format_count
from benchapp.charts.read.comparison import SERIES_IDS_MAXIMUM
from benchapp.charts.read.history import LINES_MAXIMUM
from benchapp.framework.times import to_iso
from benchapp.series.read.series import (
    ChangeRanges,
    find_run_place,
    list_series_of_runs,
    read_pools,
    read_ranges_of_changes,
    read_ranges_of_incident,
)

_ID_DIGITS: Final = 18
# Compared on each side of an environment change: long enough for weekly runs, and usually without another change.
_ENVIRONMENT_DAYS: Final = timedelta(days=30)


class BadSelection(Exception):
    """A selection that cannot be compared or shown; the message has the reason."""


@dataclass(frozen=True, slots=True)
class SelectionKind:
    """What the rows of a list are. plural: of the noun; compare_least, compare_most, history_most: rows that fit."""

    name: str
    plural: str
    compare_least: int = 2
    compare_most: int = 2
    history_most: int = LINES_MAXIMUM


KINDS: Final = {
    kind.name: kind
    for kind in (
        SelectionKind("run", "runs"),
        SelectionKind("series", "series"),
        SelectionKind("host", "hosts"),
        SelectionKind("change", "changes", 1, SERIES_IDS_MAXIMUM),
        SelectionKind("incident", "incidents", 1, 1, 1),
        # Given by the first run in the new environment.
        SelectionKind("environment", "environment changes", 1, 1, 1),
    )
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Selected rows, the first one first. metric: that the list shows; series: that its page shows; "" without one."""

    kind: SelectionKind
    values: tuple[str, ...]
    metric: str = ""
    series: str = ""

    @property
    def ids(self) -> tuple[int, ...]:
        """Return the values as numbers. Raises BadSelection."""
        wrong = next((value for value in self.values if not _is_id(value)), None)
        if wrong is not None:
            raise BadSelection(f"{wrong[:40]!r} is not a valid {self.kind.name} id.")
        return tuple(map(int, self.values))


def read_selection(query: QueryDict) -> Selection | None:
    """Return the selection of an address; None if it has none. Raises BadSelection."""
    name = query.get("kind")
    if name is None:
        return None
    kind = KINDS.get(name)
    if kind is None:
        raise BadSelection(f"{name[:40]!r} is not a valid kind of selection. Valid: {', '.join(KINDS)}.")
    values = tuple(dict.fromkeys(value for value in query.getlist("selected") if value))
    if not values:
        raise BadSelection(f"Nothing is selected. Select {kind.plural} in the list.")
    metric, series = query.get("metric", ""), query.get("series", "")
    return Selection(kind, values, metric if metric in CATALOG else "", series if _is_id(series) else "")


def find_comparison(selection: Selection) -> tuple[str, str]:
    """Return the address of the comparison of a selection, the first row as the baseline, and a note, usually "".

    Raises BadSelection.
    """
    kind, count = selection.kind, len(selection.values)
    if not kind.compare_least <= count <= kind.compare_most:
        takes = "two" if kind.compare_most == 2 else f"at most {kind.compare_most}"
        raise BadSelection(
            f"{format_selected(kind, count)}; select {takes} to compare, the baseline first."
            " History shows several in one chart."
        )
    query, note = _COMPARE[kind.name](selection)
    return f"{reverse('compare')}?{urlencode(query, doseq=True, safe=':,/*')}", note


def find_history(selection: Selection) -> str:
    """Return the address of the history of a selection. Raises BadSelection."""
    kind, count = selection.kind, len(selection.values)
    if count > kind.history_most:
        raise BadSelection(
            f"{format_selected(kind, count)}; History shows at most {kind.history_most} in one chart."
        )
    query = _SHOW[kind.name](selection)
    if selection.metric and "metric" not in query:
        query["metric"] = selection.metric
    return f"{reverse('history')}?{urlencode(query, safe=':,/*')}"


def format_selected(kind: SelectionKind, count: int) -> str:
    """Return "3 runs are selected"."""
    return f"{format_count(count, kind.name)} {'is' if count == 1 else 'are'} selected"


_Query = dict[str, str | list[str]]


def _compare_two(parameter: str) -> Callable[[Selection], tuple[_Query, str]]:
    def compare(selection: Selection) -> tuple[_Query, str]:
        baseline, other = selection.ids
        query: _Query = {f"a_{parameter}": str(baseline), f"b_{parameter}": str(other)}
        return query | ({"metric": selection.metric} if selection.metric else {}), ""

    return compare


def _compare_hosts(selection: Selection) -> tuple[_Query, str]:
    pools = read_pools(selection.values)
    a, b = selection.values
    if pools.get(a) and pools.get(a) == pools.get(b):
        raise BadSelection(
            f"{a} and {b} belong to pool {pools[a]}, whose series they share. Compare runs of them instead."
        )
    sides = [
        _filter_scope("pool", [pools[name]]) if pools.get(name) else _filter_scope("host", [name])
        for name in (a, b)
    ]
    return {"a": sides[0], "b": sides[1]}, ""


def _compare_changes(selection: Selection) -> tuple[_Query, str]:
    return _compare_ranges(selection, _read_ranges(selection))


def _compare_environment(selection: Selection) -> tuple[_Query, str]:
    """Return the series of the page, or those of the run's host or pool, before and after a run."""
    host, pool, started_at = _read_place(selection)
    first_at, turn, last_at = (to_iso(started_at + days * _ENVIRONMENT_DAYS) for days in (-1, 0, 1))
    chosen = {"series": selection.series} if selection.series else {"q": _filter_place(host, pool)}
    return {**chosen, "a_from": first_at, "a_to": turn, "b_from": turn, "b_to": last_at}, ""


def _compare_ranges(selection: Selection, ranges: ChangeRanges) -> tuple[_Query, str]:
    ids = ranges.series_ids[:SERIES_IDS_MAXIMUM]
    query: _Query = {"series": ",".join(map(str, ids))}
    for name, moment in (
        ("a_from", ranges.before_from_at),
        ("a_to", ranges.first_at),
        ("b_from", ranges.last_at),
        ("b_to", ranges.after_to_at),
    ):
        if moment is not None:
            query[name] = to_iso(moment)
    query["metric"] = list(ranges.metrics)
    if len(ids) == len(ranges.series_ids):
        return query, ""
    affected = format_count(len(ranges.series_ids), "series")
    return query, f"The changes affect {affected}; the {len(ids)} with the largest changes are compared."


def _read_ranges(selection: Selection) -> ChangeRanges:
    if selection.kind.name == "incident":
        found = read_ranges_of_incident(selection.ids[0])
    else:
        found = read_ranges_of_changes(selection.ids)
    if found is None:
        raise BadSelection(f"The selected {selection.kind.plural} do not exist or have no changes.")
    return found


def _read_place(selection: Selection) -> tuple[str, str, datetime]:
    place = find_run_place(selection.ids[0])
    if place is None:
        raise BadSelection(f"Run {selection.ids[0]} does not exist.")
    return place


def _filter_place(host: str, pool: str) -> str:
    return _filter_scope("pool", [pool]) if pool else _filter_scope("host", [host])


def _show_environment(selection: Selection) -> dict[str, str]:
    if selection.series:
        return {"series": selection.series}
    host, pool, _ = _read_place(selection)
    return {"q": _filter_place(host, pool)}


def _show_runs(selection: Selection) -> dict[str, str]:
    series = list_series_of_runs(selection.ids)
    if not series:
        raise BadSelection("The selected runs do not exist or have no measurements.")
    return {"series": ",".join(map(str, series))}


def _show_series(selection: Selection) -> dict[str, str]:
    return {"series": ",".join(map(str, selection.ids))}


def _show_hosts(selection: Selection) -> dict[str, str]:
    pools = read_pools(selection.values)
    shared = list(dict.fromkeys(pools[name] for name in selection.values if pools.get(name)))
    own = [name for name in selection.values if not pools.get(name)]
    if shared and own:
        raise BadSelection(
            f"{own[0]} has its own series, the others the series of their pools ({', '.join(shared)}):"
            " select hosts of one kind for one chart."
        )
    return {"q": _filter_scope("pool", shared) if shared else _filter_scope("host", own)}


def _show_changes(selection: Selection) -> dict[str, str]:
    ranges = _read_ranges(selection)
    return {"series": ",".join(map(str, ranges.series_ids[:LINES_MAXIMUM])), "metric": ranges.main_metric}


def _filter_scope(dimension: str, names: Sequence[str]) -> str:
    return write_filter(Filter((Term(dimension, tuple(Test("=", (name,)) for name in names)),)))


def _is_id(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= _ID_DIGITS


_COMPARE: Final[dict[str, Callable[[Selection], tuple[_Query, str]]]] = {
    "run": _compare_two("run"),
    "series": _compare_two("series"),
    "host": _compare_hosts,
    "change": _compare_changes,
    "incident": _compare_changes,
    "environment": _compare_environment,
}
_SHOW: Final[dict[str, Callable[[Selection], dict[str, str]]]] = {
    "run": _show_runs,
    "series": _show_series,
    "host": _show_hosts,
    "change": _show_changes,
    "incident": _show_changes,
    "environment": _show_environment,
}
