"""The OpenAPI document: committed, complete, and true."""

import gc
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from uuid import UUID, uuid4

import pytest
import schemathesis
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import Client
from django.urls import resolve, reverse
from rest_framework.fields import empty
from rest_framework.serializers import Serializer, ValidationError
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
)

from benchapp.framework.api.answers import ApiAnswer
from benchapp.framework.api.openapi import make_schema
from benchapp.framework.api.parameters import DaysParameters
from benchapp.incidents.actions.triage import acknowledge
from benchapp.incidents.actions.undo import take_bulk_steps
from benchapp.models import FrozenPanel, Kind, Role, Scope, Study, User
from benchapp.overview.api.urls import urlpatterns
from benchapp.reports.write import store_snapshot
from benchapp.series.api import series as series_resource
from tests.envelopes import pack_envelope
from tests.factories import (
    make_change,
    make_correction,
    make_detection_policy,
    make_dry_run,
    make_host,
    make_incident,
    make_measurement,
    make_planned_event,
    make_price,
    make_request_policy,
    make_run,
    make_run_request,
    make_schedule_adoption,
    make_series,
    make_signed_link,
    make_spare_hosts,
    make_submission,
    make_target,
    make_target_mapping,
    make_token,
    make_user,
    make_wanted_schedule,
)
from tests.received_notices import make_subscription
from tests.shared_rows import shared_rows

FROZEN = FrozenPanel(
    "scaling", "x=volume_count", "Reads", content="", width=1, height=1, images={"light": b"PNG"}
)


def find_path(path):
    """Return the path as the document has it."""
    return path.replace("{run_of_agent}", "{run_id}").replace("{unconfirmed_id}", "{subscription_id}")


@cache
def load_schema():
    """Return the document of the API."""
    schema = schemathesis.openapi.from_dict(make_schema()[0])
    schema.app, schema.location = get_wsgi_application(), "/api/v1/schema"
    return schema


@pytest.fixture
def one_transaction(db):
    """Keep the test's connection open between requests, as Django's own test client does."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@dataclass
class Rows:
    """One of everything: path parameters that find them, and headers of who asks."""

    things: dict[str, Any]
    # Of a token that may do everything but post results.
    bearer: dict[str, str]
    # Of a host's own token; the host has a request.
    bearer_of_host: dict[str, str]


@shared_rows
def rows() -> Rows:
    """Make one of everything."""
    person = make_user(Role.ADMIN)
    admin, host = make_token(Scope.ADMIN, created_by=person)[1], make_token(Scope.INGEST)
    make_run_request(host[0].host, id=REQUEST_OF_HOST)
    return Rows(
        {**make_things(), **make_more_things(person)},
        *({"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"} for token in (admin, host[1])),
    )


def make_things() -> dict[str, Any]:
    """Make one of what has an address; return the path parameters that find them."""
    make_spare_hosts()
    host = make_host("db-7", pool="")
    make_request_policy(host, quiet_hours=["08:00-18:00"])
    make_schedule_adoption(host)
    target = make_target(filesystem="xfs", target_name="=1+1", volume_size_bytes=500 * 2**30)
    series = make_series([10.0, None, 30.0], host=host, target=target)
    run = make_run(
        host, target=target, labels={"rack": "r1"}, warnings=[{"code": "a", "where": "b", "message": "c"}]
    )
    make_measurement(run, series, percentiles={"99": 8.5}, missing={"latency": "not-measured"}, iops=1.5)
    token, _ = make_token(host=host)
    panel = {"kind": "scaling", "query": "x=volume_count", "title": "", "text": ""}
    study = Study.objects.create(title="Disks", panels=[panel])
    return {
        "name": "db-7",
        "image_format": "svg",
        "dimension_name": "volume_type",
        "run_id": run.id,
        "series_id": series.id,
        "submission_id": str(run.submission_id),
        "public_id": token.public_id,
        "incident_id": make_incident(changes=[make_change(series)]).pk,
        "bulk": str(uuid4()),
        "study_id": store_snapshot(study.pk, [FROZEN], by=None).study_id,
        "place": 1,
        "planned_event_id": make_planned_event().pk,
        "correction_id": make_correction().pk,
        "policy_id": make_detection_policy().pk,
        "dry_run_id": make_dry_run().pk,
        "price_id": make_price().pk,
        "mapping_id": make_target_mapping().pk,
        "link_id": make_signed_link(created_by=make_user()).pk,
        "wanted_id": make_wanted_schedule(parameters={"runtime": 5}).pk,
        "subscription_id": make_subscription().pk,
        "request_id": str(make_run_request(host, parameters={"runtime": 5}).pk),
    }


def make_more_things(caller: User) -> dict[str, Any]:
    """Make a run of an agent, whose output is an envelope, and the caller's own subscription, not confirmed."""
    host = make_host("db-8")
    make_series([11.0, 12.0], host=host)
    submission = make_submission(host, kind=Kind.ENVELOPE, body=pack_envelope())
    triaged = make_incident().pk
    report = take_bulk_steps({triaged: partial(acknowledge, triaged, by=caller)})
    return {
        "run_of_agent": make_run(host, submission=submission).pk,
        "unconfirmed_id": make_subscription(caller, is_confirmed=False).pk,
        "bulk": str(UUID(report.bulk)),
    }


# A request for every operation: (method, path, query, body). Those of a host's own token are in OF_A_HOST.
LATER = "2027-01-01T00:00:00Z"
EXAMPLES_OF_ANSWERS = [
    ("GET", "/api/v1/", {}, None),
    ("GET", "/api/v1/audit", {}, None),
    ("GET", "/api/v1/audit", {"format": "ndjson"}, None),
    ("GET", "/api/v1/status", {}, None),
    ("GET", "/api/v1/changes", {}, None),
    ("GET", "/api/v1/changes", {"format": "csv"}, None),
    ("GET", "/api/v1/comparison", {"a": "host:db-7", "b": "host:db-8"}, None),
    ("GET", "/api/v1/comparison", {"a": "host:db-7", "b": "host:db-8", "format": "ndjson"}, None),
    ("GET", "/api/v1/charts/comparison.{image_format}", {"a": "host:db-7", "b": "host:db-8"}, None),
    ("GET", "/api/v1/charts/history.{image_format}", {}, None),
    ("GET", "/api/v1/charts/host.{image_format}", {"host": "db-7"}, None),
    ("GET", "/api/v1/charts/incident.{image_format}", {"incident": "{incident_id}"}, None),
    ("GET", "/api/v1/charts/layouts.{image_format}", {"iops": "1000"}, None),
    ("GET", "/api/v1/charts/matrix.{image_format}", {}, None),
    ("GET", "/api/v1/charts/percentiles.{image_format}", {"series": "{series_id}"}, None),
    ("GET", "/api/v1/charts/scaling.{image_format}", {}, None),
    ("GET", "/api/v1/scaling", {"q": "host:db-7", "x": "extents"}, None),
    ("GET", "/api/v1/scaling", {"q": "host:db-7", "x": "extents", "format": "csv"}, None),
    ("GET", "/api/v1/dimensions", {}, None),
    ("GET", "/api/v1/dimensions/{dimension_name}/values", {}, None),
    ("POST", "/api/v1/enrollments", {}, {"name": "db-9"}),
    ("GET", "/api/v1/fleet/changes", {}, None),
    ("GET", "/api/v1/fleet/levels", {}, None),
    ("GET", "/api/v1/fleet/levels", {"format": "csv"}, None),
    ("GET", "/api/v1/fleet/regressions", {"q": "bs:4k"}, None),
    ("GET", "/api/v1/fleet/submissions", {}, None),
    ("GET", "/api/v1/layouts", {"iops": "1"}, None),
    ("GET", "/api/v1/layouts", {"iops": "1", "format": "csv"}, None),
    ("GET", "/api/v1/experiment", {"a": "host:db-7", "b": "host:db-8", "from": "2026-01-01"}, None),
    (
        "GET",
        "/api/v1/experiment",
        {"a": "host:db-7", "b": "host:db-8", "from": "2026-01-01", "format": "csv"},
        None,
    ),
    ("GET", "/api/v1/prices", {}, None),
    (
        "PUT",
        "/api/v1/prices",
        {},
        {
            "prices": [
                {"volume_type": "io2", "currency": "USD", "valid_from": "2026-01-01", "per_gib_month": 0.1}
            ]
        },
    ),
    ("DELETE", "/api/v1/prices/{price_id}", {}, None),
    ("GET", "/api/v1/corrections", {}, None),
    ("POST", "/api/v1/corrections", {}, {"kind": "deletion", "filter": "host:*", "reason": "trial"}),
    ("GET", "/api/v1/corrections/{correction_id}", {}, None),
    ("PATCH", "/api/v1/corrections/{correction_id}", {}, {"is_canceled": True}),
    ("DELETE", "/api/v1/corrections/{correction_id}", {}, None),
    ("POST", "/api/v1/splits", {}, {"host": "spare-1", "name": "spare-2"}),
    ("POST", "/api/v1/merges", {}, {"host": "spare-3", "into": "spare-1"}),
    ("POST", "/api/v1/renames", {}, {"scope": "host:spare-1", "name": "spare-4"}),
    ("GET", "/api/v1/detection-policies", {}, None),
    (
        "POST",
        "/api/v1/detection-policies",
        {},
        {"metric": "iops", "smallest_change": 0.1, "filter": "host:db-1", "reason": "noisy"},
    ),
    ("GET", "/api/v1/detection-policies/{policy_id}", {}, None),
    ("PATCH", "/api/v1/detection-policies/{policy_id}", {}, {"is_canceled": True}),
    ("DELETE", "/api/v1/detection-policies/{policy_id}", {}, None),
    ("POST", "/api/v1/detection-dry-runs", {}, {"metric": "iops", "smallest_change": 0.02}),
    ("GET", "/api/v1/detection-dry-runs/{dry_run_id}", {}, None),
    ("DELETE", "/api/v1/detection-dry-runs/{dry_run_id}", {}, None),
    ("GET", "/api/v1/planned-events", {}, None),
    (
        "POST",
        "/api/v1/planned-events",
        {},
        {"kind": "maintenance", "from_at": "2026-12-31T00:00:00Z", "to_at": LATER, "reason": "disks"},
    ),
    (
        "POST",
        "/api/v1/planned-events",
        {},
        {
            "kind": "change",
            "from_at": "2026-12-31T00:00:00Z",
            "to_at": LATER,
            "reason": "disks",
            "dry_run": True,
        },
    ),
    ("GET", "/api/v1/planned-events/{planned_event_id}", {}, None),
    ("PATCH", "/api/v1/planned-events/{planned_event_id}", {}, {"is_canceled": True}),
    ("DELETE", "/api/v1/planned-events/{planned_event_id}", {}, None),
    ("GET", "/api/v1/history", {}, None),
    ("GET", "/api/v1/history", {"resolution": 1, "metrics": "iops,latency_p99_ns"}, None),
    ("GET", "/api/v1/history", {"format": "csv"}, None),
    ("GET", "/api/v1/hosts", {}, None),
    ("GET", "/api/v1/hosts", {"fields": "name"}, None),
    ("GET", "/api/v1/hosts/{name}", {}, None),
    ("GET", "/api/v1/hosts/{name}/pool-move", {"pool": "blue"}, None),
    ("GET", "/api/v1/target-mappings", {}, None),
    ("GET", "/api/v1/target-mappings", {"format": "csv"}, None),
    ("POST", "/api/v1/target-mappings", {}, {"scope": "host:db-7", "pattern": "sd*", "target_name": "disk"}),
    ("DELETE", "/api/v1/target-mappings/{mapping_id}", {}, None),
    ("GET", "/api/v1/hosts/{name}/tokens", {}, None),
    ("POST", "/api/v1/hosts/{name}/tokens", {}, {"label": "cron"}),
    ("GET", "/api/v1/status-badge", {}, None),
    ("GET", "/api/v1/status-badge", {"format": "svg"}, None),
    ("GET", "/api/v1/incidents/feed", {}, None),
    ("GET", "/api/v1/links", {}, None),
    ("DELETE", "/api/v1/links/{link_id}", {}, None),
    ("POST", "/api/v1/links", {}, {"url": "/api/v1/status-badge?q=host:db-1", "expires_at": "+30d"}),
    ("GET", "/api/v1/confirmation-policies", {}, None),
    ("PUT", "/api/v1/confirmation-policies", {}, {"pool": "blue", "runs": 2, "daily_share": 0.1}),
    ("GET", "/api/v1/schedules", {}, None),
    ("GET", "/api/v1/schedules", {"format": "csv"}, None),
    ("GET", "/api/v1/hosts/{name}/schedule", {}, None),
    ("GET", "/api/v1/wanted-schedules", {}, None),
    (
        "POST",
        "/api/v1/wanted-schedules",
        {},
        {"pool": "blue", "profile": "quick", "every_s": 21600, "directory": "/data"},
    ),
    ("GET", "/api/v1/wanted-schedules/{wanted_id}", {}, None),
    (
        "PUT",
        "/api/v1/wanted-schedules/{wanted_id}",
        {},
        {"profile": "quick", "every_s": 3600, "directory": "/data", "parameters": {"runtime": 5}},
    ),
    ("DELETE", "/api/v1/wanted-schedules/{wanted_id}", {}, None),
    ("GET", "/api/v1/hosts/{name}/attempts", {}, None),
    ("GET", "/api/v1/hosts/{name}/attempts", {"format": "csv"}, None),
    ("GET", "/api/v1/hosts/{name}/requests", {}, None),
    ("GET", "/api/v1/hosts/{name}/requests", {"format": "csv"}, None),
    ("POST", "/api/v1/hosts/{name}/requests", {}, {"profile": "quick", "directory": "/data"}),
    ("GET", "/api/v1/hosts/{name}/requests/{request_id}", {}, None),
    ("DELETE", "/api/v1/hosts/{name}/requests/{request_id}", {}, None),
    ("GET", "/api/v1/incidents", {}, None),
    ("POST", "/api/v1/incidents/bulk", {}, {"incidents": [1, 2], "action": "resolve", "verdict": "noise"}),
    ("DELETE", "/api/v1/incidents/bulk/{bulk}", {}, None),
    ("GET", "/api/v1/incidents/{incident_id}", {}, None),
    ("PATCH", "/api/v1/incidents/{incident_id}", {}, {"comment": "seen"}),
    ("POST", "/api/v1/incidents/{incident_id}/baseline", {}, {"dry_run": True}),
    ("POST", "/api/v1/incidents/{incident_id}/baseline", {}, {"comment": "new disks"}),
    ("GET", "/api/v1/matrix", {}, None),
    ("GET", "/api/v1/matrix", {"format": "csv"}, None),
    ("GET", "/api/v1/runs", {}, None),
    ("GET", "/api/v1/runs", {"fields": "id,host"}, None),
    ("GET", "/api/v1/runs/{run_id}", {}, None),
    ("PUT", "/api/v1/runs/{run_id}/exclusion", {}, {"reason": "noise"}),
    ("DELETE", "/api/v1/runs/{run_id}/exclusion", {}, None),
    ("GET", "/api/v1/runs/{run_id}/gate", {}, None),
    ("GET", "/api/v1/runs/{run_id}/gate", {"baseline": "..2027-01-01", "format": "csv"}, None),
    ("GET", "/api/v1/runs/newest/output", {}, None),
    ("GET", "/api/v1/runs/{run_id}/output", {}, None),
    ("GET", "/api/v1/runs/{run_id}/output", {"part": "fio"}, None),
    ("GET", "/api/v1/runs/{run_of_agent}/output", {}, None),
    ("GET", "/api/v1/runs/{run_of_agent}/output", {"part": "fio"}, None),
    ("GET", "/api/v1/runs/{run_of_agent}/report", {}, None),
    ("GET", "/api/v1/runs/{run_id}/traces", {}, None),
    ("GET", "/api/v1/runs/{run_id}/traces", {"format": "ndjson"}, None),
    ("GET", "/api/v1/scaling", {}, None),
    ("GET", "/api/v1/points", {}, None),
    ("GET", "/api/v1/points", {"shape": "long", "fields": "series,label.rack"}, None),
    ("GET", "/api/v1/points", {"format": "csv"}, None),
    ("GET", "/api/v1/points", {"format": "parquet"}, None),
    ("GET", "/api/v1/scaling", {"format": "csv"}, None),
    ("GET", "/api/v1/schema", {}, None),
    ("GET", "/api/v1/series", {}, None),
    ("GET", "/api/v1/series", {"fields": "id"}, None),
    ("GET", "/api/v1/series", {"format": "ndjson"}, None),
    ("GET", "/api/v1/series/{series_id}", {}, None),
    ("GET", "/api/v1/series/{series_id}/detection", {}, None),
    ("GET", "/api/v1/series/{series_id}/histogram", {}, None),
    ("GET", "/api/v1/series/{series_id}/histogram", {"format": "csv"}, None),
    ("GET", "/api/v1/series/{series_id}/percentiles", {"resolution": 1}, None),
    ("GET", "/api/v1/series/{series_id}/percentiles", {"format": "csv"}, None),
    ("GET", "/api/v1/series/{series_id}/points", {}, None),
    ("GET", "/api/v1/series/{series_id}/points", {"metrics": "iops", "rolling": 3}, None),
    ("GET", "/api/v1/series/{series_id}/points", {"resolution": 2}, None),
    ("GET", "/api/v1/series/{series_id}/points", {"resolution": 2, "format": "csv"}, None),
    ("GET", "/api/v1/series/{series_id}/summary", {}, None),
    ("GET", "/api/v1/studies", {}, None),
    ("POST", "/api/v1/studies", {}, {"title": "Disks"}),
    ("GET", "/api/v1/studies/{study_id}", {}, None),
    ("PATCH", "/api/v1/studies/{study_id}", {}, {"title": "Other disks"}),
    ("GET", "/api/v1/studies/{study_id}/snapshot", {}, None),
    ("POST", "/api/v1/studies/{study_id}/snapshot", {}, None),
    ("DELETE", "/api/v1/studies/{study_id}/snapshot", {}, None),
    ("GET", "/api/v1/studies/{study_id}/snapshot/charts/{place}", {}, None),
    ("DELETE", "/api/v1/studies/{study_id}", {}, None),
    ("GET", "/api/v1/submissions", {}, None),
    ("GET", "/api/v1/submissions/{submission_id}", {}, None),
    ("GET", "/api/v1/subscriptions", {}, None),
    ("POST", "/api/v1/subscriptions", {}, {"channel": "email", "address": "anna@example.org"}),
    ("GET", "/api/v1/subscriptions/{subscription_id}", {}, None),
    ("DELETE", "/api/v1/subscriptions/{subscription_id}", {}, None),
    ("POST", "/api/v1/subscriptions/{subscription_id}/test", {}, None),
    ("POST", "/api/v1/subscriptions/{unconfirmed_id}/confirmation", {}, None),
    ("PATCH", "/api/v1/hosts/{name}", {}, {"pool": "blue"}),
    ("GET", "/api/v1/tokens", {}, None),
    ("GET", "/api/v1/tokens", {"format": "csv", "valid": "true"}, None),
    ("POST", "/api/v1/tokens", {}, {"scope": "read", "label": "dashboard"}),
    ("GET", "/api/v1/tokens/{public_id}", {}, None),
    ("PATCH", "/api/v1/tokens/{public_id}", {}, {"label": "cron"}),
    ("POST", "/api/v1/tokens/{public_id}/rotation", {}, {"overlap_s": 3600}),
    ("DELETE", "/api/v1/tokens/{public_id}", {}, None),
]
REQUEST_OF_HOST = UUID(int=18)
OF_A_HOST = [
    ("GET", "/api/v1/hosts/me", {}, None),
    ("GET", "/api/v1/hosts/me/schedule", {}, None),
    (
        "POST",
        "/api/v1/hosts/me/schedule/adoption",
        {},
        {
            "is_allowed": True,
            "profiles": [{"profile": "quick", "parameters": {}}],
            "directories": ["/data"],
            "per_day": 24,
            "quiet_hours": [],
            "version": "",
            "refused": [],
            "problem": "",
        },
    ),
    (
        "PUT",
        "/api/v1/hosts/me/schedule",
        {},
        {"entries": [{"profile": "quick", "every_s": 3600, "directory": "/data"}]},
    ),
    (
        "PATCH",
        "/api/v1/hosts/me/requests/{request_id}",
        {},
        {"state": "running", "duration_s": 18.0},
    ),
    (
        "POST",
        "/api/v1/hosts/me/requests/next",
        {},
        {
            "profiles": [{"profile": "quick", "parameters": {"bs": {"values": [4096]}}}],
            "directories": ["/data"],
            "per_day": 2,
            "quiet_hours": ["08:00-18:00"],
        },
    ),
]
# Answered before Django: tests/intake/api/test_posts.py and test_wire.py.
INTAKE = [("POST", path) for path in ("/api/v1/submissions", "/api/v1/submissions/batch", "/api/v1/fio")]


def test_every_operation_has_an_example_of_its_answer():
    documented = {
        (method.upper(), path)
        for path, operations in load_schema().raw_schema["paths"].items()
        for method in operations
    }

    examples = {(method, find_path(path)) for method, path, *_ in [*EXAMPLES_OF_ANSWERS, *OF_A_HOST]}

    assert examples | set(INTAKE) == documented


@pytest.mark.parametrize(("method", "path", "query", "body"), EXAMPLES_OF_ANSWERS)
def test_answer_is_as_documented(method, path, query, body, one_transaction, rows):
    check_answer((method, path, query, body), rows.things, rows.bearer)


@pytest.mark.parametrize(("method", "path", "query", "body"), OF_A_HOST)
def test_answer_to_a_host_is_as_documented(method, path, query, body, one_transaction, rows):
    check_answer((method, path, query, body), {"request_id": str(REQUEST_OF_HOST)}, rows.bearer_of_host)


def fill(value, values):
    """Return the value of a query parameter; "{incident_id}" is an id of `rows`."""
    return str(values[value[1:-1]]) if isinstance(value, str) and value[:1] == "{" else value


def check_answer(example, values, headers):
    """Ask, and hold status, type and body of a success against the document."""
    method, path, query, body = example
    operation = load_schema()[find_path(path)][method]
    names = dict(zip(re.findall(r"{(\w+)}", find_path(path)), re.findall(r"{(\w+)}", path), strict=True))
    given = {} if body is None else {"body": body, "media_type": "application/json"}
    case = operation.Case(
        path_parameters={name: values[own] for name, own in names.items()},
        query={name: fill(value, values) for name, value in query.items()},
        **given,
    )

    response = case.call(headers=headers)

    documented = load_schema().raw_schema["paths"][find_path(path)][method.lower()]["responses"]
    assert str(response.status_code) in documented, response.text
    # Lines of nothing are nothing.
    is_empty = "content" not in documented[str(response.status_code)] or query.get("format") == "ndjson"
    assert response.content or is_empty
    case.validate_response(response, checks=[content_type_conformance, response_schema_conformance])
    content = documented[str(response.status_code)].get("content", {}).get("application/json", {})
    if response.headers.get("Content-Type") == ["application/json"] and content:
        assert find_differences(response.json(), content["schema"], is_complete=False) == []


def test_allow_names_the_documented_methods_and_no_other_is_taken(rows):
    person, host = Client(headers=rows.bearer), Client(headers=rows.bearer_of_host)

    wrong = [
        line
        for path, operations in load_schema().raw_schema["paths"].items()
        for line in find_wrong_methods(
            host if path.startswith("/api/v1/hosts/me") else person,
            path.format(**rows.things),
            {method.upper() for method in operations},
        )
    ]

    assert wrong == []


def find_wrong_methods(client, address, documented):
    """Yield the methods whose status, or header Allow, is not that of a resource with these methods."""
    allowed = documented | {"OPTIONS"} | ({"HEAD"} if "GET" in documented else set())
    for method in ("OPTIONS", "GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "QUERY"):
        if method in documented:
            continue
        response = client.generic(method, address)
        names = set(response.headers.get("Allow", "").split(", "))
        if (response.status_code, names) != (204 if method == "OPTIONS" else 405, allowed):
            yield f"{method} {address}: {response.status_code}, {sorted(names)}"


def test_document_is_generated_without_warnings(tmp_path):
    call_command("spectacular", "--file", str(tmp_path / "openapi.yaml"), "--fail-on-warn")


def test_document_names_every_path_of_the_api():
    routes = {"/api/v1/" + str(pattern.pattern) for pattern in urlpatterns}

    described = {path.replace("{", "<").replace("}", ">") for path in load_schema().raw_schema["paths"]}
    assert {_without_converters(route) for route in routes} == described


def _without_converters(route: str) -> str:
    for kind in ("str", "int", "uuid", "path", "image_format"):
        route = route.replace(f"<{kind}:", "<")
    return route


def test_every_operation_admits_that_it_may_fail_and_says_how():
    for operations in load_schema().raw_schema["paths"].values():
        for operation in operations.values():
            assert "application/problem+json" in operation["responses"]["default"]["content"]


@pytest.mark.parametrize(
    ("url", "component"),
    [
        ("/api/v1/hosts/db-7", "HostAnswer"),
        ("/api/v1/hosts/db-7/tokens", "TokenList"),
        ("/api/v1/runs", "RunPage"),
        ("/api/v1/runs/{run_id}", "RunDetailAnswer"),
        ("/api/v1/series", "SeriesPage"),
        ("/api/v1/series/{series_id}", "SeriesDetailAnswer"),
        ("/api/v1/series/{series_id}/points?rolling=3", "PointPage"),
        ("/api/v1/series/{series_id}/summary", "SummaryAnswer"),
        ("/api/v1/submissions/{submission_id}", "SubmissionAnswer"),
        ("/api/v1/planned-events", "PlannedEventPage"),
        ("/api/v1/planned-events/{planned_event_id}", "PlannedEventAnswer"),
    ],
)
def test_answer_has_exactly_the_members_of_its_description(admin, rows, url, component):
    body = admin.get(url.format(**rows.things)).json()

    assert find_differences(body, refer(component)) == []


def find_differences(body, described, where="", *, is_complete=True) -> list[str]:
    """Return the members that only one of the two knows, however deep; not is_complete: only those of the answer."""
    described = resolve_schema(described)
    if isinstance(body, list):
        return [
            line
            for part in body
            for line in find_differences(part, described.get("items", {}), where, is_complete=is_complete)
        ]
    # An object without properties may have any members.
    properties = described.get("properties")
    if not isinstance(body, dict) or properties is None:
        return []
    names = set(body) ^ set(properties) if is_complete else set(body) - set(properties)
    lines = [f"{where}/{name}" for name in sorted(names)]
    for name in set(body) & set(properties):
        lines += find_differences(body[name], properties[name], f"{where}/{name}", is_complete=is_complete)
    return lines


def refer(component):
    """Return the reference to a component of the document."""
    return {"$ref": f"#/components/schemas/{component}"}


def resolve_schema(described):
    """Follow a reference, also one beside null."""
    kinds = [kind for kind in described.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        described = kinds[0]
    if "$ref" in described:
        return load_schema().raw_schema["components"]["schemas"][described["$ref"].rpartition("/")[2]]
    return described


def test_every_type_of_an_answer_has_a_name_of_its_own():
    gc.collect()  # the decorator `with_columns` leaves the undecorated classes behind
    names = Counter(kind.__name__ for kind in list_subclasses(ApiAnswer))

    assert [name for name, count in names.items() if count > 1] == []
    assert len(names) > 50


def list_subclasses(kind):
    """Return all classes below one."""
    return [each for own in kind.__subclasses__() for each in (own, *list_subclasses(own))]


def test_document_is_openapi_3_1():
    # Valid by that version: `--validate` of the test of the committed document.
    assert load_schema().raw_schema["openapi"].startswith("3.1.")
    assert find_members(load_schema().raw_schema, "nullable") == []


def test_every_number_has_64_bits():
    """Generators take a number without a format for one of 32 bits."""
    schemas = list_typed(load_schema().raw_schema)

    assert [each for each in schemas if "integer" in each["type"] and each.get("format") != "int64"] == []
    assert [each for each in schemas if "number" in each["type"] and each.get("format") != "double"] == []


def test_null_beside_an_object_or_a_list_is_an_alternative():
    schemas = list_typed(load_schema().raw_schema)

    assert [
        each for each in schemas if len(each["type"]) == 2 and {"object", "array"} & {*each["type"]}
    ] == []
    assert max(len(each["type"]) for each in schemas if isinstance(each["type"], list)) == 2


def list_typed(value) -> list:
    """Return every schema that states a type, however deep."""
    if isinstance(value, list):
        return [found for part in value for found in list_typed(part)]
    if not isinstance(value, dict):
        return []
    own = [value] if isinstance(value.get("type"), str | list) else []
    return own + [found for part in value.values() for found in list_typed(part)]


def test_every_default_of_an_input_is_a_valid_value():
    """Generated clients send defaults."""
    serializers = [kind() for kind in list_subclasses(Serializer) if kind.__module__.startswith("benchapp.")]

    wrong = [
        (type(serializer).__name__, name)
        for serializer in serializers
        if not isinstance(serializer, DaysParameters)
        for name, field in serializer.fields.items()
        if field.default is not empty and not is_valid(field)
    ]

    assert wrong == []


def is_valid(field) -> bool:
    """Return whether the field takes its default."""
    try:
        field.run_validation(field.get_default())
    except ValidationError:
        return False
    return True


def find_members(value, name) -> list:
    """Return the values of every member of this name, however deep."""
    if isinstance(value, list):
        return [found for part in value for found in find_members(part, name)]
    if not isinstance(value, dict):
        return []
    own = [value[name]] if name in value else []
    return own + [found for part in value.values() for found in find_members(part, name)]


def test_columns_of_the_csv_are_those_of_the_rows(admin, rows):
    row = admin.get("/api/v1/series").json()["series"][0]

    assert tuple(row) == series_resource.SERIES_COLUMNS


def test_every_address_in_an_answer_leads_somewhere(admin, rows):
    bodies = [
        admin.get(url.format(**rows.things)).json()
        for url in (
            "/api/v1/hosts/db-7",
            "/api/v1/runs",
            "/api/v1/runs/{run_id}",
            "/api/v1/series",
            "/api/v1/series/{series_id}",
            "/api/v1/submissions/{submission_id}",
        )
    ]

    found = [address for body in bodies for address in find_addresses(body)]

    assert len(found) > 10
    for address in found:
        assert resolve(address)
        assert admin.get(address).status_code in (200, 302)


def find_addresses(body) -> list[str]:
    """Return every text that begins like an address of ours."""
    if isinstance(body, dict):
        return [address for part in body.values() for address in find_addresses(part)]
    if isinstance(body, list):
        return [address for part in body for address in find_addresses(part)]
    return [body] if isinstance(body, str) and body.startswith("/") else []


def test_index_lists_what_can_be_reached(client):
    resources = client.get("/api/v1/").json()["resources"]

    assert resources["runs"] == reverse("api_runs")
    for address in resources.values():
        assert resolve(address)


def test_schema_is_served_with_an_etag(client):
    response = client.get("/api/v1/schema")

    assert response.json()["openapi"].startswith("3.")
    again = client.get("/api/v1/schema", headers={"If-None-Match": response.headers["ETag"]})
    assert again.status_code == 304
