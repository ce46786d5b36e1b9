"""The snapshot of a study: take it, read it, delete it."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Protocol

from django.http import HttpRequest, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.charts.images.frame import CONTENT_TYPES, THEMES, TooManyDrawings
from benchapp.framework.api.answers import PREFIX, ApiAnswer, Time, build
from benchapp.framework.api.parameters import ChoiceParameter, Parameters, read_parameters, refuse_parameters
from benchapp.framework.api.permissions import MayRead, MayReadOrEdit, find_person
from benchapp.framework.api.problems import Problem, not_found
from benchapp.framework.api.responses import answer_image, answer_json
from benchapp.framework.api.view import ApiView
from benchapp.models import FrozenPanel, PanelKind, Study
from benchapp.reports.api.studies import check_mine, find_study
from benchapp.reports.read.studies import read_snapshot_image, read_study
from benchapp.reports.write.studies import StudyChanged, remove_snapshot, store_snapshot


class SnapshotChartAnswer(ApiAnswer, kw_only=True, frozen=True):
    place: Annotated[int, Meta(description="in the snapshot, from 1")]
    kind: PanelKind
    query: Annotated[str, Meta(description="query string of the chart's page")]
    title: Annotated[str, Meta(description="automatic title, which states the finding")]
    content: Annotated[str, Meta(description="summary and data table as HTML, sanitized")]
    width: Annotated[int, Meta(description="of the image, in CSS pixels")]
    height: int
    image: Annotated[str, Meta(description="its address; `theme=dark` for the dark one")]


class SnapshotAnswer(ApiAnswer, kw_only=True, frozen=True):
    study: int
    taken_at: Time
    taken_by: str | None
    charts: Annotated[
        Sequence[SnapshotChartAnswer], Meta(description="those that the study still has, in its order")
    ]
    url: str
    page: str


class SnapshotImageParameters(Parameters):
    """The theme of an image."""

    theme = ChoiceParameter(choices=THEMES, required=False, default="light")


class PanelFreezer(Protocol):
    """What draws the charts of a study with their current numbers."""

    def __call__(self, request: HttpRequest, study: Study) -> Sequence[FrozenPanel]:
        """Return the charts; raises TooManyDrawings."""


class StudySnapshotView(ApiView):
    """The snapshot of a study."""

    permission_classes = [MayReadOrEdit]
    # Pages draw a snapshot with their templates, which this layer does not import: benchapp/urls.py sets it.
    freeze: ClassVar[PanelFreezer | None] = None

    @extend_schema(operation_id="read_study_snapshot", responses=SnapshotAnswer)
    def get(self, request: Request, study_id: int) -> HttpResponse:
        """Read the snapshot of a study: each chart with the numbers of its moment."""
        refuse_parameters(request)
        return answer_json(request, _describe(find_study(study_id)))

    @extend_schema(operation_id="take_study_snapshot", request=None, responses={201: SnapshotAnswer})
    def post(self, request: Request, study_id: int) -> Response:
        """Store the charts of a study with their current numbers, in place of an earlier snapshot."""
        refuse_parameters(request)
        study = find_study(study_id)
        check_mine(request, study)
        if self.freeze is None:
            raise TypeError("benchapp.urls sets StudySnapshotView.freeze; it is not loaded")
        try:
            store_snapshot(study_id, self.freeze(request._request, study), by=find_person(request))
        except TooManyDrawings as error:
            detail = "many charts are being drawn: no snapshot was taken; try again"
            raise Problem(503, "busy", "Try again later", detail, headers={"Retry-After": "5"}) from error
        except StudyChanged as error:
            raise not_found("study", error) from error
        body = _describe(find_study(study_id))
        return Response(body, status=201, headers={"Location": body.url})

    @extend_schema(operation_id="delete_study_snapshot", responses={204: None})
    def delete(self, request: Request, study_id: int) -> Response:
        """Delete the snapshot of a study, which shows current data again."""
        refuse_parameters(request)
        check_mine(request, find_study(study_id))
        if not remove_snapshot(study_id):
            raise _no_snapshot(study_id)
        return Response(status=204)


class StudySnapshotImageView(ApiView):
    """A chart of a snapshot."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_study_snapshot_image",
        parameters=[SnapshotImageParameters],
        responses={(200, CONTENT_TYPES["png"]): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, study_id: int, place: int) -> HttpResponse:
        """Read a chart of the snapshot of a study as PNG."""
        wanted = read_parameters(request, SnapshotImageParameters)
        content = read_snapshot_image(read_study(study_id), place, wanted["theme"])
        if content is None:
            detail = f"study {study_id} has no snapshot with a chart {place}"
            raise not_found("chart", detail)
        return answer_image(request, content, CONTENT_TYPES["png"])


def _no_snapshot(study_id: int) -> Problem:
    return not_found("snapshot", f"study {study_id} has no snapshot: it shows current data")


def _describe(study: Study) -> SnapshotAnswer:
    snapshot = study.taken_snapshot
    if snapshot is None:
        raise _no_snapshot(study.pk)
    url = f"{PREFIX}/studies/{study.pk}/snapshot"
    return SnapshotAnswer(
        study=study.pk,
        taken_at=snapshot.taken_at,
        taken_by=snapshot.taken_by_name or None,
        charts=[
            build(SnapshotChartAnswer, chart, image=f"{url}/charts/{chart.place}")
            for chart in study.frozen_charts
            if chart is not None
        ],
        url=url,
        page=f"/studies/{study.pk}/",
    )
