"""Readiness: what it asks, and what the pages report."""

from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest
from django.db import connection
from django.urls import reverse
from redis import Redis

from benchapp import tasks
from benchapp.framework.queue import BrokerState, check_broker
from benchapp.framework.readiness import DiskSpace, Readiness
from benchapp.models import Heartbeat, Pulse, Role
from tests.factories import make_run
from tests.pages import Page
from tests.stack import RUNTIME, Server
from tests.visitors import sign_in


def make_readiness(**changes: object) -> Readiness:
    well = {
        "broker": BrokerState.OK,
        "worker_silence_s": 1.0,
        "beat_silence_s": 1.0,
        "oldest_waiting_s": 0.0,
        "disk": None,
    }
    return Readiness(**(well | changes))  # type: ignore[arg-type]


@pytest.fixture
def full_broker(valkey_server: Server) -> Iterator[None]:
    """Have a broker without memory for messages."""
    with Redis(unix_socket_path=str(RUNTIME / "s" / "valkey.sock")) as broker:
        limit = broker.config_get("maxmemory")["maxmemory"]
        broker.config_set("maxmemory", 1)
        try:
            yield
        finally:
            broker.config_set("maxmemory", limit)


def test_broker_that_answers_a_ping_but_refuses_messages_is_full(full_broker: None) -> None:
    assert check_broker() == BrokerState.FULL


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, None),
        ({"broker": BrokerState.NONE, "beat_silence_s": inf}, None),
        ({"worker_silence_s": 59.0, "beat_silence_s": 59.0, "oldest_waiting_s": 299.0}, None),
        ({"worker_silence_s": 180.0}, "No worker answers (last: 3 min ago)."),
        ({"worker_silence_s": inf}, "No worker answers (it never did)."),
        ({"beat_silence_s": 7200.0}, "No task of beat reaches a worker (last: 2 h ago)."),
        ({"broker": BrokerState.AWAY, "beat_silence_s": inf}, "The broker does not answer."),
        ({"broker": BrokerState.FULL, "beat_silence_s": inf}, "The broker is full and refuses messages."),
        ({"oldest_waiting_s": 720.0}, "The oldest waiting upload was received 12 min ago."),
        ({"disk": DiskSpace(Path("/srv"), 2**20)}, "The disk of /srv is nearly full: 1.00 MiB are free."),
    ],
)
def test_one_problem_is_described_for_its_cause(changes: dict[str, object], text: str | None) -> None:
    problems = make_readiness(**changes).problems

    assert len(problems) == (text is not None)
    assert all(problem.startswith(str(text)) for problem in problems)


@pytest.mark.django_db
def test_sweep_proves_that_beat_and_a_worker_run() -> None:
    assert set(Heartbeat.objects.read_silences().values()) == {inf}

    tasks.sweep()

    silences = Heartbeat.objects.read_silences()
    assert max(silences.values()) < 60
    assert silences.keys() == set(Pulse)


@pytest.mark.django_db
def test_heartbeat_within_a_second_of_the_last_is_not_written() -> None:
    Heartbeat.objects.record(Pulse.WORKER)
    first = Heartbeat.objects.get()

    Heartbeat.objects.record(Pulse.WORKER)
    assert Heartbeat.objects.get().seen_at == first.seen_at

    with connection.cursor() as cursor:
        cursor.execute("UPDATE benchapp_heartbeat SET seen_at = seen_at - interval '2 s'")
    Heartbeat.objects.record(Pulse.WORKER)
    assert Heartbeat.objects.get().seen_at >= first.seen_at


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("view", "has_runs", "role", "is_shown"),
    [
        ("uploads", False, Role.VIEWER, True),
        ("home", True, Role.ADMIN, True),
        ("home", False, Role.ADMIN, True),
        ("home", True, Role.VIEWER, False),
    ],
)
def test_pages_report_that_no_worker_answers_and_what_to_do(
    view: str, has_runs: bool, role: Role, is_shown: bool
) -> None:
    if has_runs:
        make_run()

    words = Page(sign_in(role).get(reverse(view))).words

    assert ("No worker answers" in words) == is_shown
    assert ("Start a worker, or read its log for the reason." in words) == is_shown
