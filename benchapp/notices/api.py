"""Subscriptions, and the feed of incidents."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from django.http import HttpResponse
from django.utils.feedgenerator import Atom1Feed
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.accounts.api import MayReadOrHasLink, SignedParameters, make_base_url
from benchapp.accounts.write.throttle import LimitReached
from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import JUDGED_METRICS
from benchapp.catalog.thresholds import COMPARISONS, TEXT_MAXIMUM
from benchapp.framework.api.answers import (
    PREFIX,
    ApiAnswer,
    Kind,
    MetricName,
    Time,
    build,
    define_answer,
    with_columns,
)
from benchapp.framework.api.list_entries import list_given
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    flag_parameter,
    read_parameters,
    refuse_parameters,
)
from benchapp.framework.api.permissions import find_person, is_signed_in, read_api_token
from benchapp.framework.api.problems import Problem, bad_value, not_found
from benchapp.framework.api.responses import answer_json, answer_text
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.queue import wake_notify
from benchapp.framework.times import format_moment
from benchapp.framework.write.conflicts import BadValue
from benchapp.incidents.read.incidents import IncidentFilter, Tab, list_incidents
from benchapp.layouts.rules.answers import LayoutFacts, RememberedAnswer
from benchapp.layouts.rules.ranking import Verdict
from benchapp.models import (
    FURTHER_RUNS_MAXIMUM,
    Channel,
    Incident,
    Role,
    Scope,
    Severity,
    StoredLayoutAnswer,
    Subscription,
    User,
)
from benchapp.models.coverage import read_stored_threshold
from benchapp.notices.read import (
    VIOLATIONS_SHOWN,
    ViolationRow,
    list_subscriptions,
    list_violations,
    read_subscription,
)
from benchapp.notices.write.email_confirmation import MailRefused, ask_confirmation
from benchapp.notices.write.subscriptions import (
    NotConfirmed,
    create_subscription,
    delete_subscription,
    request_test,
)
from benchapp.notices.write.thresholds import THRESHOLDS_MAXIMUM

_SECRET = {"Cache-Control": "no-store"}


_HOUR: Final = {"min_value": 0, "max_value": 23, "help_text": "UTC"}


class SubscriptionInput(serializers.ModelSerializer[Any]):
    """Channel, filter and delivery times."""

    channel = ChoiceParameter(choices=Channel.values)
    minimum_severity = serializers.CharField(required=False, help_text="low, medium or high")
    further_runs = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=FURTHER_RUNS_MAXIMUM,
        help_text="from the suspicion of a regression to its notice: 0 suspected, up to 3 confirmed, more certain ones",
    )
    metrics = serializers.ListField(
        child=ChoiceParameter(choices=JUDGED_METRICS),
        required=False,
        max_length=len(JUDGED_METRICS),
        help_text="incidents in these only; empty: in all",
    )
    thresholds = serializers.ListField(
        child=serializers.CharField(max_length=TEXT_MAXIMUM),
        required=False,
        max_length=THRESHOLDS_MAXIMUM,
        help_text="metric, comparison, value and unit: p99 < 5 ms, iops > 10k, bandwidth >= 200 MB/s",
    )

    class Meta:
        model = Subscription
        fields = Subscription.given
        extra_kwargs: Final = {
            "filter": {"help_text": "filter bar syntax; empty: everything"},
            "layout_question": {
                "help_text": "the parameters of GET /layouts as a query string: a notice when the answer changes",
            },
            "digest_hour": _HOUR,
            "quiet_from_hour": _HOUR,
            "quiet_to_hour": _HOUR,
        }


class ThresholdAnswer(ApiAnswer, kw_only=True, frozen=True):
    text: Annotated[str, Meta(description="canonical: p99 latency < 5 ms")]
    metric: MetricName
    comparison: Annotated[str, Meta(extra_json_schema={"enum": list(COMPARISONS)})]
    value: Annotated[float, Meta(description="in the base unit of the metric")]
    violations: Annotated[int, Meta(description="series that violate it now")]


class ViolationAnswer(ApiAnswer, kw_only=True, frozen=True):
    threshold: str
    series: int
    title: str
    since_at: Annotated[Time, Meta(description="start of the first run of the violation")]
    value: Annotated[float | None, Meta(description="median of the newest runs, in the base unit")]
    is_notified: Annotated[bool, Meta(description="whether a notice was queued when it began")]
    url: str
    page: str


class RememberedLayoutAnswer(ApiAnswer, kw_only=True, frozen=True):
    title: str
    verdict: Verdict
    load: Annotated[str, Meta(description="throughput, queue depth, jobs and price, in words")]
    runs: int
    last_at: Time
    incidents: Sequence[int]


class LayoutQuestionAnswer(ApiAnswer, kw_only=True, frozen=True):
    sentence: Annotated[str | None, Meta(description="null before there was an answer")]
    best: Annotated[RememberedLayoutAnswer | None, Meta(description="the first of the ranking")]
    closest_miss: RememberedLayoutAnswer | None
    lacks: Annotated[str, Meta(description="of the closest miss, in words")]
    pending_sentence: Annotated[
        str, Meta(description="of another answer that was found once; it is reported if it is found again")
    ]
    problem: Annotated[str, Meta(description="why the question has no answer today")]
    evaluated_at: Time
    changed_at: Time | None


@with_columns(
    {"id": int, "owner": str},
    {
        **list_given(SubscriptionInput),
        "channel": Channel,
        "address": Annotated[str, Meta(description="only the host of another person's webhook")],
        "metrics": Annotated[
            Sequence[MetricName], Meta(description="incidents in these only; empty: in all")
        ],
        "thresholds": Sequence[ThresholdAnswer],
    },
)
class SubscriptionAnswer(ApiAnswer, kw_only=True, frozen=True):
    is_active: bool
    failures: Annotated[int, Meta(description="consecutive")]
    paused_reason: str
    waiting: Annotated[int, Meta(description="queued notices")]
    last_at: Time | None
    address_state: Annotated[
        str, Meta(description='of an e-mail address "confirmed", "unconfirmed" or "refused"; "" of a webhook')
    ]
    confirmed_at: Annotated[
        Time | None, Meta(description="null: not confirmed, or a webhook, which needs no confirmation")
    ]
    confirmation_asked_at: Annotated[
        Time | None, Meta(description="when the newest confirmation mail was requested")
    ]
    withheld: Annotated[
        int, Meta(description="notices not sent because the address was not confirmed within a day")
    ]
    created_at: Time
    url: str
    page: str


class OneSubscriptionAnswer(SubscriptionAnswer, kw_only=True, frozen=True):
    violations: Annotated[
        Sequence[ViolationAnswer], Meta(description=f"the newest {VIOLATIONS_SHOWN}, newest first")
    ]
    layout_answer: Annotated[
        LayoutQuestionAnswer | None, Meta(description="null without a question, and before its evaluation")
    ]


class CreatedSubscriptionAnswer(SubscriptionAnswer, kw_only=True, frozen=True):
    secret: Annotated[str | None, Meta(description="webhook signing secret; shown once")]


SubscriptionList = define_answer("SubscriptionList", subscriptions=Sequence[SubscriptionAnswer])


class MaySubscribe(BasePermission):
    """People, and tokens of the scope admin with an owner: every subscription has an owner."""

    message = "this requires a person: sign in, or use a token of the scope admin with an owner"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether the request has a person."""
        token = read_api_token(request)
        if token is not None:
            return token.scope == Scope.ADMIN and token.created_by is not None
        return is_signed_in(request)


class Subscriptions(ApiView):
    """One's own subscriptions."""

    permission_classes = [MaySubscribe]

    @extend_schema(operation_id="list_subscriptions", responses=SubscriptionList)
    def get(self, request: Request) -> HttpResponse:
        """List one's own subscriptions; at most 20."""
        refuse_parameters(request)
        person = _require_person(request)
        rows = [_describe(SubscriptionAnswer, row) for row in list_subscriptions(person, owner=person)]
        return answer_json(request, SubscriptionList(subscriptions=rows))

    @extend_schema(
        operation_id="create_subscription",
        request=SubscriptionInput,
        responses={201: CreatedSubscriptionAnswer},
    )
    def post(self, request: Request) -> Response:
        """Create a subscription; a webhook's secret (Standard Webhooks) is shown once.

        An e-mail address gets only a mail with a link until its owner confirms it.
        """
        refuse_parameters(request)
        person = _require_person(request)
        try:
            made = create_subscription(person, read_body(request, SubscriptionInput))
        except BadValue as error:
            raise bad_value(error) from error
        wake_notify()
        body = _describe(CreatedSubscriptionAnswer, _find(request, made.pk), secret=made.secret or None)
        return Response(body, status=201, headers={**_SECRET, "Location": body.url})


class OneSubscription(ApiView):
    """One subscription."""

    permission_classes = [MaySubscribe]

    @extend_schema(operation_id="read_subscription", responses=OneSubscriptionAnswer)
    def get(self, request: Request, subscription_id: int) -> HttpResponse:
        """Read one subscription, with the series that violate its thresholds now."""
        refuse_parameters(request)
        row = _find(request, subscription_id)
        violations = list_violations(row.pk) if row.thresholds else []
        return answer_json(
            request,
            _describe(
                OneSubscriptionAnswer,
                row,
                violations=[_describe_violation(each) for each in violations],
                layout_answer=_describe_layout_answer(row),
            ),
        )

    @extend_schema(operation_id="delete_subscription", responses={204: None})
    def delete(self, request: Request, subscription_id: int) -> Response:
        """Delete a subscription with its delivery log."""
        refuse_parameters(request)
        delete_subscription(_find(request, subscription_id).pk)
        return Response(status=204)


class SubscriptionTest(ApiView):
    """A test notice."""

    permission_classes = [MaySubscribe]

    @extend_schema(operation_id="test_subscription", request=None, responses={202: None})
    def post(self, request: Request, subscription_id: int) -> Response:
        """Send a test notice; its outcome is in the delivery log on the page.

        At most one a minute, 20 an hour for one person and 10 an hour to one address; beyond that 429.
        """
        refuse_parameters(request)
        row = _find(request, subscription_id)
        if not row.is_active:
            raise _paused()
        try:
            is_new = request_test(Subscription.objects.get(pk=row.pk), _require_person(request))
        except NotConfirmed as error:
            raise Problem(409, "request-invalid", "Not confirmed", str(error)) from error
        except LimitReached as error:
            raise _too_many(str(error), error.wait_s) from error
        if not is_new:
            raise _too_many("a test was sent within the last minute", 60)
        wake_notify()
        return Response(status=202)


class SubscriptionConfirmation(ApiView):
    """The confirmation mail of an e-mail address."""

    permission_classes = [MaySubscribe]

    @extend_schema(operation_id="send_confirmation", request=None, responses={202: None})
    def post(self, request: Request, subscription_id: int) -> Response:
        """Send the confirmation mail of one's own subscription again.

        At most one an hour to one address and 10 a day for one person; beyond that 429.
        """
        refuse_parameters(request)
        stored = Subscription.objects.filter(pk=subscription_id, owner=_require_person(request)).first()
        if stored is None:
            raise _not_found(subscription_id)
        if not stored.is_active:
            raise _paused()
        try:
            is_needed = ask_confirmation(stored)
        except MailRefused as error:
            raise Problem(409, "request-invalid", "Mail refused", str(error)) from error
        except LimitReached as error:
            raise _too_many(str(error), error.wait_s) from error
        if not is_needed:
            raise Problem(409, "request-invalid", "No confirmation needed", "no confirmation is needed")
        wake_notify()
        return Response(status=202)


def _too_many(detail: str, wait_s: int) -> Problem:
    return Problem(429, "quota-exceeded", "Too many requests", detail, headers={"Retry-After": str(wait_s)})


def _paused() -> Problem:
    return Problem(409, "request-invalid", "Paused", "this subscription is paused: resume it on its page")


def _not_found(subscription_id: int) -> Problem:
    return not_found("subscription", f"you have no subscription {subscription_id}")


def _require_person(request: Request) -> User:
    person = find_person(request)
    if person is None:
        raise PermissionDenied(MaySubscribe.message)
    return person


def _find(request: Request, subscription_id: int) -> Subscription:
    person = _require_person(request)
    row = read_subscription(subscription_id, person)
    if row is None or not (row.owner_id == person.pk or person.has_role(Role.ADMIN)):
        raise _not_found(subscription_id)
    return row


def _describe(kind: type[Kind], row: Subscription, **more: Any) -> Kind:
    return build(
        kind,
        row,
        owner=row.owner.username,
        thresholds=[
            build(ThresholdAnswer, threshold, value=threshold.limit, violations=count)
            for text, count in row.threshold_counts
            if (threshold := read_stored_threshold(text)) is not None
        ],
        url=f"{PREFIX}/subscriptions/{row.pk}",
        page=f"/subscriptions/{row.pk}/",
        **more,
    )


def _describe_layout_answer(row: Subscription) -> LayoutQuestionAnswer | None:
    stored = StoredLayoutAnswer.objects.filter(pk=row.pk).first() if row.layout_question else None
    if stored is None:
        return None
    answer = None if stored.answer is None else RememberedAnswer.from_json(stored.answer)
    return build(
        LayoutQuestionAnswer,
        stored,
        sentence=answer.sentence if answer else None,
        best=_describe_layout(answer.best) if answer else None,
        closest_miss=_describe_layout(answer.closest) if answer else None,
        lacks=answer.lacks if answer else "",
    )


def _describe_layout(layout: LayoutFacts | None) -> RememberedLayoutAnswer | None:
    if layout is None:
        return None
    return build(RememberedLayoutAnswer, layout, last_at=datetime.fromisoformat(layout.last_at))


def _describe_violation(row: ViolationRow) -> ViolationAnswer:
    return build(
        ViolationAnswer,
        row,
        threshold=row.threshold.text,
        series=row.series_id,
        url=f"{PREFIX}/series/{row.series_id}",
        page=f"/series/{row.series_id}/?metric={row.threshold.metric}",
    )


ENTRIES_MAXIMUM: Final = 50
# Not allowed in XML, escaped or not.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class FeedParameters(FilterParameters, SignedParameters):
    """Which incidents."""

    severity = ChoiceParameter(choices=Severity.values, required=False)
    is_regression = flag_parameter()


class IncidentFeed(ApiView):
    """The feed of incidents."""

    permission_classes = [MayReadOrHasLink]

    @extend_schema(
        operation_id="read_incident_feed",
        parameters=[FeedParameters],
        responses={(200, "application/atom+xml"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request) -> HttpResponse:
        """Read the newest 50 incidents as an Atom feed."""
        wanted = read_parameters(request, FeedParameters)
        chosen = IncidentFilter(
            match=wanted["match"], severity=wanted.get("severity"), is_regression=wanted["is_regression"]
        )
        rows = list_incidents(chosen, limit=ENTRIES_MAXIMUM).items
        text = write_feed(rows, request, filter=write_filter(wanted["match"]))
        return answer_text(request, text, "application/atom+xml; charset=utf-8")


def write_feed(rows: Sequence[Incident], request: Request, *, filter: str) -> str:
    """Return the incidents as Atom (RFC 4287); updated: when an incident last changed.

    The id has the parameters that choose incidents, so that it is the same with and without a signed link; the link to
    itself has all, as readers ask there again.
    """
    base_url = make_base_url(request)
    chosen = sorted(
        (name, value)
        for name, values in request.query_params.lists()
        for value in values
        if name not in SignedParameters().fields
    )
    feed = _Feed(
        title=_CONTROL.sub("", " · ".join(["benchapp: incidents", *([filter] if filter else [])])),
        link=f"{base_url}/incidents/?{urlencode({'tab': Tab.ALL, 'q': filter})}",
        description="",
        author_name="benchapp",
        feed_url=f"{base_url}{request.get_full_path()}",
        feed_guid=f"{base_url}{request.path}{'?' if chosen else ''}{urlencode(chosen)}",
    )
    for row in rows:
        kind = "Regression" if row.is_regression else "Improvement"
        feed.add_item(
            title=_CONTROL.sub("", row.title),
            link=f"{base_url}/incidents/{row.id}/",
            description=f"{kind}, severity {row.severity}, {row.state}; since {format_moment(row.started_at)}",
            unique_id=f"{base_url}/incidents/{row.id}/",
            pubdate=row.opened_at,
            updateddate=row.updated_at,
        )
    return feed.writeString("utf-8")


class _Feed(Atom1Feed):
    """A feed whose time is fixed while it is empty, so that its ETag is, too."""

    def latest_post_date(self) -> datetime:
        """Return the time of the newest entry."""
        return super().latest_post_date() if self.items else datetime(1970, 1, 1, tzinfo=UTC)
