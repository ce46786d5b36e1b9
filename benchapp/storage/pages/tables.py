"""The table of hosts, and the table of the levels of a host by pattern."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse

from benchapp.catalog.grammar import Filter, write_filter
from benchapp.catalog.metrics import (
    SMALLEST_CHANGES,
    format_change_size,
    format_count,
    format_integer,
    format_signed_percent,
    format_with_unit,
)
from benchapp.framework.pages.filter_bar import keep_query
from benchapp.framework.pages.series_marks import (
    Box,
    make_step_line,
    make_y_scale,
    show_mark,
    show_scope_mark,
)
from benchapp.framework.pages.time_range import AskedRange
from benchapp.framework.read.days import DayRange
from benchapp.framework.times import describe_age, format_age, format_day
from benchapp.incidents.pages.texts import SEVERITIES
from benchapp.incidents.read.series_status import SEVERITY_ORDER, ScopeMark, measure_size
from benchapp.storage.agent_archive import read_agent_version
from benchapp.storage.read.hosts import HostRow, is_outdated
from benchapp.storage.read.patterns import POOL_RUNS_MINIMUM, HostPattern

# 100 hosts are 60 KB of HTML; 500 would be 270 KB and take four times as long to render.
HOSTS_ON_A_PAGE: Final = 100
WORST_FIRST: Final = "-incidents"
_LABEL: Final = "label:"
_DIGITS: Final = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class HostColumn:
    """A column that the table can be ordered by. unit: second line of its header; css: its classes."""

    name: str
    label: str
    unit: str = ""
    css: str = ""
    is_descending_first: bool = False


COLUMNS: Final = {
    column.name: column
    for column in (
        HostColumn("name", "Host"),
        HostColumn("pool", "Pool", css="minor"),
        HostColumn("incidents", "Open regressions", css="minor", is_descending_first=True),
        HostColumn("worst", "Worst change", is_descending_first=True),
        HostColumn("history", "History", unit="90 days, relative level"),
        HostColumn("kernel", "Kernel"),
        HostColumn("agent", "Agent", css="minor"),
        HostColumn("last_run", "Last run", is_descending_first=True),
        HostColumn("runs", "Runs", css="number", is_descending_first=True),
    )
}


@dataclass(frozen=True, slots=True)
class HostOrder:
    """How the address orders the table. group: "", "pool", "kernel" or "label:KEY"; page: from 1."""

    sort: str
    is_descending: bool
    group: str
    page: int

    @property
    def needs_last_runs(self) -> bool:
        """Return whether the order depends on the newest run of every host."""
        return self.sort in ("kernel", "last_run") or self.group not in ("", "pool")


def read_order(query: QueryDict, errors: list[str]) -> HostOrder:
    """Read the order of the address; values that are not valid are ignored and named in errors."""
    sort = query.get("sort") or WORST_FIRST
    if sort.removeprefix("-") not in COLUMNS:
        errors.append(
            f"Sort: {sort[:40]!r} is not a column. Valid values: {', '.join(COLUMNS)}; -name descends."
        )
        sort = WORST_FIRST
    group = query.get("group", "")
    if group not in ("", "pool", "kernel") and not group.startswith(_LABEL):
        errors.append(f"Group: {group[:40]!r} is not valid. Valid values: pool, kernel, label:NAME.")
        group = ""
    page = query.get("page", "1")
    if not re.fullmatch(r"[1-9][0-9]{0,4}", page):
        errors.append(f"Page: {page[:20]!r} is not a page number.")
        page = "1"
    return HostOrder(sort.removeprefix("-"), sort.startswith("-"), group, int(page))


def make_heads(query: QueryDict, order: HostOrder) -> list[dict[str, Any]]:
    """Return the column headers with the links that order the table by them; twice reverses it."""
    return [_make_head(query, column, order) for column in COLUMNS.values()]


def list_group_choices(label_names: Iterable[str], chosen: str) -> list[tuple[str, str, bool]]:
    """Return (value, label, is chosen) of what hosts can be grouped by."""
    labels = list(label_names)
    if chosen.startswith(_LABEL) and chosen.removeprefix(_LABEL) not in labels:
        labels.append(chosen.removeprefix(_LABEL))
    choices = [("", "None"), ("pool", "Pool"), ("kernel", "Kernel")]
    choices += [(f"{_LABEL}{key}", f"Label {key}") for key in labels]
    return [(value, label, value == chosen) for value, label in choices]


def sort_hosts(
    hosts: Sequence[HostRow], order: HostOrder, histories: Mapping[str, Sequence[float | None]]
) -> list[HostRow]:
    """Order hosts by group, then by the column; equal ones by name. Unknown values come last either way."""
    keys: dict[str, Callable[[HostRow], Any]] = {
        **_KEYS,
        "history": lambda host: _read_end(histories.get(host.scope, ())),
    }
    known = [host for host in hosts if keys[order.sort](host) is not None]
    unknown = [host for host in hosts if keys[order.sort](host) is None]
    # Two stable sorts: equal ones stay in the order of names when the column descends.
    known.sort(key=lambda host: _split_digits(host.name))
    unknown.sort(key=lambda host: _split_digits(host.name))
    known.sort(key=keys[order.sort], reverse=order.is_descending)
    if not order.group:
        return [*known, *unknown]
    return sorted([*known, *unknown], key=lambda host: _order_group(_read_group(host, order.group)))


def make_groups(
    hosts: Sequence[HostRow], order: HostOrder, histories: Mapping[str, Sequence[float | None]]
) -> list[dict[str, Any]]:
    """Return the hosts of a page in their groups, in one group without a name if the table has none."""
    groups: dict[str, list[HostRow]] = {}
    for host in hosts:
        groups.setdefault(_read_group(host, order.group) if order.group else "", []).append(host)
    # `reverse` for each link takes half of the time of a page.
    paths = {name: reverse(name) for name in ("hosts", "runs", "series_list", "incidents")}
    return [
        {
            "name": _name_group(value, order.group) if order.group else "",
            "summary": summarize_hosts(rows),
            "lines": tuple(_make_line(host, histories.get(host.scope, ()), paths) for host in rows),
        }
        for value, rows in groups.items()
    ]


def make_pager(query: QueryDict, order: HostOrder, *, count: int) -> dict[str, Any] | None:
    """Return the links of a page; None if all hosts are on one."""
    if count <= HOSTS_ON_A_PAGE and order.page == 1:
        return None
    first = (order.page - 1) * HOSTS_ON_A_PAGE
    last = min(first + HOSTS_ON_A_PAGE, count)
    shown = f"Hosts {format_integer(first + 1)}–{format_integer(last)} of {format_integer(count)}"
    return {
        "text": shown if first < count else f"No hosts on page {order.page}",
        "previous_url": keep_query(query, page=str(order.page - 1)) if order.page > 1 else "",
        "next_url": keep_query(query, page=str(order.page + 1)) if last < count else "",
    }


def summarize_hosts(hosts: Sequence[HostRow]) -> str:
    """Return "8 hosts, 2 with open regressions, 1 silent, 1 failing", then outdated agents; the sample counts not."""
    has_sample = any(host.is_sample for host in hosts)
    hosts = [host for host in hosts if not host.is_sample]
    if has_sample and not hosts:
        return "Sample data"
    affected = sum(host.mark is not None for host in hosts)
    silent = sum(host.silent_since is not None for host in hosts)
    parts = [format_count(len(hosts), "host")]
    if affected:
        parts.append(f"{affected} with open regressions")
    if silent:
        parts.append(f"{silent} silent")
    if failing := sum(bool(host.failing) for host in hosts):
        parts.append(f"{failing} failing")
    outdated = sum(is_outdated(host.agent_version, read_agent_version()) for host in hosts)
    if outdated:
        parts.append(f"{outdated} with an outdated agent")
    return ", ".join(parts) + (", and sample data" if has_sample else "")


def _make_head(query: QueryDict, column: HostColumn, order: HostOrder) -> dict[str, Any]:
    is_sorted = column.name == order.sort
    is_descending = not order.is_descending if is_sorted else column.is_descending_first
    direction = ("descending" if order.is_descending else "ascending") if is_sorted else ""
    sort = f"-{column.name}" if is_descending else column.name
    return {"column": column, "direction": direction, "url": keep_query(query, sort=sort, page=None)}


def _make_line(host: HostRow, history: Sequence[float | None], paths: dict[str, str]) -> dict[str, Any]:
    mark, end, run = host.mark, _read_end(history), host.last_run
    return {
        "host": host,
        "url": f"{paths['hosts']}{host.name}/",
        "severity": mark.severity if mark else "",
        "incidents_text": _describe_incidents(mark) if mark else "",
        "incidents_url": _link_incidents(host.scope, mark, paths) if mark else "",
        "worst": show_scope_mark(mark),
        "series_text": format_count(mark.series_count, "series") if mark else "",
        "worst_url": f"{paths['series_list']}{mark.largest.series_id}/" if mark else "",
        "line": make_step_line(history),
        "change": "" if end is None else format_signed_percent(end - 1),
        "is_outdated": is_outdated(host.agent_version, read_agent_version()),
        "run_url": f"{paths['runs']}{run.id}/" if run else "",
        "age": format_age(run.started_at) if run else "",
    }


def _describe_incidents(mark: ScopeMark) -> str:
    """Return "High", or "2, High" of several incidents."""
    severity, count = SEVERITIES[mark.severity], len(mark.incident_ids)
    return severity if count == 1 else f"{count}, {severity}"


def _link_incidents(scope: str, mark: ScopeMark, paths: dict[str, str]) -> str:
    if len(mark.incident_ids) == 1:
        return f"{paths['incidents']}{mark.incident_ids[0]}/"
    asked = write_filter(Filter().with_value(*scope.split(":", 1)))
    return f"{paths['incidents']}?{urlencode({'q': asked})}"


def _read_group(host: HostRow, group: str) -> str:
    """Return the value that a host is grouped by; "" if it has none."""
    if group == "pool":
        return host.pool
    if group == "kernel":
        return host.kernel or ""
    return str(host.labels.get(group.removeprefix(_LABEL), ""))


def _name_group(value: str, group: str) -> str:
    name = group.removeprefix(_LABEL)
    if value:
        return f"{name} {value}"
    return f"no {name}" if group == "pool" else f"{name} unknown"


def _order_group(value: str) -> tuple[Any, ...]:
    return (not value, _split_digits(value))


def _read_end(history: Sequence[float | None]) -> float | None:
    """Return the last known value of a history."""
    return next((value for value in reversed(history) if value is not None), None)


def _split_digits(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key that orders numbers in text by their value: db-9 before db-10, 5.15 before 6.1."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part.casefold())
        for part in _DIGITS.split(text)
        if part
    ]


_KEYS: Final[dict[str, Callable[[HostRow], Any]]] = {
    "name": lambda host: _split_digits(host.name),
    "pool": lambda host: _split_digits(host.pool) or None,
    "incidents": lambda host: _rank_state(host),
    "worst": lambda host: host.mark and measure_size(host.mark.largest),
    "kernel": lambda host: _split_digits(host.kernel) if host.kernel else None,
    "agent": lambda host: _split_digits(host.agent_version) or None,
    "last_run": lambda host: host.last_run and host.last_run.started_at,
    "runs": lambda host: host.run_count,
}


def _rank_state(host: HostRow) -> tuple[int, int, bool, bool] | None:
    """Return how bad a host is: open regressions by severity and number, failing, silent; None if it is neither."""
    severity = -SEVERITY_ORDER.index(host.mark.severity) if host.mark else -len(SEVERITY_ORDER)
    rank = (
        severity,
        len(host.mark.incident_ids) if host.mark else 0,
        bool(host.failing),
        host.silent_since is not None,
    )
    return rank if host.mark or any(rank[2:]) else None


# A chart of 240 × 72 with room for its labels.
CHART: Final = Box(42, 192, 8, 50)
# Patterns that the summary names.
_NAMED_MAXIMUM: Final = 3
# Closer levels are called equal: the table has one decimal.
_EQUAL_WITHIN: Final = 0.0005


def make_pattern_lines(
    host: HostRow, patterns: Iterable[HostPattern], days: DayRange, *, time_range: AskedRange
) -> list[dict[str, Any]]:
    """Return the rows of the table. days: of their charts; range: of their links."""
    return [_make_pattern_line(host, pattern, days, time_range=time_range) for pattern in patterns]


def list_host_facts(host: HostRow) -> list[str]:
    """Return what the line below the title says of a host: pool, kernel, last run."""
    facts = [f"pool {host.pool}"] if host.pool else []
    if host.kernel:
        facts.append(f"kernel {host.kernel}")
    if host.last_run:
        facts.append(f"last run {describe_age(host.last_run.started_at)}")
    return facts


def summarize_host(host: HostRow, patterns: Sequence[HostPattern], *, is_past: bool) -> list[str]:
    """Return headline and sentences: "1 open regression, IOPS −20 % since 20 Nov", then its levels and its peers'.

    is_past: the patterns are those of an earlier time, which are not compared.
    """
    headline = "no open regressions"
    if mark := show_scope_mark(host.mark):
        count = format_count(len(host.mark.incident_ids if host.mark else ()), "open regression")
        headline = f"{count}, {mark.text.removeprefix('▼ ').removeprefix('▲ ')}"
    return [headline, *([] if is_past else _summarize_peers(host, patterns))]


def _summarize_peers(host: HostRow, patterns: Sequence[HostPattern]) -> list[str]:
    if not patterns:
        return []
    compared = [pattern for pattern in patterns if pattern.comparison]
    if not compared:
        return [f"No peers: {_explain_no_peers(host)}."]
    worse = sorted(
        (pattern for pattern in compared if _find_kind(pattern) == "worse"),
        key=lambda pattern: -abs(pattern.comparison.relative if pattern.comparison else 0.0),
    )
    if not worse:
        return [f"{format_count(len(compared), 'pattern')} at most 5 % below the peers."]
    named = [
        f"{pattern.name[:1].upper()}{pattern.name[1:]} is {_describe_comparison(host, pattern)}."
        for pattern in worse[:_NAMED_MAXIMUM]
    ]
    more = len(worse) - _NAMED_MAXIMUM
    return [*named, f"{format_count(more, 'more pattern')} below the peers."] if more > 0 else named


def _make_pattern_line(
    host: HostRow, pattern: HostPattern, days: DayRange, *, time_range: AskedRange
) -> dict[str, Any]:
    comparison, metric = pattern.comparison, pattern.metric
    asked = Filter().with_value(*host.scope.split(":", 1)).with_value("pattern", pattern.pattern)
    if pattern.target:
        asked = asked.with_value("target_name", pattern.target)
    peers = (
        f"{format_with_unit(comparison.minimum, metric)} – {format_with_unit(comparison.maximum, metric)}"
        if comparison
        else ""
    )
    query = urlencode({"q": write_filter(asked), **time_range.bounds})
    own = urlencode(({} if metric.name == "iops" else {"metric": metric.name}) | time_range.bounds)
    several = pattern.compared_count > 1 and pattern.typical_relative is not None
    return {
        "pattern": pattern,
        "name": pattern.name,
        "url": f"{reverse('series', args=[pattern.series.id])}{f'?{own}' if own else ''}",
        "series_url": f"{reverse('series_list')}?{query}",
        "level": format_with_unit(pattern.level.median, metric),
        "level_title": _describe_level(pattern),
        "comparison": _describe_comparison(host, pattern) or "no peers",
        "kind": _find_kind(pattern),
        "peers_range": peers,
        "typical": f"{format_signed_percent(pattern.typical_relative or 0.0)} in the median of"
        f" {format_count(pattern.compared_count, 'series')}"
        if several
        else "",
        "mark": show_mark(pattern.mark, metric=metric.name),
        "is_failing": any(each.target_name == pattern.series.target.target_name for each in host.failing),
        "chart": _make_chart(pattern, days, f"{reverse('history')}?{query}"),
    }


def _describe_level(pattern: HostPattern) -> str:
    """Return "10 runs since 12 Nov 2026, was 30 315 IOPS until 11 Nov 2026"; of a drift the newest 5 runs."""
    level = pattern.level
    is_gradual = level.change is not None and level.change.slope is not None
    count = format_count(level.n, "run")
    text = f"newest {count}" if is_gradual else f"{count} since {format_day(level.from_at)}"
    if level.previous is None:
        return text
    before = format_with_unit(level.previous.median, pattern.metric)
    return f"{text}, was {before} until {format_day(level.previous.until_at)}"


def _describe_comparison(host: HostRow, pattern: HostPattern) -> str:
    """Return "23 % below the median of 7 peers"; "" without peers."""
    if pattern.comparison is None:
        return ""
    relative = pattern.comparison.relative
    noun = "other host" if host.pool else "peer"
    peers = format_count(pattern.comparison.n, noun) + (f" of pool {host.pool}" if host.pool else "")
    whole = peers if pattern.comparison.n == 1 else f"the median of {peers}"
    if abs(relative) < _EQUAL_WITHIN:
        return f"equal to {whole}"
    return f"{format_change_size(relative)} {'above' if relative > 0 else 'below'} {whole}"


def _explain_no_peers(host: HostRow) -> str:
    if host.pool:
        return f"no other host of pool {host.pool} has {POOL_RUNS_MINIMUM} runs at these levels"
    return "no other host or pool measures the same workload on the same layout"


def _find_kind(pattern: HostPattern) -> str:
    comparison = pattern.comparison
    if comparison is None or abs(comparison.relative) < SMALLEST_CHANGES[pattern.metric.name]:
        return ""
    return "worse" if pattern.is_worse else "better"


def _make_chart(pattern: HostPattern, days: DayRange, url: str) -> dict[str, Any] | None:
    known = [value for value in pattern.history if value is not None]
    line = make_step_line(pattern.history, CHART)
    if not line:
        return None
    # The history begins at 100 %, so that the line of it is within the scale.
    place_y = make_y_scale(known, CHART)
    end = f"{known[-1] * 100:.0f} %"
    return {
        "line": line,
        "level_y": round(place_y(1.0), 1),
        "end_y": round(place_y(known[-1]), 1),
        "end": end,
        "first_day": format_day(days.first_at, has_year=False),
        "last_day": format_day(days.last_at, has_year=False),
        "description": f"{pattern.name}: {end} of the level of {format_day(days.first_at)};"
        f" lowest {min(known) * 100:.0f} %, highest {max(known) * 100:.0f} %",
        "url": url,
    }
