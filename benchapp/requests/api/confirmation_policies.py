"""Automatic confirmation of regressions, per pool."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.framework.api.answers import define_answer
from benchapp.framework.api.parameters import refuse_parameters
from benchapp.framework.api.permissions import MayReadOrEdit, find_person
from benchapp.framework.api.problems import bad_value
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView, read_body
from benchapp.models import CONFIRMATION_RUNS_MAXIMUM, DAILY_SHARE_DEFAULT, DAILY_SHARE_MAXIMUM
from benchapp.requests.read.run_requests import ConfirmationPool, list_confirmation_pools
from benchapp.requests.write.confirmation import BadConfirmationPolicy, set_confirmation_policy

ConfirmationPoliciesAnswer = define_answer(
    "ConfirmationPoliciesAnswer", confirmation_policies=Sequence[ConfirmationPool]
)


class ConfirmationPolicyInput(serializers.Serializer[Any]):
    """The policy of one pool."""

    pool = serializers.CharField(allow_blank=True, max_length=100, help_text="empty: hosts without a pool")
    runs = serializers.IntegerField(
        min_value=0, max_value=CONFIRMATION_RUNS_MAXIMUM, help_text="0 removes the policy"
    )
    daily_share = serializers.FloatField(
        required=False, default=DAILY_SHARE_DEFAULT, max_value=DAILY_SHARE_MAXIMUM
    )


class ConfirmationPolicies(ApiView):
    """The policies of all pools."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="list_confirmation_policies", responses=ConfirmationPoliciesAnswer)
    def get(self, request: Request) -> HttpResponse:
        """List all pools with their policy of automatic confirmation, by name."""
        refuse_parameters(request)
        return _answer(request)

    @extend_schema(
        operation_id="set_confirmation_policy",
        request=ConfirmationPolicyInput,
        responses=ConfirmationPoliciesAnswer,
    )
    def put(self, request: Request) -> HttpResponse:
        """Set the policy of one pool, and return those of all."""
        refuse_parameters(request)
        wanted = read_body(request, ConfirmationPolicyInput)
        try:
            set_confirmation_policy(
                wanted["pool"],
                runs=wanted["runs"],
                daily_share=wanted["daily_share"],
                by=find_person(request),
            )
        except BadConfirmationPolicy as error:
            raise bad_value(error) from error
        return _answer(request)


def _answer(request: Request) -> HttpResponse:
    rows = list_confirmation_pools()
    return answer_json(request, ConfirmationPoliciesAnswer(confirmation_policies=rows))
