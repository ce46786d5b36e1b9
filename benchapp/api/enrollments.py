"""POST /api/v1/enrollments: a short-lived token makes a host and gives it a token of its own."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from benchapp.api.authentication import TokenAuthentication
from benchapp.api.permissions import MayEnroll
from benchapp.api.problems import Problem
from benchapp.models import ApiToken
from benchapp.pipeline.enroll import EnrolmentRefused, enroll_host


class EnrollmentInput(serializers.Serializer[object]):
    """What a host says of itself."""

    name = serializers.CharField(max_length=253)
    agent_version = serializers.CharField(max_length=50, required=False, default="", allow_blank=True)


class EnrollmentOutput(serializers.Serializer[object]):
    """The host as it is known now; the token is shown this once."""

    host = serializers.CharField()
    token = serializers.CharField()
    url = serializers.CharField()


class EnrollmentsView(APIView):
    """Enrol a host."""

    authentication_classes = (TokenAuthentication,)
    permission_classes = (MayEnroll,)

    @extend_schema(request=EnrollmentInput, responses={201: EnrollmentOutput})
    def post(self, request: Request) -> Response:
        """Make the host and its token."""
        given = EnrollmentInput(data=request.data)
        given.is_valid(raise_exception=True)
        assert isinstance(request.auth, ApiToken)
        try:
            host, plaintext = enroll_host(
                given.validated_data["name"],
                enrolment=request.auth,
                agent_version=given.validated_data["agent_version"],
            )
        except EnrolmentRefused as refusal:
            status = 409 if refusal.code == "host-exists" else 422
            raise Problem(
                status, refusal.code, "Host not enrolled", str(refusal), pointer="/name"
            ) from refusal
        answer = {"host": host.name, "token": plaintext, "url": f"/api/v1/hosts/{host.name}"}
        return Response(EnrollmentOutput(answer).data, status=201)
