"""Incidents as an Atom feed."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from django.http import HttpResponse
from django.utils.feedgenerator import Atom1Feed
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from benchapp.accounts.api import MayReadOrHasLink, SignedParameters, make_base_url
from benchapp.catalog.grammar import write_filter
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    flag_parameter,
    read_parameters,
)
from benchapp.framework.api.responses import answer_text
from benchapp.framework.api.view import ApiView
from benchapp.framework.times import format_moment
from benchapp.incidents.read.incidents import list_incidents
from benchapp.incidents.read.shapes import IncidentFilter, Tab
from benchapp.models import Incident, Severity

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
