"""A document that takes too long delays no other, and is rejected after its second time-out."""

import re
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.utils import timezone

from benchapp.intake.normalize import batch, plan
from benchapp.intake.normalize.batch import claim_fresh, claim_retried, has_waiting, normalize_batch
from benchapp.intake.normalize.time_limit import TookTooLong, limit_time
from benchapp.models import State, Submission
from tests.factories import NOON, make_host
from tests.intake.normalize.test_batch import submit

ENDLESS = "endless: this text keeps its reader busy"


def spin() -> None:
    while True:
        pass


def match_badly() -> None:
    re.fullmatch(r"(a+)+b", "a" * 60)


def wait_for_the_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(600)")


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one text read forever, with limits of milliseconds."""
    read_output = plan.read_output

    def read_or_spin(text: bytes, **options: Any) -> Any:
        if ENDLESS.encode() in text:
            spin()
        return read_output(text, **options)

    monkeypatch.setattr(plan, "read_output", read_or_spin)
    monkeypatch.setattr(batch, "BATCH_TIME_LIMIT_S", 0.2)
    monkeypatch.setattr(batch, "DOCUMENT_LIMIT_S", 0.2)


@pytest.mark.parametrize("work", [spin, match_badly])
def test_python_and_regular_expressions_are_interrupted(work: Callable[[], None]) -> None:
    with pytest.raises(TookTooLong), limit_time(0.1):
        work()

    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.django_db(transaction=True)
def test_wait_for_postgresql_is_canceled_after_three_times_the_limit() -> None:
    with pytest.raises(TookTooLong), limit_time(0.1):
        wait_for_the_database()

    assert not Submission.objects.exists()


def test_waiting_alone_is_not_too_long_before_that() -> None:
    with limit_time(0.5):
        time.sleep(0.6)


@pytest.mark.django_db
@pytest.mark.usefixtures("endless")
def test_document_that_takes_too_long_is_rejected_after_its_second_time_out() -> None:
    slow, *others = (submit(fio_output=ENDLESS), submit(), submit())

    stored = normalize_batch().stored
    assert set(stored) == set(others)

    row = Submission.objects.get(pk=slow)
    assert (row.state, row.attempts, row.time_outs) == (State.RECEIVED, 2, 1)
    assert timedelta(seconds=30) < row.retry_at - timezone.now() <= timedelta(minutes=1)
    assert not has_waiting()

    Submission.objects.update(retry_at=NOON)
    assert has_waiting()
    normalize_batch()
    row.refresh_from_db()
    assert (row.state, row.reason_code) == (State.REJECTED, "took-too-long")
    assert row.reason == "processing took more than 0 s, in 2 attempts: split the result"


@pytest.mark.django_db
def test_document_with_many_measurements_is_stored_alone_behind_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch, "BATCH_MEASUREMENTS", 0)
    submitted = {submit(), submit()}

    stored = normalize_batch().stored
    assert len(stored) == 1

    assert {*stored, *normalize_batch().stored} == submitted


@pytest.mark.django_db
def test_hosts_are_served_in_turn() -> None:
    many = [submit(host=make_host("many")) if number == 0 else submit() for number in range(4)]
    few = many[:1]
    Submission.objects.exclude(pk__in=few).update(received_at=NOON)

    assert set(few) <= set(claim_fresh(2))


@pytest.mark.django_db
@pytest.mark.parametrize(("attempts", "pause_s"), [(0, 10), (1, 60), (2, 240), (3, 960)])
def test_attempts_are_made_after_1_4_and_16_minutes(attempts: int, pause_s: int) -> None:
    submission_id = submit()
    Submission.objects.update(attempts=attempts)

    assert (claim_fresh(50) or claim_retried()) == [submission_id]

    row = Submission.objects.get()
    assert abs((row.retry_at - timezone.now()).total_seconds() - pause_s) < 10
    assert claim_fresh(50) + claim_retried() == []


@pytest.mark.django_db
def test_those_that_failed_wait_for_those_that_did_not() -> None:
    failed, fresh = submit(), submit()
    Submission.objects.filter(pk=failed).update(attempts=1)

    stored: list[UUID] = []
    stored += normalize_batch(limit=1).stored
    assert stored == [fresh]

    assert normalize_batch(limit=1).stored == (failed,)
