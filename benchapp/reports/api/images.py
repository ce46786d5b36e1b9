"""Images for other pages: charts and status badges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Annotated, Any, ClassVar, Final

from django.http import HttpResponse
from django.utils import timezone
from django.utils.html import escape
from django.utils.timezone import override
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.accounts.api import MayReadOrHasLink, SignedParameters, make_base_url
from benchapp.catalog.grammar import Filter, write_filter
from benchapp.catalog.metrics import CATALOG, format_change_size, format_integer, format_value
from benchapp.charts.api.comparison import ComparisonParameters, read_comparison
from benchapp.charts.api.history import HistoryParameters, make_history_etag, read_own_thresholds
from benchapp.charts.api.matrix import MatrixParameters, read_asked_matrix
from benchapp.charts.api.scaling import ScalingParameters, make_request, read_chart
from benchapp.charts.images.change import draw_change
from benchapp.charts.images.chart import draw_chart
from benchapp.charts.images.comparison import draw_comparison
from benchapp.charts.images.frame import (
    CONTENT_TYPES,
    HEIGHT_DEFAULT,
    HEIGHT_MAXIMUM,
    HEIGHT_MINIMUM,
    PIXELS_MAXIMUM,
    SCALE_MAXIMUM,
    THEMES,
    WIDTH_DEFAULT,
    WIDTH_MAXIMUM,
    WIDTH_MINIMUM,
    ImageFormat,
    ImageOptions,
    TooManyDrawings,
    TooManyPixels,
)
from benchapp.charts.images.history import PANELS_MAXIMUM, draw_history
from benchapp.charts.images.host import draw_host
from benchapp.charts.images.percentiles import draw_percentiles
from benchapp.charts.read.history import choose_series, read_history
from benchapp.charts.read.latency import COLUMNS_DEFAULT, read_fan
from benchapp.charts.texts.comparison import describe_side
from benchapp.framework.api.answers import ApiAnswer
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    DaysParameters,
    FilterParameters,
    IdsField,
    Parameters,
    SpanParameters,
    read_parameters,
    text_parameter,
)
from benchapp.framework.api.problems import Problem, bad_parameter, no_host, not_found
from benchapp.framework.api.responses import (
    answer_image,
    answer_json,
    answer_not_modified,
    answer_text,
    is_known,
    make_etag,
)
from benchapp.framework.api.view import ApiView
from benchapp.framework.times import find_zone, format_moment
from benchapp.incidents.read.changes import read_sides
from benchapp.incidents.read.incidents import read_incident
from benchapp.incidents.read.series_status import SeriesMark, read_series_marks
from benchapp.layouts.api.layouts import LayoutParameters, read_ranking
from benchapp.layouts.image import draw_layouts
from benchapp.models import follow_name
from benchapp.models.filtering import match_series
from benchapp.series.api.series import no_series, read_version
from benchapp.series.read.levels import read_current_levels
from benchapp.series.read.selected_levels import HISTORY_DAYS, make_level_range, read_main_levels
from benchapp.series.read.series import read_rows, with_points
from benchapp.storage.read.hosts import read_host
from benchapp.storage.read.patterns import begin_with_runs, read_host_patterns

TITLE_MAXIMUM: Final = 200
PAGE_MAXIMUM: Final = 4000
# Requests that wait for the drawing of others are turned away after a few; an image takes a tenth of a second.
_RETRY_AFTER_S: Final = 2
_ZONE_NAME_MAXIMUM: Final = 64


@extend_schema_field({"type": "string"})
class ZoneField(serializers.Field[tzinfo, Any, tzinfo, Any]):
    """The name of a time zone."""

    def to_internal_value(self, data: Any) -> tzinfo:
        """Return the zone."""
        name = str(data)[:_ZONE_NAME_MAXIMUM]
        zone = UTC if name == "UTC" else find_zone(name)
        if zone is None:
            raise serializers.ValidationError(
                f"{name!r} is not a time zone; use a name of the IANA database: Europe/Berlin"
            )
        return zone

    def to_representation(self, value: tzinfo) -> tzinfo:
        """Return the zone itself."""
        return value


class ImageParameters(SignedParameters):
    """How a chart is drawn."""

    width = serializers.IntegerField(
        required=False,
        min_value=WIDTH_MINIMUM,
        max_value=WIDTH_MAXIMUM,
        default=WIDTH_DEFAULT,
        help_text="in CSS pixels",
    )
    height = serializers.IntegerField(
        required=False,
        min_value=HEIGHT_MINIMUM,
        max_value=HEIGHT_MAXIMUM,
        help_text=f"in CSS pixels; default: {HEIGHT_DEFAULT}, of a matrix and a comparison what their rows need",
    )
    scale_factor = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=SCALE_MAXIMUM,
        default=1,
        help_text=f"pixels of a PNG for each CSS pixel; a PNG has at most {PIXELS_MAXIMUM} pixels",
    )
    theme = ChoiceParameter(choices=THEMES, required=False, default="light")
    title = text_parameter(TITLE_MAXIMUM, help_text="default: the title of the page, with its finding")
    page = text_parameter(
        PAGE_MAXIMUM,
        help_text="address of a page, in the footer with the time; default: the address of the server alone",
    )
    time_zone = ZoneField(
        required=False,
        help_text="name of the IANA database; default: UTC; of times in the image",
    )


class HistoryImageParameters(HistoryParameters, ImageParameters):
    """Those of the history; the first three metrics are drawn, below each other."""

    format = None  # type: ignore[assignment]
    resolution = None  # type: ignore[assignment]
    scale = ChoiceParameter(choices=("linear", "log"), required=False)


class ScalingImageParameters(ScalingParameters, ImageParameters):
    """Those of the scaling chart, with its display."""

    format = None  # type: ignore[assignment]


class MatrixImageParameters(MatrixParameters, ImageParameters):
    """Those of the matrix."""

    format = None  # type: ignore[assignment]


class ComparisonImageParameters(ComparisonParameters, ImageParameters):
    """Those of the comparison."""

    format = None  # type: ignore[assignment]


class LayoutsImageParameters(LayoutParameters, ImageParameters):
    """Those of the ranking."""

    format = None  # type: ignore[assignment]


class PercentilesImageParameters(SpanParameters, ImageParameters):
    """Which series."""

    series = serializers.IntegerField(min_value=1, max_value=2**63 - 1, help_text="id of the series")


class IncidentImageParameters(ImageParameters):
    """Which incident."""

    incident = serializers.IntegerField(min_value=1, max_value=2**63 - 1, help_text="id of the incident")


class HostImageParameters(DaysParameters, ImageParameters):
    """Which host, and which days."""

    usual_days = HISTORY_DAYS
    host = serializers.CharField(max_length=100, help_text="name of the host")


def _describe(operation_id: str, parameters: type[Parameters]) -> Callable[..., Any]:
    """Return the description of an operation that answers an image."""
    kind = OpenApiParameter("image_format", str, OpenApiParameter.PATH, enum=list(CONTENT_TYPES))
    return extend_schema(
        operation_id=operation_id,
        parameters=[kind, parameters],
        responses={(200, "image/svg+xml"): OpenApiTypes.BINARY, (200, "image/png"): OpenApiTypes.BINARY},
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """Validated parameters, and how to draw."""

    wanted: dict[str, Any]
    options: ImageOptions


class ChartImage(ApiView):
    """One kind of chart as an image."""

    permission_classes = [MayReadOrHasLink]
    parameters: ClassVar[type[Parameters]]

    def read(self, request: Request, image_format: ImageFormat) -> _Asked:
        """Return the parameters of a request."""
        wanted = read_parameters(request, self.parameters)
        options = ImageOptions(
            format=image_format,
            width=wanted["width"],
            height=wanted.get("height"),
            scale=wanted["scale_factor"],
            theme=wanted["theme"],
            title=wanted.get("title", ""),
            address=make_base_url(request),
        )
        return _Asked(wanted, options)

    def answer(
        self,
        request: Request,
        asked: _Asked,
        draw: Callable[[ImageOptions], bytes],
        *,
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """Draw and answer; Problem 400 for too many pixels, 503 while too many wait for images."""
        try:
            with override(asked.wanted.get("time_zone", UTC)):
                image = draw(_name_page(asked))
        except TooManyPixels as error:
            raise bad_parameter("scale_factor", error) from error
        except TooManyDrawings as error:
            raise Problem(
                503,
                "busy",
                "Try again later",
                "many images are being drawn; try again",
                headers={"Retry-After": str(_RETRY_AFTER_S)},
            ) from error
        return answer_image(request, image, CONTENT_TYPES[asked.options.format], headers=headers)


def _name_page(asked: _Asked) -> ImageOptions:
    page = asked.wanted.get("page")
    return (
        replace(asked.options, address=f"{format_moment(timezone.now())} · {page}") if page else asked.options
    )


class HistoryImage(ChartImage):
    """A history as an image."""

    parameters = HistoryImageParameters

    @_describe("draw_history", HistoryImageParameters)
    def get(self, request: Request, image_format: ImageFormat) -> HttpResponse:
        """Draw up to 12 series over time: runs, levels, changes, environment changes."""
        asked = self.read(request, image_format)
        wanted = asked.wanted
        metrics = wanted.get("metrics", ("iops",))
        if len(metrics) > PANELS_MAXIMUM:
            raise bad_parameter("metrics", f"{len(metrics)} metrics; an image has at most {PANELS_MAXIMUM}")
        chosen = choose_series(wanted["match"], ids=wanted.get("series"), metric=metrics[0])
        thresholds = read_own_thresholds(request, chosen, metrics=metrics)
        etag = make_history_etag(request, chosen, metrics=metrics, thresholds=thresholds)
        if is_known(request, etag):
            return answer_not_modified(etag)
        history = read_history(
            chosen,
            metrics=metrics,
            terms=() if "series" in wanted else wanted["match"].fact_terms,
            color=wanted.get("color"),
            from_at=wanted.get("from_at"),
            to_at=wanted.get("to_at"),
        )
        return self.answer(
            request,
            asked,
            lambda options: draw_history(
                history,
                chosen,
                options,
                filter=_write_selection(wanted),
                is_log=wanted.get("scale") == "log",
                thresholds=thresholds,
            ),
            headers={"ETag": etag},
        )


class PercentilesImage(ChartImage):
    """The percentiles of a series as an image."""

    parameters = PercentilesImageParameters

    @_describe("draw_percentiles", PercentilesImageParameters)
    def get(self, request: Request, image_format: ImageFormat) -> HttpResponse:
        """Draw p50 to p99.99 of a series over time."""
        asked = self.read(request, image_format)
        wanted = asked.wanted
        etag = make_etag(request, read_version(wanted["series"]))
        if is_known(request, etag):
            return answer_not_modified(etag)
        rows = read_rows([wanted["series"]], has_latest=False)
        if not rows:
            raise no_series(wanted["series"])
        fan = read_fan(
            rows[0].id, count=COLUMNS_DEFAULT, from_at=wanted.get("from_at"), to_at=wanted.get("to_at")
        )
        return self.answer(
            request, asked, lambda options: draw_percentiles(rows[0], fan, options), headers={"ETag": etag}
        )


class IncidentImage(ChartImage):
    """The evidence of an incident as an image."""

    parameters = IncidentImageParameters

    @_describe("draw_incident", IncidentImageParameters)
    def get(self, request: Request, image_format: ImageFormat) -> HttpResponse:
        """Draw the runs before and after the largest change of an incident, in its most affected series."""
        asked = self.read(request, image_format)
        found = read_incident(asked.wanted["incident"], limit=1)
        if found is None:
            raise not_found("incident", f"incident {asked.wanted['incident']} does not exist")
        sides = read_sides(found.largest) if found.largest else None
        return self.answer(
            request, asked, lambda options: draw_change(found.row.title, found.largest, sides, options)
        )


class ScalingImage(ChartImage):
    """A scaling chart as an image."""

    parameters = ScalingImageParameters

    @_describe("draw_scaling", ScalingImageParameters)
    def get(self, request: Request, image_format: ImageFormat) -> HttpResponse:
        """Draw metrics by one dimension: median and spread of each combination."""
        asked = self.read(request, image_format)
        chart = read_chart(make_request(asked.wanted))
        return self.answer(request, asked, lambda options: draw_chart(chart, options))


class MatrixImage(ChartImage):
    """The matrix as an image."""

    parameters = MatrixImageParameters

    @_describe("draw_matrix", MatrixImageParameters)
    def get(self, request: Request, image_format: ImageFormat) -> HttpResponse:
        """Draw the current level of each combination of a filter."""
        asked = self.read(request, image_format)
        matrix = read_asked_matrix(asked.wanted)
        return self.answer(request, asked, lambda options: draw_chart(matrix, options))


class ComparisonImage(ChartImage):
    """A comparison as an image."""

    parameters = ComparisonImageParameters

    @_describe("draw_comparison", ComparisonImageParameters)
    def get(self, request: Request, image_format: ImageFormat) -> HttpResponse:
        """Draw the ratio of B to A for each value that both sides have, with its interval."""
        asked = self.read(request, image_format)
        a, b, found = read_comparison(asked.wanted)
        common = write_filter(asked.wanted["match"])

        def draw(options: ImageOptions) -> bytes:
            names = (
                describe_side(a, found.scopes[0], found.labels[0]),
                describe_side(b, found.scopes[1], found.labels[1]),
            )
            return draw_comparison(found, names, options, common=common)

        return self.answer(request, asked, draw)


class LayoutsImage(ChartImage):
    """A ranking of layouts as an image."""

    parameters = LayoutsImageParameters

    @_describe("draw_layouts", LayoutsImageParameters)
    def get(self, request: Request, image_format: ImageFormat) -> HttpResponse:
        """Draw price over throughput of the ranked layouts; without prices the throughput."""
        asked = self.read(request, image_format)
        ranking = read_ranking(asked.wanted)
        return self.answer(request, asked, lambda options: draw_layouts(ranking, options))


class HostImage(ChartImage):
    """The levels of a host as an image."""

    parameters = HostImageParameters

    @_describe("draw_host", HostImageParameters)
    def get(self, request: Request, image_format: ImageFormat) -> HttpResponse:
        """Draw the levels of a host by pattern over some days, relative to the first of them."""
        asked = self.read(request, image_format)
        host = read_host(follow_name("host", asked.wanted["host"]))
        if host is None:
            raise no_host(asked.wanted["host"])
        days, span = (
            asked.wanted["days"],
            make_level_range(asked.wanted.get("from_at"), asked.wanted.get("to_at")),
        )
        patterns, days, _ = begin_with_runs(read_host_patterns(host, span=span, days=days), days)
        return self.answer(
            request, asked, lambda options: draw_host(host, patterns, options, days=days, span=span)
        )


def _write_selection(wanted: dict[str, Any]) -> str:
    """Return what selects the series of a history, as in its address."""
    if "series" in wanted:
        return f"series {', '.join(map(str, wanted['series']))}"
    selected: Filter = wanted["match"]
    return write_filter(selected)


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
    marks = read_series_marks(series_ids, metric=metric)
    regressed = [mark for mark in marks.values() if mark.is_worse_in(metric)]
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
