"""Rows of a matrix: hundreds of cells, each with a dozen texts. Each text goes through `escape`."""

from collections.abc import Sequence
from html import escape
from typing import Any

from django import template
from django.utils.safestring import SafeString, mark_safe

from benchapp.templatetags.values import iso, mark_text, unbroken

register = template.Library()


@register.simple_tag
def matrix_rows(rows: Sequence[tuple[str, Sequence[Any]]]) -> SafeString:
    """Return the rows of a panel (ShownMatrixPanel of benchapp/charts/pages/matrix.py)."""
    made = [
        f'<tr><th scope="row">{escape(unbroken(label))}</th>{"".join(map(_make_cell, cells))}</tr>\n'
        for label, cells in rows
    ]
    return mark_safe("".join(made))  # noqa: S308


def _make_cell(shown: Any) -> str:
    where = f'<span class="visually-hidden">{escape(shown.where)}: </span>'
    href = f' href="{escape(shown.url)}"' if shown.url else ""
    if not shown.cell.n:
        title = f'title="{escape(shown.long_reason)}"'
        text = f"{where}{escape(shown.reason)}"
        if not shown.url:
            return f'<td class="hatched" data-cell {title}>{text}</td>'
        return f'<td class="hatched" {title}><a{href} data-cell>{text}</a></td>'
    return (
        f'<td><a{href} data-cell title="{escape(shown.title)}"><span class="level">{where}{escape(shown.value)}</span>'
        f"{_make_sparkline(shown.line)}{_make_facts(shown)}</a>{mark_text(shown.mark, shown.url)}</td>"
    )


def _make_sparkline(points: str) -> str:
    if not points:
        return ""
    return (
        '<svg class="spark" viewBox="0 0 72 18" width="72" height="18" aria-hidden="true">'
        f'<polyline points="{escape(points)}"/></svg>'
    )


def _make_facts(shown: Any) -> str:
    """Return age, number of runs, settings, number of series if several, and badges."""
    cell = shown.cell
    css, stale = (" stale", " stale") if cell.is_stale else ("", "")
    facts = [
        f'<span class="age{css}" title="{iso(cell.last_at)}">{escape(shown.age)}{stale} · n {cell.n}</span>'
    ]
    if shown.settings:
        facts.append(f'<span class="age settings">{escape(shown.settings)}</span>')
    if len(cell.series_ids) > 1:
        facts.append(f'<span class="age">{len(cell.series_ids)} series</span>')
    if cell.badges:
        facts.append(f'<span class="age">{escape(", ".join(cell.badges))}</span>')
    return "".join(facts)
