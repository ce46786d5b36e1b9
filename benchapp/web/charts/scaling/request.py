"""What the address of a scaling picture asks for, and the link that says all of what is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.dateparse import parse_date

from benchapp.dimensions import find_dimension
from benchapp.grammar import BadFilter, Filter, parse_filter, write_filter
from benchapp.queries.charts.scaling import NONE, BadPicture, ScalingChart, read_scaling

PATH: Final = "/scaling/"
API_PATH: Final = "/api/v1/scaling"
PARAMETERS: Final = (
    *("x", "metric", "colour", "facet", "over", "any", "as_of", "ghost"),
    *("draw", "scale", "ideal", "ceiling"),
)
_DRAWS: Final = ("bars", "lines")
_GHOST_MAXIMUM_DAYS: Final = 3650
# A bad parameter is left out and the picture tried without it; each is left out once.
_TRIES: Final = 6


@dataclass(frozen=True, slots=True)
class ScalingForm:
    """The parameters of a picture; None is not said. as_of: a day, included; free: dimensions not to hold still."""

    filter: Filter
    x: str | None = None
    metric: str | None = None
    colour: str | None = None
    facet: str | None = None
    over: str | None = None
    free: tuple[str, ...] = ()
    as_of: date | None = None
    ghost_days: int | None = None
    draw: str | None = None
    scale: str | None = None
    is_ideal: bool = False
    ceilings: tuple[str, ...] = ()

    @property
    def is_log(self) -> bool:
        """Say whether the value axis is logarithmic."""
        return self.scale == "log"


def read_asked(query: QueryDict, filter: Filter | None = None) -> tuple[ScalingForm, list[str]]:
    """Return what an address asks for, and what is wrong with it in words. filter: where it was read already."""
    errors: list[str] = []
    asked = ScalingForm(
        filter=_read_filter(query, errors) if filter is None else filter,
        **{name: query.get(name) or None for name in ("x", "metric", "colour", "facet", "over")},
        free=tuple(name for names in query.getlist("any") for name in names.split(",") if name),
        as_of=_read_day(query, errors),
        ghost_days=_read_ghost(query, errors),
        draw=_read_choice(query, "draw", _DRAWS, errors=errors),
        scale=_read_choice(query, "scale", ("linear", "log"), errors=errors),
        is_ideal=query.get("ideal") == "1",
        ceilings=tuple(text for text in query.getlist("ceiling") if text.strip()),
    )
    return asked, errors


def read_picture(asked: ScalingForm, errors: list[str]) -> ScalingChart:
    """Return the picture; what cannot be drawn is left out and said in errors."""
    for _ in range(_TRIES):
        try:
            return _read(asked)
        except BadPicture as problem:
            errors.append(f"{problem.parameter.title()}: {problem}.")
            asked = _leave_out(asked, problem.parameter)
    return _read(ScalingForm(asked.filter))


def move_held(query: QueryDict) -> QueryDict | None:
    """Return the address with what was chosen for held dimensions (`hold=NAME:VALUE`) as terms of its filter.

    None where nothing was chosen. "*" is any value.
    """
    holds = [text for text in query.getlist("hold") if text]
    moved = query.copy()
    moved.pop("hold", None)
    if not holds:
        return moved if "hold" in query else None
    filter = _read_filter(query, [])
    for text in holds:
        name, _, value = text.partition(":")
        dimension = find_dimension(name)
        if dimension is None:
            continue
        filter = filter.without(dimension.name)
        free = [each for names in moved.getlist("any") for each in names.split(",")]
        others = [each for each in free if each and each != dimension.name]
        if value == "*":
            others.append(dimension.name)
        else:
            filter = _join(filter, text)
        moved["any"] = ",".join(others)
    moved["q"] = write_filter(filter)
    for name in ("q", "any"):
        if not moved.get(name):
            moved.pop(name, None)
    return moved


def link_picture(asked: ScalingForm, picture: ScalingChart, **changes: str | None) -> str:
    """Return path and query that say all of what is shown, also what was chosen by itself."""
    query = list_query(asked, picture) | {
        name: [value] for name, value in changes.items() if value is not None
    }
    kept = {name: values for name, values in query.items() if changes.get(name, "") is not None}
    return f"{PATH}?{urlencode(kept, doseq=True, safe=':,/*')}"


def link_api(asked: ScalingForm, picture: ScalingChart, **more: str) -> str:
    """Return path and query of the same numbers from the API."""
    query = list_query(asked, picture)
    kept = {name: values for name, values in query.items() if name not in ("draw", "scale", "ideal")}
    return f"{API_PATH}?{urlencode({**kept, **more}, doseq=True, safe=':,/*')}"


def list_query(asked: ScalingForm, picture: ScalingChart) -> dict[str, Sequence[str]]:
    """Return the parameters that say all of what is shown."""
    said: Mapping[str, str | None] = {
        "q": write_filter(picture.shown_filter) or None,
        "x": picture.x.dimension.name,
        "metric": picture.metric.name,
        "colour": picture.colour.dimension.name if picture.colour else NONE,
        "facet": picture.facet.dimension.name if picture.facet else None,
        "over": picture.over.name if picture.over else None,
        "any": ",".join(picture.free) or None,
        "as_of": asked.as_of.isoformat() if asked.as_of else None,
        "ghost": str(asked.ghost_days) if asked.ghost_days else None,
        "draw": asked.draw,
        "scale": asked.scale,
        "ideal": "1" if asked.is_ideal else None,
    }
    ceilings: dict[str, Sequence[str]] = (
        {"ceiling": [limit.text for limit in picture.limits]} if picture.limits else {}
    )
    named: dict[str, Sequence[str]] = {name: [value] for name, value in said.items() if value is not None}
    return named | ceilings


def _read(asked: ScalingForm) -> ScalingChart:
    return read_scaling(
        asked.filter,
        x=asked.x,
        metric=asked.metric,
        colour=asked.colour,
        facet=asked.facet,
        over=asked.over,
        free=asked.free,
        as_of=asked.as_of,
        ghost=timedelta(days=asked.ghost_days) if asked.ghost_days else None,
        ceilings=asked.ceilings,
    )


def _leave_out(asked: ScalingForm, parameter: str) -> ScalingForm:
    empty: dict[str, Any] = {"any": {"free": ()}, "ceiling": {"ceilings": ()}}
    return replace(asked, **empty.get(parameter, {parameter: None}))


def _read_filter(query: QueryDict, errors: list[str]) -> Filter:
    try:
        return parse_filter(query.get("q", ""))
    except BadFilter as problem:
        errors.append(f"Filter: {problem}.")
        return Filter()


def _join(filter: Filter, text: str) -> Filter:
    try:
        more = parse_filter(text)
    except BadFilter:
        return filter
    return Filter((*filter.terms, *more.terms), filter.words)


def _read_day(query: QueryDict, errors: list[str]) -> date | None:
    text = query.get("as_of", "")
    try:
        day = parse_date(text) if text else None
    except ValueError:
        day = None
    if text and day is None:
        errors.append(f"As of: {text[:40]!r} is no day: write it as 2026-05-12.")
    return day


def _read_ghost(query: QueryDict, errors: list[str]) -> int | None:
    text = query.get("ghost", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 5 and 0 < int(text) <= _GHOST_MAXIMUM_DAYS):
        errors.append(f"Ghost: {text[:40]!r} is no number of days from 1 to {_GHOST_MAXIMUM_DAYS}.")
        return None
    return int(text)


def _read_choice(query: QueryDict, name: str, choices: Sequence[str], *, errors: list[str]) -> str | None:
    value = query.get(name)
    if value and value not in choices:
        errors.append(f"{name.title()}: {value[:40]!r} is none of: {', '.join(choices)}.")
    return value if value in choices else None
