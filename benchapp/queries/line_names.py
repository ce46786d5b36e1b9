"""Short names that tell the series of one picture apart: only what they differ in."""

from collections.abc import Mapping, Sequence
from typing import Final

from benchapp.dimensions import DIMENSIONS, name_pattern
from benchapp.grammar import write_value
from benchapp.queries.series import SeriesRow

Value = str | int | float | bool | None

# How a value is said where its bare number would say nothing.
_PATTERNS: Final = {
    "iodepth": "depth {}",
    "numjobs": "{} jobs",
    "file_size_bytes": "{} file",
    "read_share_percent": "{} % reads",
    "runtime_s": "{} s",
    "volume_count": "{} volumes",
    "volume_size_bytes": "{} volume",
    "provisioned_iops": "{} IOPS provisioned",
    "raid_level": "RAID {}",
    "stripe_count": "{} stripes",
    "chunk_size_bytes": "chunk {}",
}
_SINGULAR: Final = {"1 jobs": "1 job", "1 volumes": "1 volume", "1 stripes": "1 stripe"}
_FLAGS: Final = {True: "direct", False: "buffered"}
# Pattern says both.
_LEFT_OUT: Final = frozenset({"rw", "direction"})


def order_rows(rows: Sequence[SeriesRow]) -> tuple[SeriesRow, ...]:
    """Return the series by what tells them apart: 1, 2, 4, 8 volumes; unknown first."""
    chosen = _choose_dimensions([_list_values(row) for row in rows])

    def place(row: SeriesRow) -> list[tuple[bool, float, str]]:
        values = [_list_values(row)[name] for name in chosen]
        return [
            (value is not None, 0.0, value) if isinstance(value, str) else (value is not None, value or 0, "")
            for value in values
        ]

    return tuple(sorted(rows, key=place))


def name_lines(rows: Sequence[SeriesRow]) -> list[str]:
    """Return a name for each series, by the fewest dimensions that tell them apart; a number where none does."""
    values = [_list_values(row) for row in rows]
    chosen = _choose_dimensions(values)
    if not chosen:
        chosen = ["host"] if rows and not rows[0].is_pool else ["pool"]
    names = [
        " · ".join(_say(name, each[name]) for name in chosen if each[name] is not None) for each in values
    ]
    return [
        f"{name or 'series'} #{row.id}" if names.count(name) > 1 or not name else name
        for name, row in zip(names, rows, strict=True)
    ]


def _choose_dimensions(values: Sequence[Mapping[str, Value]]) -> list[str]:
    chosen: list[str] = []
    told = 1
    for name in DIMENSIONS:
        if name in _LEFT_OUT or told == len(values):
            continue
        count = len({tuple(each[one] for one in (*chosen, name)) for each in values})
        if count > told:
            chosen.append(name)
            told = count
    return chosen


def _list_values(row: SeriesRow) -> Mapping[str, Value]:
    own: dict[str, Value] = {
        "host": None if row.is_pool else row.scope_name,
        "pool": row.scope_name if row.is_pool else None,
        "pattern": name_pattern(row.workload.rw, row.direction),
    }
    for name in DIMENSIONS:
        if name not in own and name not in _LEFT_OUT:
            value = getattr(row.workload if hasattr(row.workload, name) else row.target, name)
            # Empty text is as unknown as none.
            own[name] = None if value == "" else value
    return own


def _say(name: str, value: Value) -> str:
    if isinstance(value, bool):
        return _FLAGS[value]
    if isinstance(value, str) and name != "raid_level":
        return value
    said = _PATTERNS.get(name, "{}").format(write_value(DIMENSIONS[name], value))
    return _SINGULAR.get(said, said)
