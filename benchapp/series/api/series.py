"""Series: the list and one; dimensions and their values, which filters consist of."""

from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.dimensions import (
    ALIASES,
    FILTER_DIMENSIONS,
    LABEL_PREFIX,
    Dimension,
    DimensionGroup,
    DimensionKind,
    find_filter_dimension,
    list_examples,
)
from benchapp.catalog.grammar import write_filter, write_value
from benchapp.catalog.metrics import CATALOG
from benchapp.charts.texts.levels import describe_level_range
from benchapp.framework.api.answers import (
    PREFIX,
    AnswerPage,
    ApiAnswer,
    ChosenColumns,
    Time,
    build,
    define_answer,
    list_columns,
    with_columns,
)
from benchapp.framework.api.lists import answer_list, take_page_request
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    PageParameters,
    SpanParameters,
    badge_parameter,
    read_parameters,
    refuse_parameters,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.problems import Problem, not_found
from benchapp.framework.api.responses import answer_json, answer_not_modified, is_known, make_etag
from benchapp.framework.api.view import ApiView
from benchapp.incidents.read.series_status import (
    DetectionStatusRow,
    StoredSpreadIncrease,
    StoredTwoStates,
    list_variability,
)
from benchapp.models import DirectionName
from benchapp.series.read.dimension_values import list_label_names, read_facet
from benchapp.series.read.levels import MainLevel
from benchapp.series.read.selected_levels import NOW, LevelRange, make_level_range, read_main_levels
from benchapp.series.read.series import (
    SeriesRow,
    list_series,
    read_relatives,
    read_rows,
    read_series,
    read_series_version,
)
from benchapp.series.read.shapes import TargetRow, WorkloadRow
from benchapp.series.read.titles import describe_value


class SeriesColumns(ApiAnswer, kw_only=True, frozen=True):
    """What a series has before its workload and target."""

    id: int
    title: str
    scope: str
    host: str | None
    pool: str | None
    direction: DirectionName
    measurement_count: int
    first_at: Time
    last_at: Time
    badges: Annotated[
        Sequence[str], Meta(description="codes that its newest measurement bears, most severe first")
    ]


@with_columns(SeriesColumns, WorkloadRow, TargetRow)
class SeriesRowAnswer(ChosenColumns, kw_only=True, frozen=True):
    level_metric: Annotated[
        str | None, Meta(description="main metric: iops, or elapsed_s; null: no valid run has a value")
    ]
    level_median: Annotated[float | None, Meta(description="of the current level, in the metric's base unit")]
    level_p10: Annotated[float | None, Meta(description="10th percentile of the current level")]
    level_p90: float | None
    level_n: Annotated[int | None, Meta(description="runs of the current level")]
    level_from_at: Annotated[Time | None, Meta(description="start of its first run")]
    previous_level_median: Annotated[float | None, Meta(description="null: the current level is the first")]
    previous_level_until_at: Annotated[Time | None, Meta(description="start of its last run")]
    last_run_id: int | None
    last_error: int | None
    last_iops: float | None
    last_bandwidth_bytes_per_s: float | None
    last_latency_p99_ns: float | None
    url: str
    page: str


class SiblingAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    direction: DirectionName
    url: str


class VariabilityAnswer(ApiAnswer, kw_only=True, frozen=True):
    metric: str
    spread_increase: StoredSpreadIncrease | None
    two_states: StoredTwoStates | None


@with_columns(SeriesRowAnswer)
class SeriesDetailAnswer(ApiAnswer, kw_only=True, frozen=True):
    workload_title: str
    target_title: str
    hosts: Sequence[str]
    siblings: Sequence[SiblingAnswer]
    variability: Annotated[
        Sequence[VariabilityAnswer],
        Meta(description="metrics whose standard deviation increased, or with two states"),
    ]
    points: str


SeriesPage = define_answer("SeriesPage", AnswerPage, series=Sequence[SeriesRowAnswer])
SERIES_COLUMNS: Final = list_columns(SeriesRowAnswer)


class SeriesParameters(FilterParameters, SpanParameters, PageParameters):
    """Filters of series. The range is that of their levels (`LevelRange`)."""

    columns = SERIES_COLUMNS
    badge = badge_parameter("series whose newest measurement bears any of these badges, separated by commas")
    sort = ChoiceParameter(choices=("-last_at", "last_at"), required=False, default="-last_at")


class SeriesList(ApiView):
    """All series."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_series",
        parameters=[SeriesParameters],
        responses=in_formats(SeriesPage, "the same rows, without the rest"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List series with measurements, most recent run first."""
        wanted = read_parameters(request, SeriesParameters)
        page = take_page_request(wanted)
        wanted["oldest_first"] = wanted.pop("sort") == "last_at"
        wanted["span"] = span = make_level_range(wanted.pop("from_at", None), wanted.pop("to_at", None))
        return answer_list(
            request,
            SeriesPage,
            SeriesRowAnswer,
            page=page,
            read=lambda after, limit: list_series(**wanted, after=after, limit=limit),
            describe=lambda rows: _describe_rows(rows, span),
            name="series",
            context={
                "level_unit": lambda row: row.level_metric and CATALOG[row.level_metric].unit,
                "filter": write_filter(wanted["match"]),
                "range": describe_level_range(span),
            },
        )


class OneSeries(ApiView):
    """One series."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="read_series", responses=SeriesDetailAnswer)
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """Read one series."""
        refuse_parameters(request)
        found = list_variability([series_id]).get(series_id, ())
        # Runs are evaluated after they are stored, which is the version of the series.
        version = [(row.metric, row.spread_increase, row.two_states) for row in found]
        etag = make_etag(request, f"{read_version(series_id)} {version}")
        if is_known(request, etag):
            return answer_not_modified(etag)
        series = read_series(series_id)
        if series is None:
            raise no_series(series_id)
        return answer_json(request, _describe_series(series, found), headers={"ETag": etag})


def _describe_rows(rows: Sequence[SeriesRow], span: LevelRange = NOW) -> list[SeriesRowAnswer]:
    levels = read_main_levels([row.id for row in rows], span=span)
    return [_describe_row(row, levels.get(row.id)) for row in rows]


def _describe_row(series: SeriesRow, main: MainLevel | None) -> SeriesRowAnswer:
    level = main.level if main else None
    previous = level.previous if level else None
    last = ("run_id", "error", "iops", "bandwidth_bytes_per_s", "latency_p99_ns")
    return build(
        SeriesRowAnswer,
        series,
        series.workload,
        series.target,
        host=None if series.is_pool else series.scope_name,
        pool=series.scope_name if series.is_pool else None,
        url=f"{PREFIX}/series/{series.id}",
        page=f"/series/{series.id}/",
        level_metric=main.metric.name if main else None,
        level_median=level.median if level else None,
        level_p10=level.p10 if level else None,
        level_p90=level.p90 if level else None,
        level_n=level.n if level else None,
        level_from_at=level.from_at if level else None,
        previous_level_median=previous.median if previous else None,
        previous_level_until_at=previous.until_at if previous else None,
        **{f"last_{name}": getattr(series.latest, name, None) for name in last},
    )


def _describe_series(series: SeriesRow, variability: Sequence[DetectionStatusRow]) -> SeriesDetailAnswer:
    (row,) = _describe_rows([series])
    hosts, siblings = read_relatives(series)
    return build(
        SeriesDetailAnswer,
        row,
        series,
        hosts=hosts,
        siblings=[
            SiblingAnswer(id=key, direction=DirectionName(direction), url=f"{PREFIX}/series/{key}")
            for key, direction in siblings.items()
        ],
        variability=list(map(_describe_variability, variability)),
        points=f"{row.url}/points",
    )


def _describe_variability(row: DetectionStatusRow) -> VariabilityAnswer:
    increase, states = row.spread_increase, row.two_states
    return VariabilityAnswer(
        metric=row.metric,
        spread_increase=increase if increase else None,
        two_states=states if states else None,
    )


def read_version(series_id: int) -> str:
    """Return the version of a series, for its ETag; Problem 404 if there is none."""
    version = read_series_version(series_id)
    if version is None:
        raise no_series(series_id)
    return version


def make_series_context(series_id: int, answer_format: str) -> dict[str, str]:
    """Return the columns that name the series in a CSV of it; one query, for other formats none."""
    if answer_format != "csv":
        return {}
    rows = read_rows([series_id], has_latest=False)
    return {
        "series": str(series_id),
        **({"scope": rows[0].scope_name, "title": rows[0].title} if rows else {}),
    }


def no_series(series_id: int) -> Problem:
    """Return the problem for an unknown series."""
    return not_found("series", f"series {series_id} does not exist")


class DimensionValueParameters(FilterParameters):
    """Selection of values."""

    prefix = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        trim_whitespace=False,
        max_length=500,
        help_text="prefix of the value",
    )
    limit = serializers.IntegerField(
        required=False,
        default=20,
        min_value=1,
        max_value=200,
        help_text="number of values, most frequent first",
    )


class DimensionAnswer(ApiAnswer, kw_only=True, frozen=True):
    name: str
    label: str
    kind: DimensionKind
    group: Annotated[
        DimensionGroup, Meta(description="environment, run: a fact of runs, not a property of series")
    ]
    short: Annotated[str, Meta(description="shortest name in the filter language")]
    aliases: Annotated[Sequence[str], Meta(description="other names in the filter language")]
    examples: Annotated[Sequence[str], Meta(description="terms in the filter language")]
    values: Annotated[str, Meta(description="URL of its values")]


DimensionList = define_answer("DimensionList", dimensions=Sequence[DimensionAnswer])


class DimensionValueAnswer(ApiAnswer, kw_only=True, frozen=True):
    value: Annotated[Any, Meta(description="text, number or boolean; null is unknown")]
    text: Annotated[str, Meta(description="the value in the filter language")]
    label: str
    series: Annotated[
        int | None,
        Meta(description="series with this value that match the rest of the filter; null of the group run"),
    ]
    runs: Annotated[
        int | None,
        Meta(description="of the group run: runs with this value among the newest 10 000 that match"),
    ]
    is_chosen: Annotated[bool, Meta(description="the filter contains this value")]
    q: Annotated[str, Meta(description="the filter with this value for the dimension")]


class DimensionValues(ApiAnswer, kw_only=True, frozen=True):
    dimension: str
    values: Sequence[DimensionValueAnswer]
    count: Annotated[
        int,
        Meta(
            description="total number of values, at most 1 000; of the group run those of the runs that were counted"
        ),
    ]
    is_cut: Annotated[bool, Meta(description="more values exist than `values` contains")]
    is_partial: Annotated[bool, Meta(description="more runs match than the 10 000 that were counted")]


class Dimensions(ApiView):
    """All dimensions."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="list_dimensions", responses=DimensionList)
    def get(self, request: Request) -> HttpResponse:
        """List the dimensions of filters, axes and comparisons, and the 500 most frequent labels of the newest runs."""
        refuse_parameters(request)
        labels = (find_filter_dimension(f"{LABEL_PREFIX}{name}") for name in list_label_names())
        # Without those whose name cannot be in a filter.
        named = [*FILTER_DIMENSIONS.values(), *(label for label in labels if label is not None)]
        return answer_json(request, DimensionList(dimensions=list(map(_describe, named))))


class Values(ApiView):
    """The values of one dimension."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_dimension_values", parameters=[DimensionValueParameters], responses=DimensionValues
    )
    def get(self, request: Request, dimension_name: str) -> HttpResponse:
        """List the values of a dimension with their number of series; of profiles, sweeps and labels of runs."""
        dimension = find_filter_dimension(dimension_name)
        if dimension is None:
            available = ", ".join([*FILTER_DIMENSIONS, "label.NAME"])
            raise not_found(
                "dimension",
                f"{dimension_name[:80]!r} is not a valid dimension. Available: {available}",
            )
        wanted = read_parameters(request, DimensionValueParameters)
        filter = wanted["match"]
        facet = read_facet(dimension, filter, prefix=wanted["prefix"], limit=wanted["limit"])
        values = [
            build(
                DimensionValueAnswer,
                one,
                text=write_value(dimension, one.value),
                label=describe_value(dimension.name, one.value),
                series=one.series_count,
                runs=one.run_count,
                q=write_filter(filter.with_value(dimension.name, one.value)),
            )
            for one in facet.values
        ]
        body = DimensionValues(
            dimension=dimension.name,
            values=values,
            count=facet.value_count,
            is_cut=facet.value_count > len(values),
            is_partial=facet.is_partial,
        )
        return answer_json(request, body)


def _describe(dimension: Dimension) -> DimensionAnswer:
    aliases = [alias for alias, name in ALIASES.items() if name == dimension.name]
    short = min((dimension.name, *aliases), key=len)
    return build(
        DimensionAnswer,
        dimension,
        short=short,
        aliases=aliases,
        examples=[f"{short}:{example}" for example in list_examples(dimension)],
        values=f"{PREFIX}/dimensions/{quote(dimension.name)}/values",
    )
