"""Incidents as an Atom feed."""

import re
from datetime import UTC, datetime
from typing import Final

from django.http import HttpResponse
from django.utils.feedgenerator import Atom1Feed
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from benchapp.api.framework.parameters import (
    ChoiceParameter,
    FilterParameters,
    flag_parameter,
    read_parameters,
)
from benchapp.api.framework.responses import answer_text
from benchapp.api.framework.view import ApiView
from benchapp.api.sharing.links import MayReadOrHasLink, SignedParameters, make_base_url
from benchapp.models import Severity
from benchapp.queries.incidents.incidents import list_incidents
from benchapp.queries.incidents.shapes import IncidentFilter, IncidentRow
from benchapp.times import format_moment

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
        text = write_feed(rows, base_url=make_base_url(request))
        return answer_text(request, text, "application/atom+xml; charset=utf-8")


def write_feed(rows: tuple[IncidentRow, ...], *, base_url: str) -> str:
    """Return the incidents as Atom; updated: when an incident last changed."""
    feed = _Feed(
        title="benchapp: incidents",
        link=f"{base_url}/incidents/",
        description="",
        feed_url=f"{base_url}/api/v1/incidents/feed",
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
