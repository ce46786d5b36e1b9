"""The parameters of a scaling chart in the address of its page, and the link that reproduces the chart."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.dateparse import parse_date

from benchapp.catalog.dimensions import find_dimension
from benchapp.catalog.grammar import BadFilter, Filter, parse_filter, write_filter
from benchapp.charts.read.axes import parse_groups
from benchapp.charts.read.chart import BadChart
from benchapp.charts.read.scaling_shapes import NONE, OPTIONS, ScalingChart, ScalingRequest
from benchapp.framework.pages.command_lines import link_chart_image
from benchapp.framework.pages.time_range import AskedRange, read_time_range
from benchapp.framework.read.days import end_of_day

PATH: Final = "/scaling/"
API_PATH: Final = "/api/v1/scaling"


def read_request(query: QueryDict, filter: Filter | None = None) -> tuple[ScalingRequest, list[str]]:
    """Return the parameters of an address, and its errors as sentences. filter: if it was parsed before."""
    errors: list[str] = []
    range = _read_range(query, errors)
    given: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        try:
            given[name] = option.read(query.getlist(option.parameter))
        except ValueError as problem:
            errors.append(f"{option.parameter.replace('_', ' ').capitalize()}: {problem}.")
    wrong = parse_groups(given["groups"])[1]
    errors += [f"Group {place + 1}: {problem}." for place, problem in wrong.items()]
    if not given.get("has_models"):
        # The form has the widths until the model is off.
        given["predicted"] = ()
    return ScalingRequest(
        filter=_read_filter(query, errors) if filter is None else filter,
        span=range.levels,
        bounds=tuple(range.bounds.items()),
        **given,
    ), errors


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


def link_chart(chart: ScalingChart, **changes: str | None) -> str:
    """Return the path and query that reproduce the chart, with the automatic choices."""
    query = list_query(chart) | {name: [value] for name, value in changes.items() if value is not None}
    kept = {name: values for name, values in query.items() if changes.get(name, "") is not None}
    return f"{PATH}?{urlencode(kept, doseq=True, safe=':,/*')}"


def link_api(chart: ScalingChart, **more: str) -> str:
    """Return the path and query of the same data in the API."""
    display = {each.parameter for each in OPTIONS.values() if each.is_display}
    kept = {name: values for name, values in list_query(chart).items() if name not in display}
    return f"{API_PATH}?{urlencode({**kept, **more}, doseq=True, safe=':,/*')}"


def link_image(chart: ScalingChart) -> str:
    """Return the address of the chart as PNG, which has the display of the page, too."""
    return link_chart_image(f"{API_PATH}?{urlencode(list_query(chart), doseq=True, safe=':,/*')}")


def list_query(chart: ScalingChart) -> dict[str, Sequence[str]]:
    """Return the parameters that reproduce the chart: its options, those that it chose as chosen."""
    chosen = replace(
        chart.request,
        x=chart.x.name,
        metric=",".join(each.metric.name for each in chart.stack),
        color=chart.color.name if chart.color else NONE,
        facet=chart.facet.name if chart.facet else None,
        over=chart.over.name if chart.over else None,
    )
    options = {each.parameter: each.write(getattr(chosen, name)) for name, each in OPTIONS.items()}
    bounds = {name: [text] for name, text in chart.request.bounds}
    query = {"q": [write_filter(chart.shown_filter)], **options, **bounds}
    return {name: texts for name, texts in query.items() if any(texts)}


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
