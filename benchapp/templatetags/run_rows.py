"""Rows of the list of runs.

A page has hundreds of rows: template tags for each cell would take most of its time. Each text from a host or a person
goes through `escape`.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from django import template
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from benchapp.templatetags.values import (
    badge_links,
    moment_in_column,
    number_cells,
    or_unknown,
    unbroken,
)

register = template.Library()

_FAILED = ' <span class="state bad">failed</span>'


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
        f"{_FAILED if line.error else ''}</td>{number_cells(line.cells)}"
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
        _FAILED if run.has_failed else "",
        ' <span class="state waiting">partial</span>' if run.is_partial else "",
        ' <span class="state waiting">excluded</span>' if run.excluded_at else "",
        f'<span class="badges">{badge_links(run.badges, "failed-job")}</span>' if run.badges else "",
    ]
    return "".join(parts)
