"""Studies: saved charts with title and text."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

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
    PageParameters,
    read_parameters,
    refuse_parameters,
    take_oldest_first,
    time_order_parameter,
)
from benchapp.framework.api.permissions import MayReadOrEdit, find_person, read_api_token
from benchapp.framework.api.problems import ErrorProblems, Problem, bad_value, map_errors, not_found
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.write.conflicts import BadValue
from benchapp.layouts.read.question import check_question
from benchapp.models import PanelKind, Role, Study
from benchapp.reports.read.studies import list_studies, read_study
from benchapp.reports.write.studies import (
    PANELS_MAXIMUM,
    StudyChanged,
    change_study,
    check_questions,
    create_study,
    delete_study,
    read_panels,
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
    """A new study."""

    panels = PanelInput(many=True, required=False, help_text=f"at most {PANELS_MAXIMUM}")

    class Meta:
        model = Study
        fields = Study.given
        extra_kwargs: dict[str, Any] = {"text": {"help_text": "Markdown"}}


class StudyChanges(StudyInput):
    """Changes to a study; omitted members are not changed."""

    class Meta(StudyInput.Meta):
        extra_kwargs = {**StudyInput.Meta.extra_kwargs, "title": {"required": False}}


_COLUMNS: Final = {
    name: kind for name, kind in list_given(StudyInput).items() if name not in ("text", "panels")
}


@with_columns({"id": int} | _COLUMNS)
class StudyRowAnswer(ApiAnswer, kw_only=True, frozen=True):
    owner: Annotated[str | None, Meta(description="null for a sample")]
    panel_count: int
    is_shared: Annotated[bool, Meta(description="the study has a shared link")]
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
    """A study has the columns that `fields` names."""


StudyPage = define_answer("StudyPage", AnswerPage, studies=Sequence[ListedStudyAnswer])


class StudyParameters(PageParameters):
    """Columns and page of the studies."""

    columns = list_columns(ListedStudyAnswer)
    sort = time_order_parameter("updated_at")


class Studies(ApiView):
    """All studies."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(
        operation_id="list_studies",
        parameters=[StudyParameters],
        responses=in_formats(StudyPage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List studies, most recently updated first by default."""
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
        """Create a study; its owner is the user, or the owner of the token."""
        refuse_parameters(request)
        wanted = read_body(request, StudyInput)
        with map_errors(_PROBLEMS):
            check_questions(read_panels(wanted.get("panels", [])), check_question)
            study = create_study(Study(**wanted, owner=find_person(request)))
        body = _describe_study(find_study(study.pk))
        return Response(body, status=201, headers={"Location": body.url})


class OneStudy(ApiView):
    """One study."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="read_study", responses=StudyAnswer)
    def get(self, request: Request, study_id: int) -> HttpResponse:
        """Read one study with its charts."""
        refuse_parameters(request)
        return answer_json(request, _describe_study(find_study(study_id)))

    @extend_schema(operation_id="change_study", request=StudyChanges, responses=StudyAnswer)
    def patch(self, request: Request, study_id: int) -> HttpResponse:
        """Change title, text or charts of a study; given members replace the stored ones."""
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
        """Delete a study permanently; measurements are not affected."""
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
    """Reject editors who do not own the study; admins may change all."""
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
