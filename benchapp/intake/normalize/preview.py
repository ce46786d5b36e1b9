"""What a submission would become: its runs, their series, and of a new series what makes it new. Stores nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from uuid import UUID

from django.utils import timezone
from msgspec import Meta

from benchapp.intake.normalize.batch import Rejection, plan_all, plan_or_reject
from benchapp.intake.normalize.parsing_process import ParsingFailed, call_in_process
from benchapp.intake.normalize.plan import Plan, PlannedMeasurement, PlannedRun
from benchapp.intake.normalize.sender_context import SubmissionSource
from benchapp.intake.normalize.series_lookup import find_series, list_planned
from benchapp.intake.posts.format_check import Fault, check_format_quickly
from benchapp.intake.posts.submissions import IncomingSubmission
from benchapp.models import TARGET_FIELDS, WORKLOAD_FIELDS, Host, Series
from benchapp.storage.read.hosts import read_name_mappings

# Existing series that a new one is compared with, those with the newest runs; comparing takes 10 µs each.
_CANDIDATES_MAXIMUM: Final = 500
# New series that are compared. An output with more is a first one: nothing of it exists.
COMPARED_MAXIMUM: Final = 100
_FIELDS: Final = (*TARGET_FIELDS, *WORKLOAD_FIELDS)


_Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field of layout or workload that differs."""

    field: Annotated[str, Meta(description="field of the layout or workload; options as options.NAME")]
    value: Annotated[_Value, Meta(description="of the submission; null is unknown or not given")]
    nearest: Annotated[_Value, Meta(description="of the nearest series")]


@dataclass(frozen=True, slots=True)
class NearestSeries:
    """The existing series of the same host or pool and direction with the fewest differences."""

    series: Series
    differences: tuple[FieldDifference, ...]


@dataclass(frozen=True, slots=True)
class PreviewMeasurement:
    """A measurement. series: the stored one, or one without a primary key; nearest: of a new one, None without any."""

    series: Series
    values: Mapping[str, Any]
    nearest: NearestSeries | None


@dataclass(frozen=True, slots=True)
class Preview:
    """The runs of a submission: the values of the row and the measurements; and how many series it would create.

    not_compared: those beyond COMPARED_MAXIMUM, for which no nearest one is searched.
    """

    runs: tuple[tuple[Mapping[str, Any], tuple[PreviewMeasurement, ...]], ...]
    new_series: int
    not_compared: int


def check_format_in_process(output: bytes) -> Fault | None:
    """Return what `check_format_quickly` does; None if it took too long, which the preview then gives as the reason."""
    try:
        return call_in_process(check_format_quickly, output)
    except ParsingFailed:
        return None


def preview_incoming(submission: IncomingSubmission, submission_id: UUID) -> Preview | Rejection:
    """Return what a submission that is not stored would write, or why it would be rejected; received now."""
    host = Host.objects.get(pk=submission.host_id)
    return preview_submission(
        SubmissionSource(
            submission_id=submission_id,
            host_id=host.pk,
            scope=host.scope,
            kind=submission.kind,
            body=submission.body,
            parameters=submission.parameters or {},
            received_at=timezone.now(),
            mappings=read_name_mappings([host])[host.pk],
        )
    )


def _plan_in_process(source: SubmissionSource) -> Plan | Rejection:
    """Plan as `plan_or_reject`, in another process within the time limit of a worker."""
    try:
        return call_in_process(plan_or_reject, source)
    except ParsingFailed as error:
        return Rejection(source.submission_id, error.code, f"{error}: split the result")


def plan_all_in_process(sources: Sequence[SubmissionSource]) -> list[Plan | Rejection]:
    """Plan as `plan_all`, in another process; each in another one if that takes too long."""
    try:
        return call_in_process(plan_all, sources)
    except ParsingFailed:
        return [_plan_in_process(source) for source in sources]


def preview_submission(source: SubmissionSource) -> Preview | Rejection:
    """Return what storing a submission would write, or why it would be rejected; two queries and one per direction."""
    plan = _plan_in_process(source)
    if isinstance(plan, Rejection):
        return plan
    planned = list_planned([plan])
    found = find_series(planned)
    rows = Series.objects.in_bulk({*found.ids.values(), *found.continued.values()})
    known = {key: rows[series_id] for key in planned if (series_id := found.find(key)) is not None}
    new = {key: _make_series(*planned[key]) for key in planned if key not in known}
    compared = dict(list(new.items())[:COMPARED_MAXIMUM])
    nearest = _find_nearest(source.scope, compared)
    runs = tuple(
        (
            run.values,
            tuple(
                PreviewMeasurement(
                    known.get(each.series_key) or new[each.series_key],
                    each.values,
                    nearest.get(each.series_key),
                )
                for each in run.measurements
            ),
        )
        for run in plan.runs
    )
    return Preview(runs, len(new), len(new) - len(compared))


def _make_series(run: PlannedRun, measurement: PlannedMeasurement) -> Series:
    return Series(
        scope=run.source.scope,
        direction=measurement.direction,
        **{field: measurement.target.fields[field] for field in TARGET_FIELDS},
        **{field: measurement.workload[field] for field in WORKLOAD_FIELDS},
    )


def _find_nearest(scope: str, new: Mapping[bytes, Series]) -> dict[bytes, NearestSeries]:
    directions = sorted({series.direction for series in new.values()})
    candidates = {direction: _read_candidates(scope, direction) for direction in directions}
    found = {}
    for key, series in new.items():
        compared = [
            NearestSeries(candidate, tuple(_list_differences(series, candidate)))
            for candidate in candidates[series.direction]
        ]
        if compared:
            # The first of equals has the newest runs.
            found[key] = min(compared, key=lambda each: len(each.differences))
    return found


def _read_candidates(scope: str, direction: str) -> Sequence[Series]:
    series = Series.objects.filter(scope=scope, direction=direction, measurement_count__gt=0)
    return list(series.order_by("-last_at", "-id")[:_CANDIDATES_MAXIMUM])


def _list_differences(series: Series, candidate: Series) -> Iterator[FieldDifference]:
    for field in _FIELDS:
        own, other = getattr(series, field), getattr(candidate, field)
        if own == other:
            continue
        if field != "options":
            yield FieldDifference(field, own, other)
            continue
        for name in sorted({*own, *other}):
            if own.get(name) != other.get(name):
                yield FieldDifference(f"options.{name}", own.get(name), other.get(name))
