"""The table of an incident's affected series: its order and length from the URL."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.http import QueryDict

from benchapp.framework.pages.filter_forms import keep_query
from benchapp.framework.pages.value_texts import format_count, format_integer
from benchapp.framework.times import name_zone
from benchapp.incidents.pages.tables import AffectedSeriesLine, make_change_lines
from benchapp.incidents.read.shapes import ChangeColumn, ChangeOrder, IncidentDetail

# Shown at first, so that evidence and causes are near; a link shows all.
CHANGES_AT_FIRST: Final = 20
_ALL: Final = "all"
# A host that makes thousands of series also makes incidents of thousands of changes.
_ALL_MAXIMUM: Final = 1000
_TEXT_COLUMNS: Final = frozenset({ChangeColumn.SERIES, ChangeColumn.METRIC, ChangeColumn.STATE})
_BY_SIZE: Final = ChangeOrder()


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """A column header that sorts.

    unit: second line or ""; css: classes of its cells; aria_sort: "" unless the table is sorted by it.
    """

    label: str
    unit: str
    css: str
    url: str
    aria_sort: str


@dataclass(frozen=True, slots=True)
class AffectedSeriesRequest:
    """What the URL asks for. limit: of changes."""

    order: ChangeOrder
    limit: int


@dataclass(frozen=True, slots=True)
class AffectedSeriesTable:
    """Changes of an incident as a table. summary: how many are shown of how many; show_url: "" if there are no more."""

    heads: tuple[ColumnHead, ...]
    lines: Sequence[AffectedSeriesLine]
    summary: str
    show_url: str
    show_text: str


def read_affected_series_request(query: QueryDict, errors: list[str]) -> AffectedSeriesRequest:
    """Return order and length; invalid values give the default, and an error."""
    wanted = query.get("changes")
    if wanted not in (None, _ALL):
        errors.append(f"{wanted[:40]!r} is not a valid value of changes. Valid: {_ALL}.")
    return AffectedSeriesRequest(
        _read_order(query.get("sort"), errors), _ALL_MAXIMUM if wanted == _ALL else CHANGES_AT_FIRST
    )


def make_affected_series(
    detail: IncidentDetail, asked: AffectedSeriesRequest, query: QueryDict
) -> AffectedSeriesTable:
    """Return the table of the changes that were read."""
    total, shown = detail.change_count, len(detail.changes)
    is_all = asked.limit == _ALL_MAXIMUM
    has_choice = total > CHANGES_AT_FIRST
    count = format_count(total, "change")
    more = f"all {count}" if total <= _ALL_MAXIMUM else f"{format_integer(_ALL_MAXIMUM)} of {count}"
    return AffectedSeriesTable(
        heads=tuple(_make_head(column, asked.order, query) for column in ChangeColumn),
        lines=make_change_lines(detail.changes),
        summary=f"{format_integer(shown)} of {count}" if detail.changes_left_out else count,
        show_url=f"{keep_query(query, changes=None if is_all else _ALL)}#cells" if has_choice else "",
        show_text=f"Show {CHANGES_AT_FIRST} only" if is_all else f"Show {more}",
    )


def _read_order(text: str | None, errors: list[str]) -> ChangeOrder:
    if text is None:
        return _BY_SIZE
    name = text.removeprefix("-")
    if name not in list(ChangeColumn):
        valid = ", ".join(ChangeColumn)
        errors.append(
            f"{text[:40]!r} is not a valid sort order. Valid: {valid}; with - in front: descending."
        )
        return _BY_SIZE
    return ChangeOrder(ChangeColumn(name), is_descending=text.startswith("-"))


def _make_head(column: ChangeColumn, order: ChangeOrder, query: QueryDict) -> ColumnHead:
    label, unit = _LABELS[column]
    if column is ChangeColumn.SINCE:
        label = f"{label} ({name_zone()})"
    is_here = order.column == column
    is_descending = not order.is_descending if is_here else column not in _TEXT_COLUMNS
    sort = f"{'-' if is_descending else ''}{column.value}"
    return ColumnHead(
        label=label,
        unit=unit,
        css=_CLASSES.get(column, ""),
        url=f"{keep_query(query, sort=None if sort == '-change' else sort)}#cells",
        aria_sort=("descending" if order.is_descending else "ascending") if is_here else "",
    )


_LABELS: Final = {
    ChangeColumn.SERIES: ("Series", ""),
    ChangeColumn.METRIC: ("Metric", ""),
    ChangeColumn.BEFORE: ("Before", "runs"),
    ChangeColumn.AFTER: ("After", "runs"),
    ChangeColumn.CHANGE: ("Change", "95 % interval"),
    ChangeColumn.SINCE: ("Since", ""),
    ChangeColumn.STATE: ("State", ""),
    ChangeColumn.CONFIDENCE: ("Confidence", ""),
}
_CLASSES: Final = {
    ChangeColumn.BEFORE: "number minor",
    ChangeColumn.AFTER: "number minor",
    ChangeColumn.CHANGE: "number",
}
