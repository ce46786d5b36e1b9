"""Hosts."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request

from benchapp.api.answers import answer_json, answer_rows, choose_columns
from benchapp.api.outputs import HOST_COLUMNS, HostOutput, HostPage, OwnHostOutput
from benchapp.api.parameters import HostParameters, read_parameters, refuse_parameters
from benchapp.api.permissions import MayIngest, MayRead, require_api_token
from benchapp.api.problems import Problem
from benchapp.api.rows import host_row
from benchapp.api.view import ApiView
from benchapp.queries.hosts import HostFilter, page_hosts, read_host


class Hosts(ApiView):
    """All hosts."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="list_hosts", parameters=[HostParameters], responses=HostPage)
    def get(self, request: Request) -> HttpResponse:
        """List hosts by name."""
        wanted = read_parameters(request, HostParameters)
        after, limit = wanted.pop("cursor", None), wanted.pop("limit")
        columns = wanted.pop("columns", HOST_COLUMNS)
        page = page_hosts(HostFilter(**wanted), after=after, limit=limit)
        rows = choose_columns(map(host_row, page.items), columns)
        return answer_rows(request, rows, name="hosts", columns=columns, next_cursor=page.next_cursor)


class OwnHost(ApiView):
    """The host whose token asks."""

    permission_classes = [MayIngest]

    @extend_schema(operation_id="read_own_host", responses=OwnHostOutput)
    def get(self, request: Request) -> HttpResponse:
        """Tell a host who it is here, and the server's time: what `agent check` asks."""
        refuse_parameters(request)
        host = require_api_token(request).host
        if host is None:
            raise NotAuthenticated
        return answer_json(request, {"name": host.name, "pool": host.pool, "server_time": timezone.now()})


class OneHost(ApiView):
    """One host."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="read_host", responses=HostOutput)
    def get(self, request: Request, name: str) -> HttpResponse:
        """Read one host."""
        refuse_parameters(request)
        host = read_host(name.lower())
        if host is None:
            raise no_host(name)
        return answer_json(request, host_row(host))


def no_host(name: str) -> Problem:
    """Return the problem that a host's name is unknown."""
    return Problem(404, "not-found", "No such host", f"there is no host {name[:100]!r}")
