"""The list of series as cards and as rows: hundreds, each with a dozen texts. Each text goes through `escape`."""

from collections.abc import Sequence
from html import escape
from typing import Any

from django import template
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from benchapp.templatetags.values import (
    badge_links,
    mark_text,
    moment_in_column,
    raw,
    unbroken,
    whole,
)

register = template.Library()

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
        f"{_make_line(series.chart) if series.chart else _NO_LINE}\n"
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
    line = _make_line(series.chart) if series.chart else _NO_VALUES
    cells: Sequence[str] = (
        f'<td class="select no-print">{_make_box(series, group)}</td>',
        f'<td class="name" title="{scope}">{host}</td>',
        f'<td class="phrase">{link}<span class="sub">{escape(unbroken(row.target_title))}</span></td>',
        f'<td class="series-card {escape(series.kind)}">{line}</td>',
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


def _make_line(chart: Any) -> str:
    paths = (("line", chart.line), ("earlier", chart.earlier), ("current", chart.current))
    drawn = "".join(f'<path class="{name}" d="{escape(path)}"/>' for name, path in paths if path)
    return f'<svg viewBox="0 0 240 48" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>'


def _make_title(text: str) -> str:
    return f' title="{escape(text)}"' if text else ""
