"""Reports and their shared snapshots."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Protocol

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.charts.images.frame import CONTENT_TYPES, THEMES, TooManyDrawings
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
from benchapp.framework.api.list_entries import list_given
from benchapp.framework.api.lists import answer_list, take_page_request
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    PageParameters,
    Parameters,
    read_parameters,
    refuse_parameters,
    take_oldest_first,
    time_order_parameter,
)
from benchapp.framework.api.permissions import MayRead, MayReadOrEdit, find_person, read_api_token
from benchapp.framework.api.problems import ErrorProblems, Problem, bad_value, map_errors, not_found
from benchapp.framework.api.responses import answer_image, answer_json
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.write.conflicts import BadValue
from benchapp.layouts.read.question import check_question
from benchapp.models import FrozenPanel, PanelKind, Role, Study
from benchapp.reports.read import list_studies, read_snapshot_image, read_study
from benchapp.reports.write import (
    PANELS_MAXIMUM,
    StudyChanged,
    change_study,
    check_questions,
    create_study,
    delete_study,
    read_panels,
    remove_snapshot,
    store_snapshot,
)

_PROBLEMS: Final[ErrorProblems] = {BadValue: bad_value, StudyChanged: partial(not_found, "study")}


class PanelAnswer(ApiAnswer, kw_only=True, frozen=True):
    kind: PanelKind
    query: Annotated[str, Meta(description="query string of the chart's page")]
    title: str
    text: Annotated[str, Meta(description="Markdown")]
    page: str


class PanelInput(serializers.Serializer[Any]):
    """One chart."""

    kind = serializers.CharField(help_text=", ".join(PanelKind.values))
    query = serializers.CharField(required=False, allow_blank=True)
    title = serializers.CharField(required=False, allow_blank=True)
    text = serializers.CharField(required=False, allow_blank=True)


class StudyInput(serializers.ModelSerializer[Any]):
    """A new report."""

    panels = PanelInput(many=True, required=False, help_text=f"at most {PANELS_MAXIMUM}")

    class Meta:
        model = Study
        fields = Study.given
        extra_kwargs: dict[str, Any] = {"text": {"help_text": "Markdown"}}


class StudyChanges(StudyInput):
    """Changes to a report; omitted members are not changed."""

    class Meta(StudyInput.Meta):
        extra_kwargs = {**StudyInput.Meta.extra_kwargs, "title": {"required": False}}


_COLUMNS: Final = {
    name: kind for name, kind in list_given(StudyInput).items() if name not in ("text", "panels")
}


@with_columns({"id": int} | _COLUMNS)
class StudyRowAnswer(ApiAnswer, kw_only=True, frozen=True):
    owner: Annotated[str | None, Meta(description="null for a sample")]
    panel_count: int
    is_shared: Annotated[bool, Meta(description="the report has a shared link")]
    created_at: Time
    updated_at: Time
    snapshot_at: Annotated[
        Time | None,
        Meta(description="when the shown numbers were stored; null: the charts show current data"),
    ]
    url: str
    page: str


class StudyAnswer(StudyRowAnswer, kw_only=True, frozen=True):
    text: Annotated[str, Meta(description="Markdown source")]
    panels: Sequence[PanelAnswer]


@with_columns(StudyRowAnswer)
class ListedStudyAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A report has the columns that `fields` names."""


StudyPage = define_answer("StudyPage", AnswerPage, studies=Sequence[ListedStudyAnswer])


class StudyParameters(PageParameters):
    """Columns and page of the reports."""

    columns = list_columns(ListedStudyAnswer)
    sort = time_order_parameter("updated_at")


class Studies(ApiView):
    """All reports."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(
        operation_id="list_studies",
        parameters=[StudyParameters],
        responses=in_formats(StudyPage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List reports, most recently updated first by default."""
        wanted = read_parameters(request, StudyParameters)
        oldest_first = take_oldest_first(wanted)
        return answer_list(
            request,
            StudyPage,
            ListedStudyAnswer,
            page=take_page_request(wanted),
            read=lambda after, limit: list_studies(after=after, limit=limit, oldest_first=oldest_first),
            describe=lambda studies: [
                build(ListedStudyAnswer, study, **_describe_owner(study)) for study in studies
            ],
            name="studies",
        )

    @extend_schema(operation_id="create_study", request=StudyInput, responses={201: StudyAnswer})
    def post(self, request: Request) -> Response:
        """Create a report; its owner is the user, or the owner of the token."""
        refuse_parameters(request)
        wanted = read_body(request, StudyInput)
        with map_errors(_PROBLEMS):
            check_questions(read_panels(wanted.get("panels", [])), check_question)
            study = create_study(Study(**wanted, owner=find_person(request)))
        body = _describe_study(find_study(study.pk))
        return Response(body, status=201, headers={"Location": body.url})


class OneStudy(ApiView):
    """One report."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="read_study", responses=StudyAnswer)
    def get(self, request: Request, study_id: int) -> HttpResponse:
        """Read one report with its charts."""
        refuse_parameters(request)
        return answer_json(request, _describe_study(find_study(study_id)))

    @extend_schema(operation_id="change_study", request=StudyChanges, responses=StudyAnswer)
    def patch(self, request: Request, study_id: int) -> HttpResponse:
        """Change title, text or charts of a report; given members replace the stored ones."""
        refuse_parameters(request)
        study = find_study(study_id)
        check_mine(request, study)
        wanted = read_body(request, StudyChanges)
        with map_errors(_PROBLEMS):
            check_questions(read_panels(wanted.get("panels", [])), check_question, stored=study.charts)
            change_study(study_id, **wanted)
        return answer_json(request, _describe_study(find_study(study_id)))

    @extend_schema(operation_id="delete_study", responses={204: None})
    def delete(self, request: Request, study_id: int) -> Response:
        """Delete a report permanently; measurements are not affected."""
        refuse_parameters(request)
        check_mine(request, find_study(study_id))
        delete_study(study_id)
        return Response(status=204)


def find_study(study_id: int) -> Study:
    study = read_study(study_id)
    if study is None:
        raise not_found("study", f"study {study_id} does not exist")
    return study


def check_mine(request: Request, study: Study) -> None:
    """Reject editors who do not own the report; admins may change all."""
    if read_api_token(request) is not None:
        return
    person = find_person(request)
    if person is None or not (person.has_role(Role.ADMIN) or person.pk == study.owner_id):
        owner = study.owner_name or "nobody (sample)"
        raise Problem(
            403,
            "forbidden",
            "Not allowed",
            f"study {study.id} belongs to {owner}; only its owner and admins can change it",
        )


def _describe_owner(study: Study) -> dict[str, Any]:
    return {
        "owner": study.owner_name or None,
        "url": f"{PREFIX}/studies/{study.pk}",
        "page": f"/studies/{study.pk}/",
    }


def _describe_study(study: Study) -> StudyAnswer:
    return build(
        StudyAnswer,
        study,
        panels=[build(PanelAnswer, panel, page=f"/{panel.kind}/?{panel.query}") for panel in study.charts],
        **_describe_owner(study),
    )


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
        Sequence[SnapshotChartAnswer], Meta(description="charts that the report still has, in its order")
    ]
    url: str
    page: str


class SnapshotImageParameters(Parameters):
    """The theme of an image."""

    theme = ChoiceParameter(choices=THEMES, required=False, default="light")


class PanelFreezer(Protocol):
    """What draws the charts of a report with their current numbers."""

    def __call__(self, request: HttpRequest, study: Study) -> Sequence[FrozenPanel]:
        """Return the charts; raises TooManyDrawings."""


class StudySnapshotView(ApiView):
    """The snapshot of a report."""

    permission_classes = [MayReadOrEdit]
    # Pages draw a snapshot with their templates, which this layer does not import: benchapp/urls.py sets it.
    freeze: ClassVar[PanelFreezer | None] = None

    @extend_schema(operation_id="read_study_snapshot", responses=SnapshotAnswer)
    def get(self, request: Request, study_id: int) -> HttpResponse:
        """Read the snapshot of a report: each chart with the numbers of its moment."""
        refuse_parameters(request)
        return answer_json(request, _describe(find_study(study_id)))

    @extend_schema(operation_id="take_study_snapshot", request=None, responses={201: SnapshotAnswer})
    def post(self, request: Request, study_id: int) -> Response:
        """Store the charts of a report with their current numbers, in place of an earlier snapshot."""
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
        """Delete the snapshot of a report, which shows current data again."""
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
        """Read a chart of the snapshot of a report as PNG."""
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
