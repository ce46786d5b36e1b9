"""The agent that this server ships."""

from typing import Annotated

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework.request import Request

from benchapp.agent_archive import read_agent_archive, read_agent_version
from benchapp.api.framework.answers import ApiAnswer
from benchapp.api.framework.parameters import refuse_parameters
from benchapp.api.framework.permissions import MayRead, read_api_token
from benchapp.api.framework.responses import answer_json
from benchapp.api.framework.view import ApiView
from benchapp.queries.hosts.agent_versions import is_in_rollout


class AgentReleaseAnswer(ApiAnswer, kw_only=True, frozen=True):
    version: str
    sha256: Annotated[str, Meta(description="of the file, hexadecimal")]
    size_bytes: int
    signature: Annotated[
        str | None, Meta(description="Ed25519 signature of the file in Base64; null: not configured")
    ]
    rollout_percent: Annotated[
        int, Meta(description="share of the hosts that may install it automatically", ge=0, le=100)
    ]
    is_offered: Annotated[
        bool | None,
        Meta(description="whether the host of the token is one of these; null: not the token of a host"),
    ]
    url: str


class AgentRelease(ApiView):
    """The agent that this server ships."""

    permission_classes = [MayRead]
    admits_ingest = True

    @extend_schema(operation_id="read_agent_release", responses=AgentReleaseAnswer)
    def get(self, request: Request) -> HttpResponse:
        """Return version, digest and signature of the agent, and whether the roll-out has reached this host."""
        refuse_parameters(request)
        token = read_api_token(request)
        host = token.host if token is not None else None
        archive, percent = read_agent_archive(), settings.AGENT_ROLLOUT_PERCENT
        answer = AgentReleaseAnswer(
            version=read_agent_version(),
            sha256=archive.digest,
            size_bytes=len(archive.content),
            signature=settings.AGENT_SIGNATURE or None,
            rollout_percent=percent,
            is_offered=None if host is None else is_in_rollout(host.name, percent),
            url="/agent/bench-agent.pyz",
        )
        return answer_json(request, answer)
