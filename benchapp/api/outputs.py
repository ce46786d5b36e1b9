"""What the answers hold, for the OpenAPI document: hosts, tokens, submissions. Views write the rows of `rows.py`.

A test holds the two together. Runs and series have modules of their own.
"""

from typing import Final

from rest_framework import serializers

from benchapp.api.output_fields import (
    ChosenColumns,
    Output,
    PageOutput,
    maybe_number,
    maybe_text,
    maybe_time,
    number,
    text,
    time,
)
from benchapp.models import Kind, State


class ScheduleEntryOutput(Output):
    profile = text()
    every_s = number()
    splay_s = number(help_text="a run may start up to so much late")
    directory = text()
    last_run_at = maybe_time()
    expected_at = maybe_time()
    silent_since = maybe_time()


class ScheduleOutput(Output):
    since_at = time()
    told_by = text()
    entries = ScheduleEntryOutput(many=True, help_text="empty: the host runs nothing by itself")


class HostOutput(Output):
    name = text()
    pool = text(help_text="empty where the host is in no pool")
    created_at = time()
    last_seen_at = maybe_time()
    agent_version = text()
    retired_at = maybe_time()
    run_count = number()
    last_run_id = maybe_number()
    last_run_at = maybe_time()
    last_run_profile = maybe_text()
    last_run_error = maybe_number()
    expected_at = maybe_time()
    silent_since = maybe_time()
    schedule = ScheduleOutput(allow_null=True, help_text="null is unknown")
    url = text()
    page = text()


class OwnHostOutput(Output):
    name = text()
    pool = text()
    server_time = time()


class TokenOutput(Output):
    public_id = text()
    label = text()  # type: ignore[assignment]  # a serializer has a label itself
    created_at = time()
    created_by = maybe_text()
    last_used_at = maybe_time()
    expires_at = maybe_time()
    revoked_at = maybe_time()


class NewTokenOutput(Output):
    public_id = text()
    host = text()
    label = text()  # type: ignore[assignment]  # a serializer has a label itself
    created_at = time()
    expires_at = maybe_time()
    token = text(help_text="shown this once; only a digest is kept")


class EnrollmentOutput(Output):
    host = text()
    token = text(help_text="the host's own token, shown this once")
    url = text()


class ReasonOutput(Output):
    code = text()
    detail = text()


class RunLinkOutput(Output):
    id = number()
    url = text()
    page = text()


class SubmissionOutput(Output):
    id = serializers.UUIDField()
    host = text()
    kind = serializers.ChoiceField(choices=Kind.values)
    state = serializers.ChoiceField(choices=State.values)
    received_at = time()
    settled_at = maybe_time()
    reason = ReasonOutput(allow_null=True)
    attempts = number()
    body_bytes = number()
    has_body = serializers.BooleanField()
    runs = RunLinkOutput(many=True)
    url = text()


class HostRowOutput(ChosenColumns, HostOutput):
    pass


class HostPage(PageOutput):
    hosts = HostRowOutput(many=True)


class SubmissionPage(PageOutput):
    submissions = SubmissionOutput(many=True)


class TokenList(Output):
    tokens = TokenOutput(many=True)


class IndexOutput(Output):
    version = text()
    resources = serializers.DictField(child=text())


HOST_COLUMNS: Final = tuple(HostOutput().fields)
