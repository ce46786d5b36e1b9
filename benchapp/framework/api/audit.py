"""The audit record: every write of a person, a token or a command."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework.request import Request

from benchapp.framework.api.answers import (
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
    PageParameters,
    SpanParameters,
    read_parameters,
    take_oldest_first,
    text_parameter,
    time_order_parameter,
)
from benchapp.framework.api.permissions import MayAdminister
from benchapp.framework.api.view import ApiView
from benchapp.framework.write.audit import AuditFilter, page_audit_records
from benchapp.models import AuditKind

JsonObject = dict[str, Any]


class AuditRecordAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    at: Time
    username: Annotated[str, Meta(description="empty without a person")]
    via: Annotated[str, Meta(description="the token (bench_…) or the command; empty for a session")]
    kind: AuditKind
    object_id: Annotated[str, Meta(description="id of the object; empty for several")]
    object_name: str
    action: str
    before: Annotated[JsonObject | None, Meta(description="members that changed, before")]
    after: Annotated[JsonObject | None, Meta(description="members that changed, after")]
    address: Annotated[str, Meta(description="of the client; empty for a command")]
    request_id: str


@with_columns(AuditRecordAnswer)
class ListedAuditRecordAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A record has the columns that `fields` names."""


AUDIT_COLUMNS: Final = list_columns(ListedAuditRecordAnswer)


AuditPage = define_answer("AuditPage", AnswerPage, records=Sequence[ListedAuditRecordAnswer])


class AuditParameters(SpanParameters, PageParameters):
    """Which records to list."""

    columns = AUDIT_COLUMNS

    username = text_parameter(150)
    via = text_parameter(60, help_text="bench_0bc358464nx6 or manage.py setup_link")
    kind = ChoiceParameter(choices=AuditKind.values, required=False)
    object_id = text_parameter(253)
    action = text_parameter(40)
    sort = time_order_parameter("at")


class AuditRecords(ApiView):
    """The audit record."""

    permission_classes = [MayAdminister]

    @extend_schema(
        operation_id="list_audit_records",
        parameters=[AuditParameters],
        responses=in_formats(AuditPage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List the writes of people, tokens and commands, newest first by default."""
        wanted = read_parameters(request, AuditParameters)
        page = take_page_request(wanted)
        oldest_first = take_oldest_first(wanted)
        chosen = AuditFilter(**wanted)
        return answer_list(
            request,
            AuditPage,
            ListedAuditRecordAnswer,
            page=page,
            read=lambda after, limit: page_audit_records(
                chosen, after=after, limit=limit, oldest_first=oldest_first
            ),
            describe=lambda rows: [build(ListedAuditRecordAnswer, row) for row in rows],
            name="records",
        )
