"""Template filters that format values."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from html import escape
from shlex import join
from typing import Any, Final

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, urlize
from django.utils.safestring import SafeString, mark_safe

from benchapp.catalog.dimensions import CONDITIONS, FILTER_DIMENSIONS
from benchapp.catalog.metrics import (
    UNKNOWN,
    describe_error,
    format_integer,
    format_signed_percent,
    format_value,
    lower_label,
)
from benchapp.framework.pages.page_context import write_kept
from benchapp.framework.pages.series_marks import show_mark
from benchapp.framework.times import (
    format_clock,
    format_date,
    format_moment,
    format_moment_in_column,
    name_zone,
    to_iso,
)
from benchapp.series.read.titles import WorkloadTitleColumns, describe_options

register = template.Library()
register.filter(describe_error)

_STEPS: Final = ((86_400 * 365, "year"), (86_400 * 30, "month"), (86_400, "day"), (3_600, "h"), (60, "min"))
_AFTER_NUMBER: Final = re.compile(r"([0-9×]) (?=[^·])")
_BINARY: Final = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_NOT_STATED: Final = "not reported by the host"


@register.simple_tag(takes_context=True)
def kept(context: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the query string of a link of the bar or of a tab."""
    return write_kept(names, context["request"], context)


_INCIDENT: Final = re.compile(r"\bincident (\d{1,9})\b")


@register.filter
def linked(text: str) -> SafeString:
    """Show a plain text with links for its URLs and its incidents: "the same series as in incident 7"."""

    def link(found: re.Match[str]) -> str:
        return f'<a href="{reverse("incident", args=[found[1]])}">{found[0]}</a>'

    # No attribute of the escaped text has a space.
    return mark_safe(_INCIDENT.sub(link, urlize(text, nofollow=True, autoescape=True)))  # noqa: S308


@register.filter
def in_sentence(label: str) -> str:
    """Return the label of a metric or dimension within a sentence."""
    return lower_label(label)


@register.filter
def in_unit(value: float | None, unit: str) -> str:
    """Show a value in a base unit ("bytes", "ns", "bytes/s", "operations/s", "s", "percent")."""
    return format_value(value, unit)


@register.filter
def size(value: int | None) -> str:
    """Format bytes without insignificant digits: 4 KiB and 39 B, but 7.55 GiB."""
    if value is None:
        return UNKNOWN
    if abs(value) < 1024:
        return f"{value} B"
    for length, name in _BINARY:
        # The unit that format_value would choose, not one so small that it divides everything.
        if value >= length:
            return f"{value // length} {name}" if value % length == 0 else format_value(value, "bytes")
    return format_value(value, "bytes")


@register.filter
def unbroken(value: str) -> str:
    """Keep a number and the words around it on one line: "2 GiB", "QD 8 × 1 job"."""
    return _AFTER_NUMBER.sub("\\1\u00a0", value).replace("QD ", "QD\u00a0")


@register.filter
def whole(value: int | None) -> str:
    """Format a count with thin spaces between thousands."""
    return UNKNOWN if value is None else format_integer(value)


@register.filter
def raw(value: float | None) -> str:
    """Format a value exactly as stored, for titles and data attributes; "" if unknown."""
    return "" if value is None else repr(value)


@register.filter
def amount(value: float) -> str:
    """Format an amount of a price in full; an en dash for 0."""
    if not value:
        return UNKNOWN
    units, _, fraction = f"{value:.12f}".rstrip("0").partition(".")
    return f"{format_integer(int(units))}{'.' if fraction else ''}{fraction}"


@register.filter
def signed(relative: float | None) -> str:
    """Format a relative difference with its sign for a column in percent; "" without one."""
    return "" if relative is None else format_signed_percent(relative).removesuffix(" %")


@register.filter
def or_unknown(value: Any, reason: str = _NOT_STATED) -> Any:
    """Return a value, or an en dash with the reason why it is unknown."""
    if value is None or value == "":
        return format_html(
            '<span class="none" title="{}">{}<span class="visually-hidden"> unknown: {}</span></span>',
            reason or _NOT_STATED,
            UNKNOWN,
            reason or _NOT_STATED,
        )
    return value


@register.filter
def number_cells(cells: Iterable[Any]) -> SafeString:
    """Format a row of NumberCell (framework/pages/number_columns.py) as table cells.

    Lists have hundreds of rows; tags for each number would take most of the time of a page.
    """
    return mark_safe("".join(map(_number_cell, cells)))  # noqa: S308


def _number_cell(cell: Any) -> str:
    if cell.raw is None:
        return f'<td class="number" data-metric="{cell.metric}">{or_unknown(None, cell.reason)}</td>'
    return f'<td class="number" data-metric="{cell.metric}" title="{cell.raw!r}">{escape(cell.text)}</td>'


@register.filter
def options(choices: Iterable[tuple[str, str, bool]]) -> SafeString:
    """Format the options of a select: (value, label, is chosen).

    A chart page has hundreds; tags for each would take a fifth of its time.
    """
    made = [
        f'<option value="{escape(value)}"{" selected" if is_chosen else ""}>{escape(label)}</option>'
        for value, label, is_chosen in choices
    ]
    return mark_safe("".join(made))  # noqa: S308


@register.filter
def dimension_options(choices: Iterable[tuple[str, str, bool]]) -> SafeString:
    """Format the options of a select of dimensions, grouped by what they describe; further ones begin with a comma."""
    groups: dict[str, list[tuple[str, str, bool]]] = {}
    for choice in choices:
        dimension = (FILTER_DIMENSIONS | CONDITIONS).get(choice[0].removeprefix(","))
        groups.setdefault(dimension.heading if dimension else "", []).append(choice)
    made: list[str] = [options(groups.pop("", ()))]
    made += [
        f'<optgroup label="{heading}">{options(members)}</optgroup>' for heading, members in groups.items()
    ]
    return mark_safe("".join(made))  # noqa: S308


@register.filter
def links(choices: Iterable[tuple[str, str, bool]]) -> SafeString:
    """Format the choices of a menu: (label, URL, is chosen)."""
    made = [
        f'<a href="{escape(url)}"{" aria-current=true" if is_chosen else ""}>{escape(label)}</a>'
        for label, url, is_chosen in choices
    ]
    return mark_safe("".join(made))  # noqa: S308


@register.filter
def badge_links(codes: Iterable[str], skip: str = "") -> SafeString:
    """Format badges as links to their explanation. skip: a code that the page already shows as text."""
    page = reverse("docs_page", args=["badges"])
    links = [
        f'<a class="badge badge-{code}" href="{page}#{code}">{code}</a> '
        for code in map(escape, codes)
        if code != skip
    ]
    return mark_safe("".join(links))  # noqa: S308


@register.filter
def mark_text(mark: Any, has_link: object = True) -> SafeString | str:
    """Format the mark of a series with an open or accepted change (ShownMark of web/site/series_marks.py); "" for None.

    has_link: false on shared pages.
    """
    if not mark:
        return ""
    css, text = f'class="series-mark {escape(mark.kind)}"', escape(unbroken(mark.text))
    if not has_link:
        return mark_safe(f"<span {css}>{text}</span>")  # noqa: S308
    return mark_safe(  # noqa: S308
        f'<a {css} href="{escape(mark.url)}" title="{escape(mark.title)}">{text}</a>'
    )


@register.filter
def in_metric(mark: Any, metric: str) -> Any:
    """Return a mark of a series as a page about a metric shows it, for `mark_text`."""
    return show_mark(mark, metric=metric)


@register.filter
def pairs(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return a mapping's pairs; `.items` in a template would find a key of that name first."""
    return list(value.items())


@register.filter
def options_in_units(workload: WorkloadTitleColumns) -> list[tuple[str, str]]:
    """Return the further options of a workload, with values in words and units."""
    return list(describe_options(workload).items())


@register.filter
def as_command(argv: Iterable[Any]) -> str:
    """Format the arguments of a command for a shell."""
    return join(str(argument) for argument in argv)


@register.filter
def yes_no(value: bool | None) -> str | None:
    """Return "yes" or "no"; None stays None, for or_unknown."""
    return None if value is None else "yes" if value else "no"


@register.filter
def moment(value: datetime | None) -> SafeString:
    """Format a time with its zone; the title has its age."""
    return _show_moment(value, format_moment)


@register.filter
def moment_in_column(value: datetime | None) -> SafeString:
    """Format a time without its zone, which is in the header (`zone_name`)."""
    return _show_moment(value, format_moment_in_column)


@register.simple_tag
def zone_name() -> str:
    """Return the name of the reader's time zone, for a header."""
    return name_zone()


@register.filter
def ago(value: datetime | None) -> SafeString:
    """Format the age of a time; the title has the time."""
    if value is None:
        return format_html("{}", "never")
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', to_iso(value), format_moment(value), describe_age(value)
    )


@register.filter
def moment_text(value: datetime | None) -> str:
    """Format a time with its zone as plain text, for titles and labels; "" if unknown."""
    return "" if value is None else format_moment(value)


@register.filter
def iso(value: datetime | None) -> str:
    """Format a time as the API does: RFC 3339, UTC."""
    return "" if value is None else to_iso(value)


@register.filter
def day(value: date | None) -> str:
    """Format a date: "12 May 2026"; "" if unknown."""
    return "" if value is None else format_date(value)


@register.filter
def clock(value: datetime) -> str:
    """Format the time of day, for an axis."""
    return format_clock(value)


@register.filter
def lasted(value: float | None) -> str:
    """Format a duration in seconds."""
    if value is None:
        return UNKNOWN
    seconds = round(value)
    if seconds < 120:
        return format_value(value, "s")
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s"


def describe_age(value: datetime, *, now: datetime | None = None) -> str:
    """Return the distance from now in its largest unit: "3 days ago"."""
    seconds = ((now or timezone.now()) - value).total_seconds()
    for length, name in _STEPS:
        count = int(abs(seconds) // length)
        if count:
            word = f"{count} {name}{'s' if count > 1 and name not in ('h', 'min') else ''}"
            return f"{word} ago" if seconds > 0 else f"in {word}"
    return "just now"


def _show_moment(value: datetime | None, show: Callable[[datetime], str]) -> SafeString:
    if value is None:
        return format_html('<span class="none" title="{}">{}</span>', "never", UNKNOWN)
    iso = to_iso(value)
    # Digits and words of benchapp/framework/times.py; format_html would take most of the time.
    return mark_safe(  # noqa: S308
        f'<time datetime="{iso}" title="{describe_age(value)} · {iso}">{show(value)}</time>'
    )
