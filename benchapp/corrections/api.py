"""Corrections of runs; new names of hosts and pools."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from benchapp.corrections.merge import HostMove, SplitChoice, merge, preview_merge, preview_split, split
from benchapp.corrections.rename import preview_rename, rename
from benchapp.corrections.retention import RetentionEffect, preview_retention
from benchapp.corrections.write import (
    CORRECTIONS,
    RUNS_MAXIMUM,
    list_corrections,
    preview_correction,
    read_correction,
)
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
from benchapp.framework.api.permissions import MayAdminister, MayReadOrEdit, read_actor
from benchapp.framework.api.problems import bad_value, map_errors
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.queue import wake_up
from benchapp.framework.write.conflicts import BadValue
from benchapp.intake.normalize.effect import RereadEffect, TargetChange
from benchapp.models import Correction, CorrectionAction, CorrectionKind, CorrectionState


class CorrectionInput(serializers.ModelSerializer[Any]):
    """The runs to delete or to relabel: a filter, a time range or both; or their ids. Of a retention a filter."""

    from_at = MomentField(required=False, allow_null=True, default=None, help_text="inclusive")
    to_at = MomentField(required=False, allow_null=True, default=None, help_text="exclusive")
    run_ids = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**63 - 1),
        required=False,
        default=list,
        max_length=1000,
        help_text="instead of a filter",
    )
    changes = serializers.DictField(
        required=False,
        default=dict,
        help_text="of a relabeling: new values by parameter of POST /fio (volume_type, label.NAME …); null: not stated",
    )
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="return the effect only; nothing is corrected"
    )

    class Meta:
        model = Correction
        fields = (*Correction.given, "dry_run")
        extra_kwargs: Final = {
            "filter": {
                "default": "",
                "help_text": f"filter bar syntax, of runs; may match {RUNS_MAXIMUM} of them, of a retention any number",
            },
            "tier": {"default": "", "help_text": "of a retention: what it removes, for good"},
            "keep_days": {
                "default": None,
                "help_text": "of a retention: what is older is removed, once a day",
            },
        }


class CorrectionChanges(serializers.Serializer[Any]):
    """The action."""

    is_canceled = serializers.BooleanField(help_text="true: undo it, as DELETE; false: apply it again")


@with_entry_columns(
    CorrectionInput, after={"reason": ("state", "kept_until", "run_count", "done_count", "unreadable_count")}
)
class CorrectionRowAnswer(ApiAnswer, kw_only=True, frozen=True):
    changes: Annotated[Mapping[str, Any], Meta(description="of a relabeling, by parameter of POST /fio")]
    state: CorrectionState
    kept_until: Annotated[
        Time | None,
        Meta(
            description="until then a deletion can be undone; null: a relabeling always can, a retention never"
        ),
    ]
    run_count: Annotated[int, Meta(description="runs that matched; of a retention rows, when it was created")]
    done_count: Annotated[int, Meta(description="runs corrected or restored, or rows removed, so far")]
    unreadable_count: Annotated[
        int, Meta(description="runs that stay as they were: their results cannot be read today")
    ]


class CorrectionLogEntryAnswer(ApiAnswer, kw_only=True, frozen=True):
    at: Time
    action: CorrectionAction
    by: str | None
    via: Annotated[str, Meta(description="API token; empty for a person")]


class CorrectionAnswer(CorrectionRowAnswer, kw_only=True, frozen=True):
    activity: Annotated[Sequence[CorrectionLogEntryAnswer], Meta(description="oldest first")]


class RelabeledValuesAnswer(ApiAnswer, kw_only=True, frozen=True):
    """Runs with one value, which a relabeling changes."""

    name: str
    before: str | int | None
    after: str | int | None
    runs: int


@with_columns(TargetChange)
class TargetChangeAnswer(ApiAnswer, kw_only=True, frozen=True):
    """Series of one target, and the target of their measurements after the correction."""


@with_columns(RereadEffect)
class RereadEffectAnswer(ApiAnswer, kw_only=True, frozen=True):
    """What becomes of the series of the results that were read for the dry run, the newest."""

    targets: Sequence[TargetChangeAnswer]


@with_columns(RetentionEffect)
class RetentionEffectAnswer(ApiAnswer, kw_only=True, frozen=True):
    """What a retention removes at once."""

    before_at: Annotated[Time, Meta(description="what began, or was resolved, before")]
    rows: Annotated[int, Meta(description="of the tier")]
    kept: Annotated[int, Meta(description="old runs or incidents that are exempt")]
    is_estimated: Annotated[bool, Meta(description="from the oldest runs")]


class CorrectionEffectAnswer(ApiAnswer, kw_only=True, frozen=True):
    """What a correction affects; of a retention `retention` alone."""

    runs: int
    hosts: int
    series: Annotated[int, Meta(description="series with any of the runs")]
    emptied: Annotated[int, Meta(description="series without other runs")]
    from_at: Annotated[Time | None, Meta(description="start of the first run")]
    to_at: Annotated[Time | None, Meta(description="start of the last run")]
    open_incidents: Annotated[Sequence[int], Meta(description="that have changes in these series")]
    values: Annotated[Sequence[RelabeledValuesAnswer], Meta(description="of a relabeling, now and then")]
    reread: Annotated[RereadEffectAnswer | None, Meta(description="of a relabeling")]
    unreadable: Annotated[int, Meta(description="runs whose raw output a retention removed: no undo")]
    retention: RetentionEffectAnswer | None = None


@with_columns(CorrectionRowAnswer)
class ListedCorrectionAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A correction has the columns that `fields` names."""


CorrectionPage = define_answer("CorrectionPage", AnswerPage, corrections=Sequence[ListedCorrectionAnswer])


class CorrectionParameters(SpanParameters, PageParameters):
    """Which corrections; those that were made in the range."""

    columns = list_columns(ListedCorrectionAnswer)
    sort = time_order_parameter("created_at")


class MayCorrect(MayReadOrEdit):
    """MayReadOrEdit; deletions and retentions are for MayAdminister."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether this request is allowed."""
        if request.method in SAFE_METHODS or not super().has_permission(request, view):
            return super().has_permission(request, view)
        if view.kwargs:
            kind = (
                Correction.objects.filter(pk=view.kwargs["correction_id"])
                .values_list("kind", flat=True)
                .first()
            )
        else:
            kind = request.data.get("kind") if isinstance(request.data, dict) else None
        self.message = MayAdminister.message
        return kind in (None, CorrectionKind.RELABELING) or MayAdminister().has_permission(request, view)


def preview(given: dict[str, Any]) -> CorrectionEffectAnswer | None:
    """Return the effect of what a dry run gives; None for what is to be corrected."""
    if not given.pop("dry_run"):
        return None
    entry = Correction(**given)
    if entry.is_retention:
        removed = build(RetentionEffectAnswer, preview_retention(entry))
        nothing: dict[str, Any] = dict.fromkeys(("runs", "hosts", "series", "emptied", "unreadable"), 0)
        nothing |= {"from_at": None, "to_at": None, "open_incidents": (), "values": (), "reread": None}
        return CorrectionEffectAnswer(**nothing, retention=removed)
    effect = preview_correction(entry)
    values = [
        RelabeledValuesAnswer(name=name, before=before, after=after, runs=runs)
        for name, after in entry.changes.items()
        for before, runs in effect.values[name].most_common()
    ]
    reread = effect.reread and build(
        RereadEffectAnswer,
        effect.reread,
        targets=[build(TargetChangeAnswer, each) for each in effect.reread.targets],
    )
    return build(
        CorrectionEffectAnswer,
        effect,
        open_incidents=[pk for pk, _ in effect.incidents],
        values=values,
        reread=reread,
    )


Corrections, OneCorrection = make_views(
    EntryResource(
        entries=CORRECTIONS,
        path="corrections",
        place="corrections",
        parameters=CorrectionParameters,
        input=CorrectionInput,
        changes=CorrectionChanges,
        actions={("is_canceled", True): CORRECTIONS.cancel, ("is_canceled", False): CORRECTIONS.restore},
        row=CorrectionRowAnswer,
        listed=ListedCorrectionAnswer,
        page=CorrectionPage,
        answer=CorrectionAnswer,
        activity=CorrectionLogEntryAnswer,
        list_page=list_corrections,
        read=read_correction,
        describe_more=lambda correction: {},
        preview=preview,
        previewed=CorrectionEffectAnswer,
        permission=MayCorrect,
    ),
    list_text="List corrections of runs, newest first by default.",
    create="Delete or relabel runs, or remove what is old by a retention. Deletions and retentions are for admins. A"
    " deletion can be undone for 30 days; what a retention removed is gone for good. A dry run answers 200 with the"
    " effect.",
    read="Read one correction with its progress and activity log.",
    change="Undo it, or apply it again.",
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


def act_rename(wanted: dict[str, Any], **actor: Any) -> RenameEffectAnswer:
    """Rename a host or pool, or preview it. wanted: as of `RenameInput`. Raises BadValue."""
    names = {name: wanted[name] for name in ("scope", "name")}
    effect = preview_rename(**names) if wanted["dry_run"] else rename(**names, **actor)
    return build(
        RenameEffectAnswer,
        effect,
        open_incidents=[pk for pk, _ in effect.incidents],
        saved=[SavedCount(noun=noun, count=count) for noun, count in effect.saved],
    )


class Renames(ApiView):
    """New names of hosts and pools."""

    permission_classes = [MayAdminister]

    @extend_schema(operation_id="rename_scope", request=RenameInput, responses=RenameEffectAnswer)
    def post(self, request: Request) -> HttpResponse:
        """Rename a host or pool; its former name stays an alias. Renaming it back undoes it."""
        refuse_parameters(request)
        wanted = read_body(request, RenameInput)
        with map_errors({BadValue: bad_value}):
            return answer_json(request, act_rename(wanted, **read_actor(request)))


class MergeInput(serializers.Serializer[Any]):
    """Two hosts that are one machine."""

    host = serializers.CharField(max_length=253, help_text="its name becomes an alias of the other one")
    into = serializers.CharField(max_length=253)
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="return the effect only; nothing is merged"
    )


class SplitInput(serializers.Serializer[Any]):
    """A host, and which of its results another machine measured."""

    host = serializers.CharField(max_length=253)
    name = serializers.CharField(
        max_length=253, help_text="of the new host; or of one that was merged, to undo it"
    )
    filter = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=2000, help_text="filter bar syntax, of runs"
    )
    from_at = MomentField(required=False, allow_null=True, default=None, help_text="inclusive")
    to_at = MomentField(required=False, allow_null=True, default=None, help_text="exclusive")
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="return the effect only; nothing is split"
    )


class HostMoveAnswer(ApiAnswer, kw_only=True, frozen=True):
    from_host: str
    to_host: str
    runs: Annotated[int, Meta(description="that go to the other host")]
    series_before: Annotated[int, Meta(description="with results, of both hosts or their pools")]
    series_after: int
    joined: Annotated[int, Meta(description="series that join results of the other host")]
    open_incidents: Annotated[Sequence[int], Meta(description="unresolved, they follow; newest first")]


def act_merge(wanted: dict[str, Any], **actor: Any) -> HostMoveAnswer:
    """Merge two hosts, or preview it. wanted: as of `MergeInput`. Raises BadValue."""
    names = (wanted["host"], wanted["into"])
    return _describe_move(preview_merge(*names) if wanted["dry_run"] else merge(*names, **actor))


def act_split(wanted: dict[str, Any], **actor: Any) -> HostMoveAnswer:
    """Split a host, or preview it. wanted: as of `SplitInput`. Raises BadValue."""
    selection = SplitChoice(wanted["filter"], wanted["from_at"], wanted["to_at"])
    asked = (wanted["host"], wanted["name"], selection)
    return _describe_move(preview_split(*asked) if wanted["dry_run"] else split(*asked, **actor))


def _describe_move(effect: HostMove) -> HostMoveAnswer:
    ids = [pk for pk, _ in effect.move.incidents]
    return build(HostMoveAnswer, effect, joined=effect.move.joined, open_incidents=ids)


class Merges(ApiView):
    """Hosts that are one machine."""

    permission_classes = [MayAdminister]

    @extend_schema(operation_id="merge_hosts", request=MergeInput, responses=HostMoveAnswer)
    def post(self, request: Request) -> HttpResponse:
        """Give all results and tokens of a host to another one; a split undoes it for 30 days."""
        refuse_parameters(request)
        wanted = read_body(request, MergeInput)
        with map_errors({BadValue: bad_value}):
            effect = act_merge(wanted, **read_actor(request))
        wake_up()
        return answer_json(request, effect)


class Splits(ApiView):
    """Names that were two machines."""

    permission_classes = [MayAdminister]

    @extend_schema(operation_id="split_host", request=SplitInput, responses=HostMoveAnswer)
    def post(self, request: Request) -> HttpResponse:
        """Give results of a host to a new one, or back to one that was merged; a merge undoes it."""
        refuse_parameters(request)
        wanted = read_body(request, SplitInput)
        with map_errors({BadValue: bad_value}):
            effect = act_split(wanted, **read_actor(request))
        wake_up()
        return answer_json(request, effect)
