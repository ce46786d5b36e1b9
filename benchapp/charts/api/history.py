"""Histories of several series, downsampled if long."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NoReturn

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.dimensions import FACT_NAMES
from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.catalog.thresholds import COMPARISONS
from benchapp.charts.read.chart import ChartThreshold, list_chart_thresholds
from benchapp.charts.read.history import (
    BUCKETS_DEFAULT,
    IDS_MAXIMUM,
    LINES_MAXIMUM,
    POINTS_MAXIMUM,
    ChosenSeries,
    SeriesHistory,
    choose_series,
    read_history,
)
from benchapp.charts.read.history_rows import (
    BUCKET_COLUMNS,
    POINT_COLUMNS,
    HistoryColor,
    HistoryEvent,
    HistorySeries,
    history_batches,
    make_document,
    spread_columns,
)
from benchapp.framework.api.answers import (
    ERROR_MEANING,
    AnswerPage,
    ApiAnswer,
    MetricAnswer,
    MetricName,
    Time,
    define_answer,
    with_columns,
)
from benchapp.framework.api.lists import answer_stream
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    FormatParameters,
    IdsField,
    NamesField,
    SpanParameters,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead, find_person, read_api_token
from benchapp.framework.api.problems import Problem
from benchapp.framework.api.responses import (
    RowColumn,
    answer_json,
    answer_not_modified,
    is_known,
    list_kinds,
    make_etag,
    name_file,
    row_format,
)
from benchapp.framework.api.view import ApiView
from benchapp.incidents.read.changes import read_marks_version
from benchapp.incidents.read.maintenance import MARKS_MAXIMUM, read_planned_version
from benchapp.incidents.read.series_status import read_spreads_version
from benchapp.models import Scope
from benchapp.models.filtering import asks_for_series


class BucketColumns(ApiAnswer, kw_only=True, frozen=True):
    """What a bucket has beside its metrics."""

    from_at: Time
    to_at: Time
    n: Annotated[int, Meta(description="all runs in the bucket")]
    failed: Annotated[int, Meta(description="number of these runs; not part of the statistics")]
    excluded: Annotated[int, Meta(description="number of these runs; not part of the statistics")]
    doubtful: Annotated[int, Meta(description="number of runs with a data-quality badge")]


_SPREADS: Final[dict[str, Any]] = {
    name: (int if name.endswith(("_n", "_run")) else float) | None
    for metric in CATALOG
    for name in spread_columns(metric)
}


@with_columns(BucketColumns, optional=_SPREADS)
class BucketAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A bucket has the spread of each requested metric."""


BucketPage = define_answer(
    "BucketPage", AnswerPage, series=int, metrics=Sequence[MetricAnswer], buckets=Sequence[BucketAnswer]
)


@with_columns({"series": int}, BucketColumns, optional=_SPREADS | {"color": str | None})
class HistoryBucketAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A bucket has the spread of each requested metric."""


class HistoryPointColumns(ApiAnswer, kw_only=True, frozen=True):
    """What a point has beside its metrics."""

    series: int
    run: int
    started_at: Time
    error: Annotated[int, Meta(description=ERROR_MEANING)]
    is_excluded: Annotated[bool, Meta(description="the run is excluded from medians")]
    badges: Annotated[Sequence[str], Meta(description="codes of what speaks against it")]


@with_columns(HistoryPointColumns, optional=dict.fromkeys(CATALOG, float | None) | {"color": str | None})
class HistoryPointAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A point has the requested metrics."""


class ThresholdViolationMarkAnswer(ApiAnswer, kw_only=True, frozen=True):
    series: int
    since_at: Annotated[Time, Meta(description="start of the first run of the violation")]


class ThresholdMarkAnswer(ApiAnswer, kw_only=True, frozen=True):
    text: str
    metric: MetricName
    comparison: Annotated[str, Meta(extra_json_schema={"enum": list(COMPARISONS)})]
    value: Annotated[float, Meta(description="in the base unit of the metric")]
    series: Annotated[Sequence[int], Meta(description="ids of the lines that it concerns")]
    violated: Annotated[Sequence[ThresholdViolationMarkAnswer], Meta(description="lines that violate it now")]


class HistoryAnswer(ApiAnswer, kw_only=True, frozen=True):
    metrics: Sequence[MetricAnswer]
    lines: Sequence[HistorySeries]
    lines_left_out: Annotated[
        int, Meta(description="matching series that are not included; counted up to 1 000")
    ]
    resolution: Annotated[
        int | None, Meta(description="`buckets` of all series together; null: `points`, every run")
    ]
    newest_of_each: Annotated[
        int | None,
        Meta(
            description="set if the time range has more than 240 000 runs: the newest runs included per series"
        ),
    ]
    color: Annotated[HistoryColor | None, Meta(description="the requested fact of the environment")]
    hidden: Annotated[int, Meta(description="runs in the time range that the facts of runs in `q` exclude")]
    planned_events: Annotated[
        Sequence[HistoryEvent],
        Meta(description="maintenance, expected changes and notes of the time range, latest start first"),
    ]
    planned_events_left_out: Annotated[
        int, Meta(description=f"of the time range, older than the newest {MARKS_MAXIMUM}; of any series")
    ]
    thresholds: Annotated[
        Sequence[ThresholdMarkAnswer], Meta(description="of the reader's own subscriptions, of these metrics")
    ]
    points: Sequence[HistoryPointAnswer]
    buckets: Annotated[
        Sequence[HistoryBucketAnswer],
        Meta(description="with `resolution`; days whose points a retention removed are buckets in any case"),
    ]
    daily_to_at: Annotated[
        Time | None, Meta(description="end of the newest of these days; CSV and NDJSON leave them out")
    ]


def describe_buckets(rows: Sequence[Mapping[str, Any]]) -> list[BucketAnswer]:
    """Return the buckets of one series."""
    return [BucketAnswer(**row) for row in rows]


_BUCKETS_MAXIMUM: Final = 10_000
# Of one document: 20 MB, and a few times as much memory.
JSON_POINTS_MAXIMUM: Final = 50_000


class ResolutionField(serializers.CharField):
    """A number of buckets, or auto."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)

    def to_internal_value(self, data: Any) -> int | Literal["auto"]:  # type: ignore[override]
        """Return the number, or "auto"."""
        text = super().to_internal_value(data)
        if text == "auto":
            return "auto"
        if text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= _BUCKETS_MAXIMUM:
            return int(text)
        raise serializers.ValidationError(
            f"{text[:40]!r} is neither auto nor a number from 1 to {_BUCKETS_MAXIMUM}"
        )


class HistoryParameters(FilterParameters, SpanParameters, FormatParameters):
    """Series, metrics and time range of a history; without ids or a filter six series, the worst first."""

    series = IdsField(IDS_MAXIMUM, help_text="ids of series, separated by commas; default: selected by `q`")
    metrics = NamesField(tuple(CATALOG), help_text="metrics, separated by commas; default: iops")
    color = ChoiceParameter(
        choices=FACT_NAMES,
        required=False,
        help_text="a fact of the environment: each point has its value, in the column `color`",
    )
    resolution = ResolutionField(
        help_text=f"1 to {_BUCKETS_MAXIMUM} `buckets` of all series together instead of `points`;"
        f" auto: {BUCKETS_DEFAULT} where the series have more than {POINTS_MAXIMUM} points; default: points"
    )


class Histories(ApiView):
    """Several series over time."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="compare_histories",
        parameters=[HistoryParameters],
        responses=in_formats(HistoryAnswer, "the same rows, without the rest"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Read up to 12 series over time: points, or buckets with `resolution`, levels, environment changes."""
        wanted = read_parameters(request, HistoryParameters)
        metrics = wanted.get("metrics", ("iops",))
        chosen = choose_series(wanted["match"], ids=wanted.get("series"), metric=metrics[0])
        thresholds = read_own_thresholds(request, chosen, metrics=metrics)
        etag = make_history_etag(request, chosen, metrics=metrics, thresholds=thresholds)
        if is_known(request, etag):
            return answer_not_modified(etag)
        history = read_history(
            chosen,
            metrics=metrics,
            from_at=wanted.get("from_at"),
            to_at=wanted.get("to_at"),
            resolution=wanted.get("resolution"),
            terms=() if "series" in wanted else wanted["match"].fact_terms,
            color=wanted.get("color"),
        )
        if wanted["format"] != "json":
            _refuse_incomplete(
                chosen, history, is_chosen="series" in wanted or asks_for_series(wanted["match"])
            )
            filter = "" if "series" in wanted else write_filter(wanted["match"])
            return _answer_lines(
                request, history, thresholds, answer_format=wanted["format"], etag=etag, filter=filter
            )
        _refuse_too_long(history)
        return answer_json(request, make_answer(history, chosen, thresholds), headers={"ETag": etag})


def make_answer(
    history: SeriesHistory, chosen: ChosenSeries, thresholds: Sequence[ChartThreshold]
) -> HistoryAnswer:
    """Return the document that charts of pages are drawn from, too."""
    return HistoryAnswer(
        **make_document(history, chosen), thresholds=list(map(_describe_threshold, thresholds))
    )


def read_own_thresholds(
    request: Request, chosen: ChosenSeries, *, metrics: Sequence[str]
) -> list[ChartThreshold]:
    """Return the thresholds of the reader's own subscriptions for a chart; queries as of `list_chart_thresholds`.

    A token has those of its owner if it may read the owner's subscriptions.
    """
    return list_chart_thresholds(_find_owner(request), [row.id for row in chosen.rows], metrics)


def _find_owner(request: Request) -> int | None:
    """Return the id of the user whose subscriptions the reader may read; None without one."""
    token = read_api_token(request)
    person = find_person(request) if token is None or token.scope == Scope.ADMIN else None
    return None if person is None else person.pk


def make_history_etag(
    request: Request,
    chosen: ChosenSeries,
    *,
    metrics: Sequence[str],
    thresholds: Sequence[ChartThreshold],
) -> str:
    """Return the ETag of a history: its points, levels, changes, increases in spread, planned events, thresholds.

    Three queries.
    """
    ids = [row.id for row in chosen.rows]
    marks = read_marks_version(ids, metrics=metrics)
    parts = (chosen.version, marks, read_spreads_version(ids), read_planned_version())
    # The title counts all series that got worse.
    return make_etag(request, "\n".join((*parts, *map(repr, (*thresholds, *chosen.worse)))))


def _describe_threshold(found: ChartThreshold) -> ThresholdMarkAnswer:
    threshold = found.threshold
    return ThresholdMarkAnswer(
        text=threshold.text,
        metric=threshold.metric,
        comparison=threshold.comparison,
        value=threshold.limit,
        series=found.series_ids,
        violated=[
            ThresholdViolationMarkAnswer(series=series_id, since_at=since_at)
            for series_id, since_at in sorted(found.violated.items())
        ],
    )


def _refuse_incomplete(chosen: ChosenSeries, history: SeriesHistory, *, is_chosen: bool) -> None:
    """Raise Problem 400 if rows alone could not say that series or runs are missing; JSON has fields for that.

    is_chosen: series were asked for; without, the worst ones are meant.
    """
    found = f"{chosen.total}{' or more' if chosen.has_more else ''} series match"
    if is_chosen and chosen.left_out:
        _refuse(f"{found}; at most {LINES_MAXIMUM} fit into one history", "series")
    if history.newest is not None:
        _refuse(f"the time range has too many runs; only the newest {history.newest} of each fit", "from")


def _refuse_too_long(history: SeriesHistory) -> None:
    """Raise Problem 400 for more points than one JSON document has."""
    if history.resolution is None and history.run_count > JSON_POINTS_MAXIMUM:
        _refuse(
            f"{history.run_count} runs; JSON has at most {JSON_POINTS_MAXIMUM} points. Set resolution, or take CSV",
            "resolution",
        )


def _refuse(detail: str, pointer: str) -> NoReturn:
    raise Problem(
        400,
        "parameter-invalid",
        "Incomplete list",
        f"{detail}, choose fewer, or use /api/v1/points, which has no limit",
        pointer=pointer,
    )


def _join_texts(thresholds: Sequence[ChartThreshold], series_id: int) -> str:
    return "; ".join(each.threshold.text for each in thresholds if series_id in each.series_ids)


def _answer_lines(
    request: Request,
    history: SeriesHistory,
    thresholds: Sequence[ChartThreshold],
    *,
    answer_format: str,
    etag: str,
    filter: str,
) -> HttpResponseBase:
    """Return points or buckets as lines; those of CSV name host or pool, series, filter and thresholds, too."""
    kind: type[ApiAnswer] = HistoryPointAnswer if history.resolution is None else HistoryBucketAnswer
    if history.resolution is None:
        columns = [*POINT_COLUMNS, *history.metrics]
    else:
        columns = [*BUCKET_COLUMNS, *(name for metric in history.metrics for name in spread_columns(metric))]
    columns = ["series", *columns, *(("color",) if history.colors else ())]
    kinds = list_kinds(kind)
    content_type, write = row_format("csv" if answer_format == "csv" else "ndjson", name="history")
    context: dict[int, tuple[str, ...]] = {line.row.id: () for line in history.lines}
    more: list[RowColumn] = []
    if answer_format == "csv":
        context = {
            line.row.id: (line.row.scope_name, line.row.title, filter, _join_texts(thresholds, line.row.id))
            for line in history.lines
        }
        more = [RowColumn(name, "text") for name in ("scope", "title", "filter", "thresholds")]
    batches = (
        [(*map(row.get, columns), *context[row["series"]]) for row in batch]
        for batch in history_batches(history)
    )
    return answer_stream(
        request,
        write([*(RowColumn(column, kinds[column]) for column in columns), *more], batches),
        content_type=content_type,
        headers={"ETag": etag, **name_file("history", answer_format)},
    )
