"""Rows of long tables, made by functions: a template takes five times as long. Each function escapes every text."""

from collections.abc import Sequence
from html import escape
from typing import Any

from django import template
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from benchapp.templatetags.values import (
    badge_links,
    iso,
    mark_text,
    moment_in_column,
    number_cells,
    or_unknown,
    raw,
    unbroken,
    whole,
)

register = template.Library()


@register.simple_tag
def matrix_rows(rows: Sequence[tuple[str, Sequence[Any]]]) -> SafeString:
    """Return the rows of a panel (`_show_panel` of benchapp/charts/pages/matrix.py)."""
    made = [
        f'<tr><th scope="row">{escape(unbroken(label))}</th>{"".join(map(_make_cell, cells))}</tr>\n'
        for label, cells in rows
    ]
    return mark_safe("".join(made))  # noqa: S308


def _make_cell(shown: dict[str, Any]) -> str:
    where = f'<span class="visually-hidden">{escape(shown["where"])}: </span>'
    href = f' href="{escape(shown["url"])}"' if shown["url"] else ""
    if not shown["cell"].n:
        title = f'title="{escape(shown["long_reason"])}"'
        text = f"{where}{escape(shown['reason'])}"
        if not shown["url"]:
            return f'<td class="hatched" data-cell {title}>{text}</td>'
        return f'<td class="hatched" {title}><a{href} data-cell>{text}</a></td>'
    return (
        f'<td><a{href} data-cell title="{escape(shown["title"])}">'
        f'<span class="level">{where}{escape(shown["value"])}</span>'
        f"{_make_sparkline(shown['line'])}{_make_facts(shown)}</a>{mark_text(shown['mark'], shown['url'])}</td>"
    )


def _make_sparkline(points: str) -> str:
    if not points:
        return ""
    return (
        '<svg class="spark" viewBox="0 0 72 18" width="72" height="18" aria-hidden="true">'
        f'<polyline points="{escape(points)}"/></svg>'
    )


def _make_facts(shown: dict[str, Any]) -> str:
    """Return age, number of runs, settings, number of series if several, and badges."""
    cell = shown["cell"]
    css, stale = (" stale", " stale") if cell.is_stale else ("", "")
    facts = [
        f'<span class="age{css}" title="{iso(cell.last_at)}">{escape(shown["age"])}{stale} · n {cell.n}</span>'
    ]
    if shown["settings"]:
        facts.append(f'<span class="age settings">{escape(shown["settings"])}</span>')
    if len(cell.series_ids) > 1:
        facts.append(f'<span class="age">{len(cell.series_ids)} series</span>')
    if cell.badges:
        facts.append(f'<span class="age marks">{escape(", ".join(cell.badges))}</span>')
    return "".join(facts)


_FAILED_RUN = ' <span class="state bad">failed</span>'


@register.simple_tag
def run_rows(runs: Sequence[Any], columns: Sequence[Any], *, can_select: bool = False) -> SafeString:
    """Return a table body for each run (RunLines of web/runs/tables.py). columns: those of the numbers.

    can_select: with check boxes of the form "selection".
    """
    paths = reverse("runs"), reverse("series_list"), reverse("hosts")
    bodies = [_make_body(entry, len(columns) + 1, paths, can_select) for entry in runs]
    return mark_safe("".join(bodies))  # noqa: S308


def _make_body(entry: Any, width: int, paths: tuple[str, str, str], can_select: bool) -> str:
    runs, series, hosts = paths
    head = _make_head_cells(entry.run, entry.height, runs, hosts, can_select)
    rows = [
        f'<td class="nowrap"><a href="{series}{line.series_id}/">{escape(line.text)}</a>'
        f"{_FAILED_RUN if line.error else ''}</td>{number_cells(line.cells)}"
        for line in entry.lines
    ] or [f'<td colspan="{width}" class="muted">no measurements</td>']
    if entry.hidden_count:
        more = f'<a href="{runs}{entry.run.id}/">{entry.hidden_count} more</a>'
        rows.append(f'<td colspan="{width}">{more}</td>')
    return f"<tbody><tr>{head}{'</tr><tr>'.join(rows)}</tr></tbody>\n"


def _make_head_cells(run: Any, height: int, runs: str, hosts: str, can_select: bool) -> str:
    """Return the cells that all rows of a run share."""
    name = escape(run.host_name)
    host = f"{hosts}{name}/"
    box = (
        f'<td rowspan="{height}" class="select no-print"><input type="checkbox" form="selection" name="selected"'
        f' value="{run.id}" aria-label="Select run {run.id} on {name}"></td>'
        if can_select
        else ""
    )
    pool = f'<span class="sub">pool {escape(run.pool)}</span>' if run.pool else ""
    profile = escape(run.profile) if run.profile else or_unknown("", "no profile reported")
    return (
        f'{box}<td rowspan="{height}" class="time"><a href="{runs}{run.id}/">{moment_in_column(run.started_at)}</a>'
        f'{_describe_state(run)}<a href="{host}" class="narrow-only">{name}</a></td>'
        f'<td rowspan="{height}" class="name minor" title="{name}"><a href="{host}">{name}</a>{pool}</td>'
        f'<td rowspan="{height}" class="minor">{profile}</td>'
        f'<td rowspan="{height}" class="phrase minor">{escape(unbroken(run.target_title))}</td>'
    )


def _describe_state(run: Any) -> str:
    parts = [
        _FAILED_RUN if run.has_failed else "",
        ' <span class="state waiting">partial</span>' if run.is_partial else "",
        ' <span class="state waiting">excluded</span>' if run.excluded_at else "",
        f'<span class="badges">{badge_links(run.badges, "failed-job")}</span>' if run.badges else "",
    ]
    return "".join(parts)


_FAILED = '<span class="state bad">failed</span>'


@register.simple_tag
def series_cards(part: Any) -> SafeString:
    """Return the cards of a group (ShownPart of web/series/series_list.py)."""
    return mark_safe("".join(_make_card(series, part.label) for series in part.series))  # noqa: S308


@register.simple_tag
def series_rows(part: Any) -> SafeString:
    """Return the table rows of a group (ShownPart of web/series/series_list.py)."""
    hosts = reverse("hosts")
    return mark_safe("".join(_make_row(series, part.label, hosts) for series in part.series))  # noqa: S308


def _make_card(series: Any, group: str) -> str:
    row = series.row
    facts = f"spread {escape(series.spread)} · " if series.spread else ""
    return (
        f'<li class="series-card {escape(series.kind)}">{_make_box(series, group)}\n'
        f'<a href="{escape(series.url)}" title="{escape(row.scope_name)} · {escape(row.title)}">'
        f'<span class="name">{escape(series.name)}</span>\n'
        f"{_make_line(series.chart, series.times) if series.chart else _NO_LINE}\n"
        f'<span class="level"{_make_title(series.previous)}>{escape(series.level) or "no values"}</span></a>\n'
        f"{mark_text(series.mark)}\n"
        f'<span class="facts-line"{_make_title(series.spread_title)}>{facts}{escape(series.age)}'
        f"{f' · {_FAILED}' if series.is_failed else ''}</span></li>\n"
    )


def _make_row(series: Any, group: str, hosts: str) -> str:
    row = series.row
    scope = escape(row.scope_name)
    host = f"pool {scope}" if row.is_pool else f'<a href="{hosts}{scope}/">{scope}</a>'
    level = ", ".join(part for part in (raw(series.level_raw), series.previous) if part)
    badges = f'<span class="badges">{badge_links(row.badges, "failed-job")}</span>' if row.badges else ""
    link = f'<a href="{escape(series.url)}">{escape(unbroken(row.workload_title))}</a>'
    line = _make_line(series.chart, series.times) if series.chart else _NO_VALUES
    cells: Sequence[str] = (
        f'<td class="select no-print">{_make_box(series, group)}</td>',
        f'<td class="name" title="{scope}">{host}</td>',
        f'<td class="phrase">{link}<span class="sub">{escape(unbroken(row.target_title))}</span></td>',
        f'<td class="series-card minor {escape(series.kind)}">{line}</td>',
        f'<td class="number"{_make_title(level)}>{escape(series.level) or "–"}</td>',
        f'<td class="nowrap">{mark_text(series.mark) or _NO_CHANGE}</td>',
        f'<td class="number"{_make_title(series.spread_title)}>{escape(series.spread) or "–"}</td>',
        f'<td class="number minor">{whole(row.measurement_count)}</td>',
        f'<td class="time">{moment_in_column(row.last_at)}{f" {_FAILED}" if series.is_failed else ""}{badges}</td>',
    )
    return f"<tr>{''.join(cells)}</tr>\n"


_NO_LINE = '<span class="hatched" aria-hidden="true"></span>'
_NO_VALUES = '<span class="muted">no values</span>'
_NO_CHANGE = '<span class="muted">none</span>'


def _make_box(series: Any, group: str) -> str:
    label = f"Select {series.name}, {group}" if group else f"Select {series.name}"
    value = f'value="{series.row.id}" aria-label="{escape(label)}"'
    return f'<input type="checkbox" form="selection" name="selected" {value}>'


def _make_line(chart: Any, times: str) -> str:
    names = ("line", "earlier", "current")
    drawn = "".join(f'<path class="{name}" d="{escape(chart[name])}"/>' for name in names if chart[name])
    box = f'viewBox="{escape(chart["box"])}" preserveAspectRatio="none" data-times="{escape(times)}"'
    return f'<svg {box} aria-hidden="true">{drawn}</svg>'


def _make_title(text: str) -> str:
    return f' title="{escape(text)}"' if text else ""
