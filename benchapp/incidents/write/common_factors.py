"""Common factors of an incident: dimension values of its series that unaffected series do not have.

For a pool, whose hosts share series: which of its hosts changed.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median, median_low
from typing import Any, Final

from django.db import connection
from django.db.models import QuerySet
from psycopg import sql

from benchapp.catalog.dimensions import DIMENSIONS, SERIES_DIMENSIONS, describe_pattern, name_pattern
from benchapp.catalog.grammar import write_value
from benchapp.catalog.metrics import CATALOG, format_integer
from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.incidents.rules.incidents import CommonFactor, find_common_factors, find_event_window
from benchapp.models import LAYOUT_FIELDS, Change, ChangeState, Incident, Series

# Changes that are read; a host of a pool is affected in all of them or in none.
_CHANGES_MAXIMUM: Final = 50
# Share of the step from the old to the new level from which a host counts as changed.
CHANGED_SHARE: Final = 0.5
_LEVELS: Final = (
    "SELECT host.name, wanted.id, percentile_cont(0.5) WITHIN GROUP (ORDER BY m.{metric}) FROM"
    " unnest(%s::bigint[], %s::bigint[], %s::timestamptz[], %s::timestamptz[]) AS wanted(id, series_id, since, until)"
    " JOIN benchapp_measurement m ON m.series_id = wanted.series_id AND m.started_at BETWEEN since AND until"
    " AND m.error = 0 AND NOT m.is_excluded AND m.{metric} IS NOT NULL"
    " JOIN benchapp_run run ON run.id = m.run_id JOIN benchapp_host host ON host.id = run.host_id"
    " GROUP BY 1, 2"
)


def find_affected_hosts(changes: QuerySet[Change], scope: str) -> Iterator[dict[str, Any]]:
    """Yield which hosts of a pool changed, unless all did; hosts without runs since are ignored."""
    shares = read_shares(list(changes.order_by("-confidence", "id")[:_CHANGES_MAXIMUM]))
    changed = sorted(host for host, share in shares.items() if share >= CHANGED_SHARE)
    if not changed or len(changed) == len(shares):
        return
    text = (
        f"host {changed[0]} only: rest of the pool unaffected"
        if len(changed) == 1
        else f"{len(changed)} of {len(shares)} hosts"
    )
    yield {"dimension": "host", "value": ", ".join(changed), "share": 1.0, "text": text}


def read_shares(changes: Iterable[Change]) -> dict[str, float]:
    """Return for each host the median share of the step to the new level."""
    by_metric: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        if change.after_median != change.before_median and "points_to" in change.evidence:
            by_metric[change.metric].append(change)
    ways: dict[str, list[float]] = defaultdict(list)
    for metric, members in by_metric.items():
        known = {change.pk: change for change in members}
        for host, change_id, level in _read_levels(metric, members):
            change = known[change_id]
            way = change.after_median - change.before_median
            ways[host].append((level - change.before_median) / way)
    return {host: median(parts) for host, parts in ways.items()}


def _read_levels(metric: str, changes: list[Change]) -> list[tuple[str, int, float]]:
    query = sql.SQL(_LEVELS).format(metric=sql.Identifier(CATALOG[metric].name))
    with connection.cursor() as cursor:
        cursor.execute(
            query.as_string(cursor.connection),
            [
                [change.pk for change in changes],
                [change.series_id for change in changes],
                [change.started_at for change in changes],
                [change.evidence["points_to"] for change in changes],
            ],
        )
        return list(cursor.fetchall())


# Series of a scope that are read; a sweep has 320.
_CELLS_MAXIMUM: Final = 5000
# Whether a workload is random or sequential: "random", "sequential", or "" if unknown.
_ACCESS: Final = "access"
# What follows from the pattern in most profiles, or is a part of it.
_LAST: Final = ("iodepth", "numjobs", "rw", "direction")
FACTOR_DIMENSIONS: Final = (
    "pattern",
    _ACCESS,
    *(name for name in SERIES_DIMENSIONS if name not in ("host", "pool", "pattern", *_LAST)),
    *_LAST,
)
_PAIRED: Final = (
    "pattern",
    _ACCESS,
    "block_size_bytes",
    "file_size_bytes",
    "volume_type",
    "volume_count",
    "instance_type",
)
# "4k random read", "random 4k".
_NAMES: Final = (("pattern", "block_size_bytes"), (_ACCESS, "block_size_bytes"))
_PART_OF: Final = {_ACCESS: "pattern", "rw": "pattern", "direction": "pattern"}
_COLUMNS: Final = tuple(name for name in SERIES_DIMENSIONS if name not in ("host", "pool", "pattern"))
_ACCESS_FILTERS: Final = {"random": "rand*", "sequential": "read,write,rw,trim,trimwrite"}
# The values of a pair: in quotes if they have a space.
_VALUES: Final = re.compile(r'(?:"[^"]*"|[^\s"])+')
# Formatted as counts: "16 stripes".
_COUNTED: Final = ("volume_count", "stripe_count", "numjobs")


@dataclass(frozen=True, slots=True)
class Breadth:
    """Affected and measured series of an incident. common_factors: as `Incident.common_factors`.

    repeated_ids: affected totals of mixes whose reads or writes are affected, too; no number counts them.

    reach: the share of the series of its hosts and pools that is affected, or of those of its volume type if larger.
    target: the name of the one target whose series are affected, "" if there are several; has_other_targets: series of
    others are not.
    """

    scopes: tuple[str, ...]
    cells: int
    all_cells: int
    reach: float
    common_factors: list[dict[str, Any]]
    target: str = ""
    has_other_targets: bool = False
    repeated_ids: frozenset[int] = frozenset()


def measure_breadth(incident: Incident) -> Breadth:
    """Return the affected series of an incident and their common factors; about six queries."""
    changes = Change.objects.filter(incident=incident).exclude(state=ChangeState.WITHDRAWN)
    changed_ids = set(changes.values_list("series_id", flat=True))
    scopes = sorted(set(Series.objects.filter(pk__in=changed_ids).values_list("scope", flat=True)))
    cells = list(_read_cells(scopes))
    affected = [cell for cell in cells if cell["id"] in changed_ids]
    changed = _drop_totals(affected)
    others = [cell for cell in _drop_totals(cells) if cell["id"] not in changed_ids]
    counted = len(changed) + len(others)
    found = find_common_factors(
        changed, others, FACTOR_DIMENSIONS, paired=_PAIRED, names=_NAMES, part_of=_PART_OF
    )
    factors = [_describe(one, len(changed)) for one in found]
    names = {cell["target_name"] or "" for cell in changed}
    target = names.pop() if len(names) == 1 else ""
    is_apart = any(cell["target_name"] != target for cell in others)
    if target and is_apart and not any("target_name" in one.dimensions for one in found):
        factors.append(_entry("target_name", target, 1.0, f"{name_value('target_name', target)} only"))
    if not others and len(changed) > 1:
        everything = f"all {format_integer(len(changed))} series"
        factors.append(
            _entry(
                "scope",
                ", ".join(scopes),
                1.0,
                f"{everything} of the {'host' if scopes[0].startswith('host:') else 'pool'}"
                if len(scopes) == 1
                else everything,
            )
        )
    if len(scopes) == 1:
        factors.extend(find_affected_hosts(changes, scopes[0]) if scopes[0].startswith("pool:") else ())
        # Drifts have no common start, and the steps of their slopes have many.
        if not changes.filter(method=DRIFT_METHOD).exists():
            factors.extend(_compare_elsewhere(incident, scopes[0], changed))
    shares = [one.coverage for one in found if one.dimensions == ("volume_type",)]
    reach = max([len(changed) / max(counted, 1), *shares])
    repeated = frozenset(cell["id"] for cell in affected) - {cell["id"] for cell in changed}
    return Breadth(tuple(scopes), len(changed), counted, reach, factors, target, is_apart, repeated)


def _drop_totals(cells: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the cells without totals of mixes whose reads or writes are among them."""
    parts = {_name_mix(cell) for cell in cells if cell["direction"] in ("read", "write")}
    return [cell for cell in cells if cell["direction"] != "mixed" or _name_mix(cell) not in parts]


def _name_mix(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    return cell["scope"], cell["target_id"], cell["workload_id"]


def _read_cells(scopes: Sequence[str]) -> Iterator[dict[str, Any]]:
    rows = Series.objects.filter(scope__in=scopes, detection_results__isnull=False).distinct().order_by("id")
    for row in rows.values("id", "scope", "target_id", "workload_id", *_COLUMNS)[:_CELLS_MAXIMUM]:
        is_unknown = not row["rw"] or row["rw"].startswith("unknown-")
        access = "random" if "rand" in row["rw"] else "" if is_unknown else "sequential"
        yield {**row, "pattern": name_pattern(row["rw"], row["direction"]), _ACCESS: access}


def _describe(one: CommonFactor, changed: int) -> dict[str, Any]:
    name = _name_factor(dict(zip(one.dimensions, one.values, strict=True)))
    if one.share < 1:
        text = f"mostly {name} ({_write_counts(round(one.share * changed), changed)} series)"
    elif one.share_of_others == 0:
        text = f"{name} only"
    else:
        text = f"{name} only ({_write_counts(changed, one.cells)} series)"
    values = " ".join(map(_write_factor_value, one.dimensions, one.values))
    columns = ",".join("rw" if dimension == _ACCESS else dimension for dimension in one.dimensions)
    return _entry(columns, values, one.share, text)


def _name_factor(values: Mapping[str, Any]) -> str:
    """Name values as people do: "4k random read", "random 4k", "volume type st1 with 4 volumes"."""
    parts = dict(values)
    pattern, access = parts.pop("pattern", ""), parts.pop(_ACCESS, "")
    size = parts.pop("block_size_bytes", None) if pattern or access else None
    written = "" if size is None else write_value(DIMENSIONS["block_size_bytes"], size)
    if pattern:
        name = f"{written} {describe_pattern(pattern)}".strip()
    else:
        name = f"{access} {written or 'I/O'}" if access else ""
    return " with ".join([*([name] if name else []), *(name_value(*part) for part in parts.items())])


def _write_factor_value(dimension: str, value: Any) -> str:
    return _ACCESS_FILTERS[value] if dimension == _ACCESS else write_value(DIMENSIONS[dimension], value)


def write_factor_filter(factor: Mapping[str, Any]) -> str:
    """Return a stored common factor as a filter: "volume_type:st1", "rw:rand* block_size_bytes:4k"."""
    names = factor["dimension"].split(",")
    values = [factor["value"]] if len(names) == 1 else _VALUES.findall(factor["value"])
    return " ".join(f"{name}:{value}" for name, value in zip(names, values, strict=True))


def _write_counts(part: int, whole: int) -> str:
    return f"{format_integer(part)} of {format_integer(whole)}"


def name_value(name: str, value: Any) -> str:
    """Return a value with its dimension: "volume type st1", "4 stripes"."""
    dimension = DIMENSIONS[name]
    written = str(value) if dimension.kind == "text" else write_value(dimension, value)
    label = (
        dimension.label if dimension.label[1].isupper() else dimension.label[0].lower() + dimension.label[1:]
    )
    if name in _COUNTED:
        return f"{written} {label if value != 1 else label.removesuffix('s')}"
    return f"{label} {written}"


def _entry(dimension: str, value: str, share: float, text: str) -> dict[str, Any]:
    return {"dimension": dimension, "value": value, "share": round(share, 4), "text": text}


def _compare_elsewhere(
    incident: Incident, scope: str, changed: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield whether the same workload and layout changed elsewhere, significantly, around the start."""
    rows = Series.objects.filter(pk__in=[cell["id"] for cell in changed])
    known = set(rows.values_list("workload_id", *LAYOUT_FIELDS))
    others = (
        Series.objects.filter(
            workload_id__in={workload_id for workload_id, *_ in known}, detection_results__isnull=False
        )
        .exclude(scope=scope)
        .distinct()
        .values_list("pk", "scope", "workload_id", *LAYOUT_FIELDS)[:_CELLS_MAXIMUM]
    )
    same = {series_id: of for series_id, of, *identity in others if tuple(identity) in known}
    peers_count = len(set(same.values()))
    if not same:
        return
    began, window = _find_start(incident), find_event_window(read_intervals(incident))
    significant = (
        Change.objects.filter(series__in=same, is_regression=incident.is_regression)
        .filter(started_at__range=(began - window, began + window))
        .exclude(state=ChangeState.WITHDRAWN)
        .exclude(incident=None)
    )
    also = {same[series_id] for series_id in significant.values_list("series_id", flat=True)}
    kind = "pool" if scope.startswith("pool:") else "host"
    share = len(also) / peers_count
    peers = f"{format_integer(peers_count)} peer{'s' if peers_count > 1 else ''} with the same workload and layout"
    if also:
        text = f"{format_integer(len(also))} of {peers} also changed"
    else:
        text = f"only this {kind} ({peers} unaffected)"
    yield _entry(kind, scope.partition(":")[2], 1 - share, text)


def _find_start(incident: Incident) -> datetime:
    """Return the median start of the changes of an incident."""
    return median_low(Change.objects.filter(incident=incident).values_list("started_at", flat=True))


def read_intervals(incident: Incident) -> list[float]:
    """Return the usual interval of the runs around each change of an incident, in s; one query."""
    rows = Change.objects.filter(incident=incident).values_list("evidence__interval_s", flat=True)
    return [interval_s for interval_s in rows if interval_s]
