"""The parameters of a scaling chart in the address of its page, and the link that reproduces the chart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.dateparse import parse_date

from benchapp.dimensions import find_dimension
from benchapp.grammar import BadFilter, Filter, parse_filter, write_filter
from benchapp.queries.charts.axes import parse_groups
from benchapp.queries.charts.scaling import NONE, BadChart, ScalingChart, ScalingRequest
from benchapp.queries.charts.scaling_shapes import COMPARE_DAYS_MAXIMUM, parse_widths
from benchapp.queries.days import end_of_day
from benchapp.web.site.command_lines import link_chart_image
from benchapp.web.site.time_range import AskedRange, read_time_range

PATH: Final = "/scaling/"
API_PATH: Final = "/api/v1/scaling"
_DRAWS: Final = ("bars", "lines")


@dataclass(frozen=True, slots=True)
class GroupField:
    """A group as in the address, and what is wrong with it, "" if nothing is."""

    text: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class ScalingForm(ScalingRequest):
    """The parameters of the page: those of the chart, and of its display; None: not given.

    group_fields: all groups of the address, also those that are not valid and therefore not in `groups`. range: that of
    `span` in the address.
    """

    range: AskedRange = field(default_factory=AskedRange)

    group_fields: tuple["GroupField", ...] = ()
    draw: str | None = None
    scale: str | None = None
    is_ideal: bool = False

    @property
    def is_log(self) -> bool:
        """Return whether the value axis is logarithmic."""
        return self.scale == "log"


def read_asked(query: QueryDict, filter: Filter | None = None) -> tuple[ScalingForm, list[str]]:
    """Return the parameters of an address, and its errors as sentences. filter: if it was parsed before."""
    errors: list[str] = []
    groups, range = _read_groups(query, errors), _read_range(query, errors)
    asked = ScalingForm(
        filter=_read_filter(query, errors) if filter is None else filter,
        x=_join_axis(query.getlist("x")),
        metric=_join_axis(query.getlist("metric")),
        color=_join_axis(query.getlist("color")),
        facet=query.get("facet") or None,
        over=query.get("over") or None,
        free=tuple(name for names in query.getlist("any") for name in names.split(",") if name),
        span=range.levels,
        range=range,
        compare_days=_read_compare_days(query, errors),
        draw=_read_choice(query, "draw", _DRAWS, errors=errors),
        scale=_read_choice(query, "scale", ("linear", "log"), errors=errors),
        is_ideal=query.get("ideal") == "1",
        has_runs=query.get("runs") == "1",
        has_models=query.get("model") == "1",
        predicted=_read_widths(query, errors) if query.get("model") == "1" else (),
        limits=tuple(text for text in query.getlist("limit") if text.strip()),
        targets=tuple(text for text in query.getlist("target") if text.strip()),
        groups=tuple(field.text for field in groups if not field.error),
        group_fields=groups,
    )
    return asked, errors


def describe_problem(problem: BadChart) -> str:
    """Return what is wrong with a parameter as a sentence."""
    return f"{problem.parameter.title()}: {problem}."


def apply_fixed(query: QueryDict) -> QueryDict | None:
    """Return the address with fixed dimensions (`fix=NAME:VALUE`) as terms of its filter; None if there are none.

    "*" is any value.
    """
    texts = [text for text in query.getlist("fix") if text]
    address = query.copy()
    address.pop("fix", None)
    if not texts:
        return address if "fix" in query else None
    filter = _read_filter(query, [])
    for text in texts:
        name, _, value = text.partition(":")
        dimension = find_dimension(name)
        if dimension is None:
            continue
        filter = filter.without(dimension.name)
        free = [each for names in address.getlist("any") for each in names.split(",")]
        others = [each for each in free if each and each != dimension.name]
        if value == "*":
            others.append(dimension.name)
        else:
            filter = _join(filter, text)
        address["any"] = ",".join(others)
    address["q"] = write_filter(filter)
    for name in ("q", "any"):
        if not address.get(name):
            address.pop(name, None)
    return address


def link_chart(asked: ScalingForm, chart: ScalingChart, **changes: str | None) -> str:
    """Return the path and query that reproduce the chart, with the automatic choices."""
    query = list_query(asked, chart) | {name: [value] for name, value in changes.items() if value is not None}
    kept = {name: values for name, values in query.items() if changes.get(name, "") is not None}
    return f"{PATH}?{urlencode(kept, doseq=True, safe=':,/*')}"


def link_api(asked: ScalingForm, chart: ScalingChart, **more: str) -> str:
    """Return the path and query of the same data in the API."""
    query = list_query(asked, chart)
    kept = {name: values for name, values in query.items() if name not in ("draw", "scale", "ideal")}
    return f"{API_PATH}?{urlencode({**kept, **more}, doseq=True, safe=':,/*')}"


def link_image(asked: ScalingForm, chart: ScalingChart) -> str:
    """Return the address of the chart as PNG, which has the display of the page, too."""
    return link_chart_image(f"{API_PATH}?{urlencode(list_query(asked, chart), doseq=True, safe=':,/*')}")


def list_query(asked: ScalingForm, chart: ScalingChart) -> dict[str, Sequence[str]]:
    """Return the parameters that reproduce the chart."""
    values: Mapping[str, str | None] = {
        "q": write_filter(chart.shown_filter) or None,
        "x": chart.x.name,
        "metric": ",".join(each.metric.name for each in chart.stack),
        "color": chart.color.name if chart.color else NONE,
        "facet": chart.facet.name if chart.facet else None,
        "over": chart.over.name if chart.over else None,
        "any": ",".join(chart.free) or None,
        **asked.range.bounds,
        "compare_days": str(asked.compare_days) if asked.compare_days else None,
        "draw": asked.draw,
        "scale": asked.scale,
        "ideal": "1" if asked.is_ideal else None,
        "runs": "1" if asked.has_runs else None,
        "model": "1" if chart.predicted is not None else None,
        "predict": ",".join(map(str, chart.predicted or ())) or None,
    }
    limits: dict[str, Sequence[str]] = (
        {"limit": [limit.text for limit in chart.limits]} if chart.limits else {}
    )
    named: dict[str, Sequence[str]] = {name: [value] for name, value in values.items() if value is not None}
    groups = {"group": [count.group.text for count in chart.groups]} if chart.groups else {}
    targets = {"target": [target.limit.text for target in chart.targets]} if chart.targets else {}
    return named | limits | targets | groups


def _read_groups(query: QueryDict, errors: list[str]) -> tuple[GroupField, ...]:
    texts = [text for text in query.getlist("group") if text.strip()]
    wrong = parse_groups(texts)[1]
    errors += [f"Group {place + 1}: {problem}." for place, problem in wrong.items()]
    return tuple(GroupField(text, wrong.get(place, "")) for place, text in enumerate(texts))


def _join_axis(names: Sequence[str]) -> str | None:
    """Return the axis of the fields of a page: the first one, empty if automatic, and dimensions combined with it."""
    first, *others = names or [""]
    if first == NONE:
        return NONE
    return ",".join([first, *(name.removeprefix(",") for name in others if name)]) or None


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


def _read_range(query: QueryDict, errors: list[str]) -> AskedRange:
    """Return the time range; as_of, a day of UTC in earlier addresses, is its end."""
    text = query.get("as_of", "")
    if not text or query.get("to"):
        return read_time_range(query, errors)
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    if day is None:
        errors.append(f"As of: {text[:40]!r} is not a valid date; write it as 2026-05-12.")
    return replace(read_time_range(query, errors), to_at=end_of_day(day))


def _read_compare_days(query: QueryDict, errors: list[str]) -> int | None:
    text = query.get("compare_days", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 5 and 0 < int(text) <= COMPARE_DAYS_MAXIMUM):
        errors.append(f"Compare: {text[:40]!r} is not a number of days from 1 to {COMPARE_DAYS_MAXIMUM}.")
        return None
    return int(text)


def _read_widths(query: QueryDict, errors: list[str]) -> tuple[int, ...]:
    try:
        return parse_widths(query.get("predict", ""))
    except BadChart as problem:
        errors.append(f"Predict: {problem}.")
        return ()


def _read_choice(query: QueryDict, name: str, choices: Sequence[str], *, errors: list[str]) -> str | None:
    value = query.get(name)
    if value and value not in choices:
        errors.append(f"{name.title()}: {value[:40]!r} is not valid; available: {', '.join(choices)}.")
    return value if value in choices else None
