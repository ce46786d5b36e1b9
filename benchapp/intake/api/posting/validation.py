"""The answer to `validate=1`: what a submission would become."""

from collections.abc import Sequence
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta

from benchapp.fio.report import Note
from benchapp.framework.api.answers import PREFIX, ApiAnswer, Time
from benchapp.intake.api.documents import refuse_fault
from benchapp.intake.api.submissions import ReasonAnswer
from benchapp.intake.normalize.batch import Rejection
from benchapp.intake.normalize.preview import (
    COMPARED_MAXIMUM,
    FieldDifference,
    NearestSeries,
    Preview,
    PreviewMeasurement,
    PreviewRun,
    check_format_in_process,
    preview_incoming,
)
from benchapp.intake.posts.submissions import AcceptOutcome, AcceptResult, IncomingSubmission
from benchapp.models import DirectionName, Kind
from benchapp.series.read.shapes import BadgeRow, make_badges
from benchapp.series.read.titles import describe_target, describe_workload, name_scope


class NearestSeriesAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    workload_title: str
    target_title: str
    differences: Sequence[FieldDifference]
    url: str
    page: str


class ValidatedMeasurementAnswer(ApiAnswer, kw_only=True, frozen=True):
    is_new_series: bool
    series: Annotated[int | None, Meta(description="id of the series that it would join; null for a new one")]
    host: Annotated[str, Meta(description="host or pool of the series")]
    direction: DirectionName
    workload_title: str
    target_title: str
    error: Annotated[int, Meta(description="error of fio; not 0: it would not count")]
    badges: Sequence[BadgeRow]
    nearest: Annotated[
        NearestSeriesAnswer | None,
        Meta(description="for a new series the existing one with the fewest differences, which make it new"),
    ]


class ValidatedRunAnswer(ApiAnswer, kw_only=True, frozen=True):
    started_at: Time
    started_at_is_known: Annotated[
        bool, Meta(description="false: the time of receipt, as the output has no plausible time")
    ]
    profile: str
    fio_version: str
    error: int
    is_partial: bool
    warnings: Sequence[Note]
    measurements: Sequence[ValidatedMeasurementAnswer]


class ValidationAnswer(ApiAnswer, kw_only=True, frozen=True):
    """What a submission would become; nothing is stored."""

    id: UUID
    is_known: Annotated[bool, Meta(description="true: already received; posting it again changes nothing")]
    state: Annotated[Literal["stored", "rejected"], Meta(description="the state that it would get")]
    reason: ReasonAnswer | None
    runs: Sequence[ValidatedRunAnswer]
    new_series: Annotated[int, Meta(description="number of series that it would create")]
    not_compared: Annotated[
        int, Meta(description=f"new series beyond {COMPARED_MAXIMUM}, for which no nearest one is searched")
    ]


def describe_validation(submission: IncomingSubmission, known: AcceptResult) -> ValidationAnswer:
    """Return what a submission would become, or why it would be rejected; raises Problem 422 for no output of fio."""
    if submission.kind == Kind.FIO:
        refuse_fault(check_format_in_process(submission.body))
    outcome = preview_incoming(submission, known.id)
    reason = (
        ReasonAnswer(code=outcome.code, detail=outcome.reason) if isinstance(outcome, Rejection) else None
    )
    preview = Preview((), 0, 0) if isinstance(outcome, Rejection) else outcome
    return ValidationAnswer(
        id=known.id,
        is_known=known.outcome == AcceptOutcome.REPLAYED,
        state="rejected" if reason else "stored",
        reason=reason,
        runs=[_describe_run(run) for run in preview.runs],
        new_series=preview.new_series,
        not_compared=preview.not_compared,
    )


def _describe_run(run: PreviewRun) -> ValidatedRunAnswer:
    values = run.values
    return ValidatedRunAnswer(
        started_at=values["started_at"],
        started_at_is_known=values["started_at_is_known"],
        profile=values["profile"],
        fio_version=values["fio_version"],
        error=values["error"],
        is_partial=values["is_partial"],
        warnings=[Note(**note) for note in values["warnings"]],
        measurements=[_describe_measurement(each) for each in run.measurements],
    )


def _describe_measurement(measurement: PreviewMeasurement) -> ValidatedMeasurementAnswer:
    series, nearest = measurement.series, measurement.nearest
    return ValidatedMeasurementAnswer(
        is_new_series=series.pk is None,
        series=series.pk,
        host=name_scope(series.scope),
        direction=DirectionName(series.direction),
        workload_title=describe_workload(series, direction=series.direction),
        target_title=describe_target(series),
        error=measurement.values["error"],
        badges=make_badges(measurement.values["badges"]),
        nearest=_describe_nearest(nearest) if nearest else None,
    )


def _describe_nearest(nearest: NearestSeries) -> NearestSeriesAnswer:
    series = nearest.series
    return NearestSeriesAnswer(
        id=series.pk,
        workload_title=describe_workload(series, direction=series.direction),
        target_title=describe_target(series),
        differences=nearest.differences,
        url=f"{PREFIX}/series/{series.pk}",
        page=f"/series/{series.pk}/",
    )
