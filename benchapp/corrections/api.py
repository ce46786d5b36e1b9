"""Deletions of runs; new names of hosts and pools."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.corrections.read import list_deletions, read_deletion
from benchapp.corrections.rename import preview_rename, rename
from benchapp.corrections.write import DELETIONS, RUNS_MAXIMUM, preview_deletion
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
from benchapp.framework.api.list_entries import EntryResource, make_views, with_entry_columns
from benchapp.framework.api.parameters import (
    MomentField,
    PageParameters,
    SpanParameters,
    refuse_parameters,
    time_order_parameter,
)
from benchapp.framework.api.permissions import MayAdminister, MayReadOrAdminister, read_actor
from benchapp.framework.api.problems import bad_value, map_errors
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Deletion, DeletionAction, DeletionState


class DeletionInput(serializers.ModelSerializer[Any]):
    """The runs to delete: a filter, a time range or both; or their ids."""

    from_at = MomentField(required=False, allow_null=True, default=None, help_text="inclusive")
    to_at = MomentField(required=False, allow_null=True, default=None, help_text="exclusive")
    run_ids = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**63 - 1),
        required=False,
        default=list,
        max_length=1000,
        help_text="instead of a filter",
    )
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="return the effect only; nothing is deleted"
    )

    class Meta:
        model = Deletion
        fields = (*Deletion.given, "dry_run")
        extra_kwargs: Final = {
            "filter": {
                "default": "",
                "help_text": f"filter bar syntax, of runs; may match {RUNS_MAXIMUM} of them",
            },
        }


class DeletionChanges(serializers.Serializer[Any]):
    """The action."""

    is_canceled = serializers.BooleanField(
        help_text="true: restore the runs, as DELETE; false: delete them again"
    )


@with_entry_columns(
    DeletionInput, after={"reason": ("state", "kept_until", "run_count", "done_count", "unreadable_count")}
)
class DeletionRowAnswer(ApiAnswer, kw_only=True, frozen=True):
    state: DeletionState
    kept_until: Annotated[Time, Meta(description="until then the runs can be restored")]
    run_count: Annotated[int, Meta(description="runs that matched")]
    done_count: Annotated[int, Meta(description="runs deleted or restored so far")]
    unreadable_count: Annotated[
        int, Meta(description="runs that could not be restored: their results are rejected today")
    ]


class DeletionLogEntryAnswer(ApiAnswer, kw_only=True, frozen=True):
    at: Time
    action: DeletionAction
    by: str | None
    via: Annotated[str, Meta(description="API token; empty for a person")]


class DeletionAnswer(DeletionRowAnswer, kw_only=True, frozen=True):
    activity: Annotated[Sequence[DeletionLogEntryAnswer], Meta(description="oldest first")]


class DeletionEffectAnswer(ApiAnswer, kw_only=True, frozen=True):
    runs: int
    hosts: int
    series: Annotated[int, Meta(description="series that lose runs")]
    emptied: Annotated[int, Meta(description="series that lose all their runs")]
    from_at: Annotated[Time, Meta(description="start of the first run")]
    to_at: Annotated[Time, Meta(description="start of the last run")]
    open_incidents: Annotated[Sequence[int], Meta(description="that have changes in these series")]


@with_columns(DeletionRowAnswer)
class ListedDeletionAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A deletion has the columns that `fields` names."""


DeletionPage = define_answer("DeletionPage", AnswerPage, deletions=Sequence[ListedDeletionAnswer])


class DeletionParameters(SpanParameters, PageParameters):
    """Which deletions; those that were made in the range."""

    columns = list_columns(ListedDeletionAnswer)
    sort = time_order_parameter("created_at")


def _preview(given: dict[str, Any]) -> DeletionEffectAnswer | None:
    """Return the effect of what a dry run gives; None for what is to be deleted."""
    if not given.pop("dry_run"):
        return None
    effect = preview_deletion(Deletion(**given))
    return build(DeletionEffectAnswer, effect, open_incidents=[pk for pk, _ in effect.incidents])


Deletions, OneDeletion = make_views(
    EntryResource(
        entries=DELETIONS,
        path="deletions",
        place="deletions",
        parameters=DeletionParameters,
        input=DeletionInput,
        changes=DeletionChanges,
        actions={("is_canceled", True): DELETIONS.cancel, ("is_canceled", False): DELETIONS.restore},
        row=DeletionRowAnswer,
        listed=ListedDeletionAnswer,
        page=DeletionPage,
        answer=DeletionAnswer,
        activity=DeletionLogEntryAnswer,
        list_page=list_deletions,
        read=read_deletion,
        describe_more=lambda deletion: {},
        preview=_preview,
        previewed=DeletionEffectAnswer,
        permission=MayReadOrAdminister,
    ),
    list_text="List deletions of runs, newest first by default.",
    create="Delete runs; they can be restored for 30 days. A dry run answers 200 with the effect.",
    read="Read one deletion with its progress and activity log.",
    change="Restore its runs, or delete them again.",
)


class RenameInput(serializers.Serializer[Any]):
    """A host or pool, and its new name."""

    scope = serializers.CharField(max_length=260, help_text="host:NAME or pool:NAME")
    name = serializers.CharField(
        max_length=253, help_text="the new name; of a host it is stored in lower case"
    )
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="return the effect only; nothing is renamed"
    )


class SavedCount(ApiAnswer, kw_only=True, frozen=True):
    noun: str
    count: int


class RenameEffectAnswer(ApiAnswer, kw_only=True, frozen=True):
    from_scope: str
    to_scope: str
    hosts: int
    runs: int
    series: Annotated[int, Meta(description="that keep their ids")]
    open_incidents: Annotated[Sequence[int], Meta(description="that have changes in these series")]
    saved: Annotated[
        Sequence[SavedCount], Meta(description="what is stored and names it, with the new name then")
    ]


class Renames(ApiView):
    """New names of hosts and pools."""

    permission_classes = [MayAdminister]

    @extend_schema(operation_id="rename_scope", request=RenameInput, responses=RenameEffectAnswer)
    def post(self, request: Request) -> HttpResponse:
        """Rename a host or pool; its former name stays an alias. Renaming it back undoes it."""
        refuse_parameters(request)
        wanted = read_body(request, RenameInput)
        is_dry = wanted.pop("dry_run")
        with map_errors({BadValue: bad_value}):
            effect = preview_rename(**wanted) if is_dry else rename(**wanted, **read_actor(request))
        return answer_json(
            request,
            build(
                RenameEffectAnswer,
                effect,
                open_incidents=[pk for pk, _ in effect.incidents],
                saved=[SavedCount(noun=noun, count=count) for noun, count in effect.saved],
            ),
        )
