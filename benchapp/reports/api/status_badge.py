"""Status badges: the current level of a series, or whether any of several has an open regression."""

from dataclasses import dataclass
from typing import Annotated, Final

from django.http import HttpResponse
from django.utils.html import escape
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework.request import Request

from benchapp.accounts.api import MayReadOrHasLink, SignedParameters
from benchapp.catalog.metrics import CATALOG, format_change_size, format_integer, format_value
from benchapp.framework.api.answers import ApiAnswer
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    IdsField,
    read_parameters,
    text_parameter,
)
from benchapp.framework.api.problems import bad_parameter
from benchapp.framework.api.responses import answer_json, answer_text
from benchapp.framework.api.view import ApiView
from benchapp.incidents.read.series_status import SeriesMark, read_series_marks
from benchapp.models.filtering import match_series
from benchapp.series.read.levels import read_current_levels
from benchapp.series.read.selected_levels import read_main_levels
from benchapp.series.read.series import with_points

SERIES_MAXIMUM: Final = 1000
_RED: Final = "#c0392b"
_GREEN: Final = "#1e8449"
_GRAY: Final = "#6b7075"
_HEIGHT: Final = 20
_SIDE: Final = 7
# Of 11 px DejaVu Sans or Verdana, rounded up: the text is fitted to it by textLength.
_CHARACTER: Final = 6.6


class StatusBadgeAnswer(ApiAnswer, kw_only=True, frozen=True):
    schemaVersion: Annotated[int, Meta(description="1: of the endpoint badges of shields.io")]  # noqa: N815
    label: str
    message: str
    color: str
    isError: Annotated[bool, Meta(description="an open regression")]  # noqa: N815


class StatusBadgeParameters(FilterParameters, SignedParameters):
    """Which series, and the text before the value."""

    series = IdsField(
        SERIES_MAXIMUM, help_text="ids of series, separated by commas; default: selected by `q`"
    )
    metric = ChoiceParameter(
        choices=tuple(CATALOG), required=False, help_text="default: the main metric of the series"
    )
    text = text_parameter(60, help_text="text before the value; default: the name of the metric")
    format = ChoiceParameter(choices=("json", "svg"), required=False, default="json")


@dataclass(frozen=True, slots=True)
class StatusText:
    """What a status badge shows. color: as #rrggbb."""

    label: str
    message: str
    color: str


class StatusBadge(ApiView):
    """The status badge of series."""

    permission_classes = [MayReadOrHasLink]

    @extend_schema(
        operation_id="read_status_badge",
        parameters=[StatusBadgeParameters],
        responses={(200, "application/json"): StatusBadgeAnswer, (200, "image/svg+xml"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request) -> HttpResponse:
        """Read the status badge of a series or a filter, as an image or for shields.io."""
        wanted = read_parameters(request, StatusBadgeParameters)
        rows = with_points().filter(match_series(wanted["match"]))
        if "series" in wanted:
            rows = rows.filter(pk__in=wanted["series"])
        ids = list(rows.values_list("pk", flat=True)[: SERIES_MAXIMUM + 1])
        if len(ids) > SERIES_MAXIMUM:
            raise bad_parameter("q", f"more than {SERIES_MAXIMUM} series match; narrow the filter")
        status = describe_status(ids, metric=wanted.get("metric"), label=wanted.get("text"))
        if wanted["format"] == "svg":
            return answer_text(request, draw_status_badge(status), "image/svg+xml; charset=utf-8")
        return answer_json(
            request,
            StatusBadgeAnswer(
                schemaVersion=1,
                label=status.label,
                message=status.message,
                color=status.color,
                isError=status.color == _RED,
            ),
        )


def describe_status(series_ids: list[int], *, metric: str | None, label: str | None) -> StatusText:
    """Return the text of a status badge; three queries at most."""
    marks = read_series_marks(series_ids, metric=metric or "iops")
    regressed = [mark for mark in marks.values() if mark.state == "open" and mark.is_regression]
    if len(series_ids) == 1:
        return _describe_one(series_ids[0], regressed, metric=metric, label=label)
    name = label or (CATALOG[metric].label if metric else "benchmarks")
    count = format_integer(len(series_ids))
    if not series_ids:
        return StatusText(name, "no series", _GRAY)
    if regressed:
        return StatusText(name, f"{format_integer(len(regressed))} of {count} series regressed", _RED)
    return StatusText(name, f"{count} series, no regression", _GREEN)


def _describe_one(
    series_id: int, regressed: list[SeriesMark], *, metric: str | None, label: str | None
) -> StatusText:
    if metric is None:
        main = read_main_levels([series_id]).get(series_id)
        shown, level = (main.metric, main.level) if main else (CATALOG["iops"], None)
    else:
        shown = CATALOG[metric]
        level = read_current_levels([series_id], shown).get(series_id)
    name = label or shown.label
    if level is None:
        return StatusText(name, "no value", _GRAY)
    value = format_value(level.median, shown.unit)
    own = next((mark for mark in regressed if mark.metric == shown.name), None)
    if own is not None:
        sign = "▲" if own.relative > 0 else "▼"
        return StatusText(name, f"{value} {sign} {format_change_size(own.relative)}", _RED)
    return StatusText(name, f"{value} (regression)", _RED) if regressed else StatusText(name, value, _GREEN)


def draw_status_badge(status: StatusText) -> str:
    """Return a status badge as SVG without script and external resources; every text is escaped."""
    left, right = (round(len(text) * _CHARACTER) + 2 * _SIDE for text in (status.label, status.message))
    title, label, message = (
        escape(text) for text in (f"{status.label}: {status.message}", status.label, status.message)
    )
    width = left + right
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" role="img" aria-label="{title}">'
        f"<title>{title}</title>"
        f'<rect width="{left}" height="{_HEIGHT}" fill="#1d2021"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{status.color}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{_SIDE}" y="14" textLength="{left - 2 * _SIDE}">{label}</text>'
        f'<text x="{left + _SIDE}" y="14" textLength="{right - 2 * _SIDE}">{message}</text>'
        "</g></svg>\n"
    )
