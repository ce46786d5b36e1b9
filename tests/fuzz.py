"""Every operation of the API with each kind of token and generated requests, against servers: `make api-fuzz`.

Not collected by `make test`. FUZZ_CASES: at least so many requests. The requests are the same in every run.
"""

import json
import math
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from benchapp.framework.api.problems import PROBLEMS
from benchapp.framework.pages.number_columns import REJECTED
from tests.clusters import make_place
from tests.envelopes import pack_envelope
from tests.servers import Servers, wait_for

CASES = int(os.environ.get("FUZZ_CASES", "5000"))
# Of each operation, spread over all: their number grows with the parameters, up to 367.
BOUNDARY_CASES = 12
# Of the HTTP server, without a body.
HEADERS_TOO_LARGE = 431
# By their share of the requests: most of those that a token may not send are answered before their parameters.
SENDERS = {"nobody": 1, "ingest": 2, "read": 3, "admin": 5, "enroll": 1}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# Run by the servers: one of everything, and a token of each kind; prints them as JSON.
SEED = """
import json
from benchapp.models import Host, Role, Study, User
from benchapp.accounts.write.tokens import issue_token
from benchapp.storage.write.hosts import issue_host_token
from tests.factories import make_change, make_correction, make_detection_policy, make_dry_run, make_incident
from tests.factories import (
    make_planned_event,
    make_target_mapping,
    make_price,
    make_signed_link,
    make_request_policy,
    make_run_request,
    make_schedule_adoption,
    make_series,
    make_wanted_schedule,
)
from tests.received_notices import make_subscription
person = User.objects.create(username="fuzz", role=Role.ADMIN, password="!")
ingest = issue_host_token("fuzz-1")
tokens = {scope: issue_token(scope=scope, created_by=person)[1] for scope in ("read", "admin", "enroll")}
host = Host.objects.get(name="fuzz-1")
make_request_policy(host)
make_schedule_adoption(host)
spare, _ = issue_token(scope="ingest", host=host)
study = Study.objects.create(title="Disks", panels=[], owner=person)
known = {
    "public_id": spare.public_id,
    "study_id": study.pk,
    "incident_id": make_incident(changes=[make_change(make_series([1.0, 2.0]))]).pk,
    "planned_event_id": make_planned_event().pk,
    "correction_id": make_correction().pk,
    "policy_id": make_detection_policy().pk,
    "dry_run_id": make_dry_run().pk,
    "price_id": make_price().pk,
    "mapping_id": make_target_mapping().pk,
    "link_id": make_signed_link(created_by=person).pk,
    "wanted_id": make_wanted_schedule().pk,
    "request_id": str(make_run_request(host).pk),
    "subscription_id": make_subscription(person, is_confirmed=False).pk,
}
print(json.dumps({"tokens": {**tokens, "ingest": ingest}, "known": known}))
"""


@schemathesis.serializer("application/x-ndjson")
def send_lines(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogateescape")


@dataclass
class Stack:
    """Servers with a few runs. known: path parameters that find something; answers: their number by status."""

    servers: Servers
    tokens: dict[str, str]
    known: dict[str, Any]
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)

    def find_headers(self, sender: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[sender]}"} if sender in self.tokens else {}


@pytest.fixture(scope="module")
def stack(migrated_cluster: Path) -> Iterator[Stack]:
    servers = Servers(directory=make_place("bs-"), cluster=migrated_cluster)
    try:
        servers.start_postgres()
        servers.start_valkey()
        servers.start_web()
        servers.start_worker()
        made = json.loads(servers.manage("shell", "--no-imports", "-c", SEED).strip().splitlines()[-1])
        ids = []
        for day in range(1, 13):
            body = pack_envelope(started_at=f"2026-11-{day:02}T10:00:00Z", finished_at=None)
            status, answer = servers.post("/api/v1/submissions", body, made["tokens"]["ingest"])
            assert status == 202, answer
            ids.append(answer["id"])
        waiting = "SELECT count(*) FROM benchapp_submission WHERE state <> 'stored'"
        wait_for(lambda: servers.query(waiting) == [(0,)], within_s=120, what="the runs stored")
        ((run_id, series_id),) = servers.query("SELECT max(run_id), max(series_id) FROM benchapp_measurement")
        known = {
            **made["known"],
            "name": "fuzz-1",
            "dimension_name": "volume_type",
            "submission_id": ids[0],
            "run_id": run_id,
            "series_id": series_id,
        }
        yield Stack(servers, made["tokens"], known)
    finally:
        servers.stop()


@pytest.fixture(scope="module")
def schema(stack: Stack) -> Any:
    loaded = schemathesis.openapi.from_url(f"http://127.0.0.1:{stack.servers.port}/api/v1/schema")
    # Every method that an address does not have is a test of its own: tests/framework/api/test_openapi.py.
    loaded.config.phases.coverage.unexpected_methods = set()
    return loaded


def list_operations(schema: Any) -> list[tuple[str, str]]:
    return [
        (method, path) for path in schema.raw_schema["paths"] for method in schema.raw_schema["paths"][path]
    ]


def check_problem(response: Any) -> None:
    """A refusal is a problem with a documented code, in the words of the API."""
    if response.status_code >= 400:
        problem = json.loads(response.content)
        assert problem["code"] in {*PROBLEMS, *REJECTED}, problem
        assert problem["status"] == response.status_code
        assert 0 < len(problem["detail"]) < 2000


def test_no_operation_breaks_its_description(stack: Stack, schema: Any, capsys: Any) -> None:
    operations = list_operations(schema)
    # Operations without parameters have fewer different requests.
    share = math.ceil(1.1 * CASES / (len(operations) * sum(SENDERS.values())))
    failures: dict[str, str] = {}

    for method, path in operations:
        for sender, weight in SENDERS.items():
            try:
                fuzz(stack, schema, method, path, sender=sender, examples=weight * share)
            except BaseException as failure:
                if isinstance(failure, KeyboardInterrupt):
                    raise
                failures[f"{method.upper()} {path} as {sender}"] = describe(failure)

    total = sum(stack.answers.values())
    with capsys.disabled():
        print(f"\n{len(operations)} operations, {len(SENDERS)} senders, {total} requests")
        for sender in SENDERS:
            statuses = Counter({status: n for (who, status), n in stack.answers.items() if who == sender})
            print(f"  {sender:8}", *(f"{status}: {n}" for status, n in sorted(statuses.items())), sep="  ")
        for name, text in failures.items():
            print(f"  FAILED {name}\n    {text}")
    assert failures == {}
    assert total >= CASES


def describe(failure: BaseException) -> str:
    parts = [failure]
    while parts and isinstance(parts[0], BaseExceptionGroup):
        parts = list(parts[0].exceptions)
    return f"{type(parts[0]).__name__}: {parts[0]}"[:1500]


def fuzz(stack: Stack, schema: Any, method: str, path: str, *, sender: str, examples: int) -> None:
    """Send generated requests of one operation; every other one names something that exists.

    An admin sends boundary values of all parameters besides.
    """
    base_url, headers = f"http://127.0.0.1:{stack.servers.port}", stack.find_headers(sender)
    sent = 0

    def check(case: Any) -> None:
        nonlocal sent
        sent += 1
        if sent % 2 and case.path_parameters:
            case.path_parameters = {
                name: stack.known.get(name, value) for name, value in case.path_parameters.items()
            }
        response = case.call(base_url=base_url, headers=headers)
        stack.answers[sender, response.status_code] += 1
        if response.status_code == HEADERS_TOO_LARGE:
            return  # The address is too long for the HTTP server, and does not reach the application.
        case.validate_response(response, checks=CHECKS)
        check_problem(response)

    test = build_operation_test(
        config=schema.config,
        operation=schema[path][method.upper()],
        test_func=check,
        given_kwargs={},
        feedback=FeedbackSources(),
        explicit_settings=settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    boundaries = test.hypothesis_explicit_examples if sender == "admin" else []
    test.hypothesis_explicit_examples = boundaries[:: math.ceil(len(boundaries) / BOUNDARY_CASES) or 1]
    test()
