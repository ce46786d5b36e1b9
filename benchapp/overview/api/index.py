"""The index of resources, and the OpenAPI document."""

from collections.abc import Mapping

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request

from benchapp import __version__
from benchapp.framework.api.answers import PREFIX, ApiAnswer
from benchapp.framework.api.openapi import make_schema
from benchapp.framework.api.parameters import refuse_parameters
from benchapp.framework.api.responses import answer_json, answer_not_modified, is_known
from benchapp.framework.api.view import ApiView


class IndexAnswer(ApiAnswer, kw_only=True, frozen=True):
    version: str
    resources: Mapping[str, str]


RESOURCES = {
    "hosts": f"{PREFIX}/hosts",
    "runs": f"{PREFIX}/runs",
    "series": f"{PREFIX}/series",
    "dimensions": f"{PREFIX}/dimensions",
    "scaling": f"{PREFIX}/scaling",
    "matrix": f"{PREFIX}/matrix",
    "comparison": f"{PREFIX}/comparison",
    "changes": f"{PREFIX}/changes",
    "incidents": f"{PREFIX}/incidents",
    "incident_feed": f"{PREFIX}/incidents/feed",
    "status_badge": f"{PREFIX}/status-badge",
    "chart_images": f"{PREFIX}/charts/history.svg",
    "links": f"{PREFIX}/links",
    "planned_events": f"{PREFIX}/planned-events",
    "studies": f"{PREFIX}/studies",
    "submissions": f"{PREFIX}/submissions",
    "subscriptions": f"{PREFIX}/subscriptions",
    "fio": f"{PREFIX}/fio",
    "enrollments": f"{PREFIX}/enrollments",
    "schema": f"{PREFIX}/schema",
    "errors": "/docs/errors",
}


class Index(ApiView):
    """The list of resources; public, as it has no data."""

    permission_classes = [AllowAny]
    authentication_classes = []

    @extend_schema(operation_id="read_index", responses=IndexAnswer, auth=[])
    def get(self, request: Request) -> HttpResponse:
        """List the resources."""
        refuse_parameters(request)
        return answer_json(request, IndexAnswer(version=__version__, resources=RESOURCES))


class Schema(ApiView):
    """The OpenAPI document; public like the index."""

    permission_classes = [AllowAny]
    authentication_classes = []

    @extend_schema(operation_id="read_schema", responses=OpenApiTypes.OBJECT, auth=[])
    def get(self, request: Request) -> HttpResponse:
        """Read the OpenAPI document of this API."""
        refuse_parameters(request)
        document = make_schema()
        if is_known(request, document.etag):
            return answer_not_modified(document.etag)
        return answer_json(request, document.body, headers={"ETag": document.etag})
