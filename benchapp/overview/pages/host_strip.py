"""The hosts as one row of cells: open regression, silence and age of the last run of each."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import Final
from urllib.parse import quote

from django.urls import reverse
from django.utils import timezone
from django.utils.http import RFC3986_SUBDELIMS
from django.utils.safestring import SafeString, mark_safe

from benchapp.catalog.metrics import describe_error, format_count
from benchapp.framework.pages.series_marks import show_scope_mark
from benchapp.framework.times import describe_age, format_age
from benchapp.overview.read.hosts import FleetHosts
from benchapp.storage.read.hosts import HostRow

# From this size on a regression has the darker color.
LARGE_CHANGE: Final = 0.2
_DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class HostCell:
    """One host. kind: its color; text: what the cell shows, so that color is not the only cue; title: as text."""

    name: str
    kind: str
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class StripKey:
    """One entry of the legend, with the number of its hosts."""

    kind: str
    text: str
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class HostStrip:
    """The cells by name, as links, and the legend. omitted: "" if all hosts are shown."""

    cells: SafeString
    keys: tuple[StripKey, ...]
    omitted: str


def make_host_strip(hosts: FleetHosts, *, now: datetime | None = None) -> HostStrip:
    """Return the strip of all hosts read."""
    moment = now or timezone.now()
    cells = tuple(_make_cell(host, moment) for host in hosts.hosts)
    omitted = hosts.count - len(cells)
    return HostStrip(
        _link_cells(cells),
        _list_keys(cells),
        f"{format_count(omitted, 'host')} seen more recently not shown." if omitted > 0 else "",
    )


def _link_cells(cells: Sequence[HostCell]) -> SafeString:
    # For 500 hosts a template takes ten times as long, format_html_join five times.
    before, after = (escape(part) for part in reverse("host", args=["*"]).split("*"))
    links = "".join(
        f'<a class="{cell.kind}" href="{before}{_quote_name(cell.name)}{after}" title="{escape(cell.title)}">'
        f'{escape(cell.text)}<span class="visually-hidden"> {escape(cell.name)}</span></a>'
        for cell in cells
    )
    return mark_safe(links)  # noqa: S308


def _quote_name(name: str) -> str:
    """Return a name as `reverse` writes it into an address."""
    return escape(quote(name, safe=f"{RFC3986_SUBDELIMS}:@"))


def _make_cell(host: HostRow, now: datetime) -> HostCell:
    mark = show_scope_mark(host.mark)
    run = host.last_run
    parts = [f"{host.name}:"]
    signs = ""
    if mark and host.mark:
        kind = "worse-2" if abs(host.mark.largest.relative) >= LARGE_CHANGE else "worse-1"
        signs = mark.text[0]
        scope = f" (pool {host.pool})" if host.pool else ""
        parts.append(f"{mark.text}{scope};")
    else:
        kind = _rate_age(run.started_at if run else None, now)
    if host.silent_since:
        kind = kind if mark else "silent"
        signs += "!"
        parts.append(f"silent for {format_age(host.silent_since, now=now)};")
    if run is None:
        signs = signs or "–"
        parts.append("no runs")
    else:
        signs = f"{signs}✕" if run.error else signs or _format_short_age(run.started_at, now)
        failed = f", failed: {describe_error(run.error)}" if run.error else ""
        parts.append(f"last run {describe_age(run.started_at, now=now)}{failed}")
    return HostCell(host.name, kind, signs, " ".join(parts))


def _rate_age(last_at: datetime | None, now: datetime) -> str:
    if last_at is None:
        return "none"
    age = now - last_at
    return "fresh" if age < _DAY else "recent" if age < _WEEK else "old"


def _format_short_age(at: datetime, now: datetime) -> str:
    """Return "" within a day, else the age: "3d", "2y"."""
    return "" if now - at < _DAY else format_age(at, now=now).replace(" ", "")


_LABELS: Final = (
    ("worse-2", "▼", f"open regression, {LARGE_CHANGE * 100:.0f} % or more"),
    ("worse-1", "▼", f"open regression, less than {LARGE_CHANGE * 100:.0f} %"),
    ("silent", "!", "silent"),
    ("fresh", "", "run within a day"),
    ("recent", "3d", "run within 7 days"),
    ("old", "9d", "older"),
    ("none", "–", "no runs"),
)


def _list_keys(cells: Sequence[HostCell]) -> tuple[StripKey, ...]:
    counts = Counter(cell.kind for cell in cells)
    return tuple(StripKey(kind, text, label, counts[kind]) for kind, text, label in _LABELS if counts[kind])
