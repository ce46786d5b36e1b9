"""Deadlocks: one order of locks, and another attempt where that order does not reach."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.utils import timezone
from psycopg.errors import DeadlockDetected

from benchapp import judge as detect
from benchapp.framework.write import conflicts
from benchapp.framework.write.conflicts import end_if_frozen, retry_conflicts
from benchapp.incidents.actions.triage import merge
from benchapp.judge import judge_due
from benchapp.models import Change, Incident, Notice, NoticeState, Role, Subscription
from benchapp.notices.channels.transport import Message, NotDelivered, get_transport
from benchapp.notices.write import outbox, silence_notices, subscriptions
from benchapp.notices.write.enqueue import send_due
from benchapp.notices.write.outbox import (
    Draft,
    claim_next,
    drop_paused,
    put_notices,
    settle_failed,
    settle_sent,
)
from benchapp.notices.write.subscriptions import change_subscription, delete_subscription
from tests.detection.write.judging import add_runs, make_cells, make_level
from tests.factories import make_host, make_user
from tests.received_notices import make_subscription
from tests.servers import wait_for

PATIENCE_S = 60


class Conflict(OperationalError):
    """As Django wraps it."""

    def __init__(self) -> None:
        super().__init__("deadlock detected")
        self.__cause__ = DeadlockDetected()


class Step(threading.Thread):
    """A step on a separate connection; error: the raised exception."""

    def __init__(self, step: Callable[[], object]) -> None:
        super().__init__()
        self.step = step
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.step()
        except BaseException as error:
            self.error = error
        finally:
            connection.close()


class Gate:
    """Holds whoever calls `stop` first until it is opened."""

    def __init__(self) -> None:
        self.reached, self._is_open = threading.Event(), threading.Event()

    def stop(self) -> None:
        self.reached.set()
        assert self._is_open.wait(PATIENCE_S)

    def open(self) -> None:
        self._is_open.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


@pytest.fixture
def no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a deadlock be seen that another attempt would hide."""
    monkeypatch.setattr(conflicts, "_ATTEMPTS_MAXIMUM", 1)


def stop_before(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, gate: Gate) -> None:
    """Hold whoever calls this function at the gate, once."""
    step = getattr(module, name)

    def stop_and_go_on(*arguments: Any, **named: Any) -> Any:
        gate.stop()
        return step(*arguments, **named)

    monkeypatch.setattr(module, name, stop_and_go_on)


def is_anybody_waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock')"
        )
        return bool(cursor.fetchone()[0])


def run_in_each_others_way(
    gate: Gate, first: Callable[[], object], second: Callable[[], object]
) -> list[Any]:
    """Run the first up to the gate, the second until it waits for a lock or is done, then both to their end."""
    one = Step(first)
    assert gate.reached.wait(PATIENCE_S)
    two = Step(second)
    wait_for(
        lambda: is_anybody_waiting() or not two.is_alive(),
        within_s=PATIENCE_S,
        what="the second waits or ends",
    )
    gate.open()
    for step in (one, two):
        step.join(PATIENCE_S)
        assert not step.is_alive()
    return [step.error for step in (one, two) if step.error is not None]


def put(subscription: Subscription, *keys: str) -> None:
    drafts = [Draft(subscription, key, Message(kind="test", subject=key, sentence=key)) for key in keys]
    with transaction.atomic():
        put_notices(drafts, now=timezone.now())


def fail(claim: outbox.NoticeClaim) -> None:
    settle_failed(claim, "refused", now=timezone.now(), is_final=False)


def claim() -> outbox.NoticeClaim:
    claimed = claim_next(now=timezone.now())
    assert claimed
    return claimed


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_retries")
def test_subscription_is_deleted_while_a_failure_of_it_is_written_down(
    monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    subscription = make_subscription()
    put(subscription, "a", "b")
    claimed = claim()
    # Here the sender has the subscription and not yet its notices.
    stop_before(monkeypatch, outbox, "read_times", gate)

    errors = run_in_each_others_way(gate, lambda: fail(claimed), lambda: delete_subscription(subscription.pk))

    assert errors == []
    assert (Subscription.objects.count(), Notice.objects.count()) == (0, 0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_retries")
def test_subscription_is_changed_while_a_success_of_it_is_written_down(
    monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    subscription = make_subscription(failures=1)
    put(subscription, "a")
    claimed = claim()
    # Here its owner has the subscription and not yet its notices.
    stop_before(monkeypatch, subscriptions, "_reschedule", gate)
    wish = {"address": "bert@example.org"}

    errors = run_in_each_others_way(
        gate,
        lambda: change_subscription(subscription, wish),
        lambda: settle_sent(claimed, "delivered", now=timezone.now()),
    )

    assert errors == []
    subscription.refresh_from_db()
    assert (subscription.address, subscription.failures) == ("bert@example.org", 0)
    assert Notice.objects.filter(state=NoticeState.SENT).count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_retries")
def test_subscription_is_deleted_while_a_silence_is_notified(
    monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    long_ago = timezone.now() - timedelta(days=3)
    entry = {"profile": "quick", "every_s": 3600, "splay_s": 0, "directory": "/data"}
    make_host("db-1", schedule=[entry], schedule_since_at=long_ago)
    subscription = make_subscription()
    Subscription.objects.update(created_at=long_ago)
    stop_before(monkeypatch, silence_notices, "put_notices", gate)

    errors = run_in_each_others_way(
        gate, silence_notices.notify_silent_hosts, lambda: delete_subscription(subscription.pk)
    )

    assert errors == []
    assert (Subscription.objects.count(), Notice.objects.count()) == (0, 0)


@pytest.mark.django_db(transaction=True)
def test_notice_of_a_subscription_that_is_deleted_before_its_commit_goes_with_it(gate: Gate) -> None:
    subscription = make_subscription()

    def tell() -> None:
        with transaction.atomic():
            put(subscription, "a")
            gate.stop()

    errors = run_in_each_others_way(gate, tell, lambda: delete_subscription(subscription.pk))

    assert errors == []
    assert (Subscription.objects.count(), Notice.objects.count()) == (0, 0)


@pytest.mark.django_db(transaction=True)
def test_notices_are_queued_for_remaining_subscriptions() -> None:
    gone, kept = make_subscription(), make_subscription()
    delete_subscription(gone.pk)
    message = Message(kind="test", subject="a", sentence="a")

    put_notices([Draft(gone, "a", message), Draft(kept, "a", message)], now=timezone.now())

    assert list(Notice.objects.values_list("subscription_id", "key")) == [(kept.pk, "a")]


@pytest.mark.django_db(transaction=True)
def test_what_a_sender_has_is_left_by_who_drops_old_notices() -> None:
    put(make_subscription(is_active=False), "a", "b")
    Notice.objects.update(created_at=timezone.now() - timedelta(days=3))
    dropped: list[int] = []

    with transaction.atomic():
        Notice.objects.select_for_update().get(key="a")
        Step(lambda: dropped.append(drop_paused(now=timezone.now()))).join(PATIENCE_S)

    assert dropped == [1]
    assert Notice.objects.get(state=NoticeState.DROPPED).key == "b"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_retries")
def test_incidents_are_merged_while_their_series_are_judged(
    monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    lines = [make_level(1000.0, 24) + make_level(800.0, 3)]
    (first,) = make_cells(make_host("db-1"), lines)
    make_cells(make_host("db-2"), lines)
    judge_due()
    one, two = Incident.objects.order_by("pk")
    add_runs(first, make_level(800.0, 8, shift=3))
    before = Change.objects.get(series=first)
    other, home = (one, two) if before.incident_id == one.pk else (two, one)
    # Here the judge has written what it found anew of changes that there were.
    stop_before(monkeypatch, detect, "upsert_statuses", gate)

    errors = run_in_each_others_way(gate, judge_due, lambda: merge(other.pk, into=home.pk, by=None))

    assert errors == []
    change = Change.objects.get(series=first)
    assert (change.state, change.incident_id) == ("confirmed", home.pk)
    assert before.state != change.state
    other.refresh_from_db()
    assert other.merged_into_id == home.pk


@pytest.mark.django_db(transaction=True)
def test_notifier_owners_and_judge_at_the_same_subscriptions_all_get_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rounds of all at once: a sender that fails, two who delete by the API, and one who changes hours."""
    owner = make_user(Role.ADMIN)
    client = Client()
    client.force_login(owner)
    answers: list[int] = []

    def refuse(*_: object, **__: object) -> str:
        raise NotDelivered("refused")

    monkeypatch.setattr(get_transport("email"), "send", refuse)
    errors: list[BaseException] = []
    for _ in range(10):
        made = [make_subscription(owner) for _ in range(4)]
        for subscription in made:
            put(subscription, *(f"notice {number}" for number in range(8)))
        steps = [Step(lambda: send_due(budget_s=5)) for _ in range(2)]
        for one in made[:3]:
            path = f"/api/v1/subscriptions/{one.pk}"
            steps.append(Step(lambda path=path: answers.append(client.delete(path).status_code)))  # type: ignore[misc]
        wish = {"address": "bert@example.org", "is_digest": True}
        steps.append(Step(lambda: change_subscription(made[3], wish)))  # noqa: B023 - joined below
        steps.append(Step(lambda: put(made[0], "later")))  # noqa: B023
        for step in steps:
            step.join(PATIENCE_S)
        errors += [step.error for step in steps if step.error is not None]
        delete_subscription(made[3].pk)

    assert errors == []
    assert answers == [204] * 30
    assert (Subscription.objects.count(), Notice.objects.count()) == (0, 0)


@pytest.mark.django_db(transaction=True)
def test_deadlock_of_two_connections_is_tried_again_until_both_are_done() -> None:
    a, b = make_subscription(failures=0), make_subscription(failures=0)
    both_have_one = threading.Barrier(2)
    attempts: list[int] = []

    def count_both(first: int, second: int) -> None:
        is_first_attempt = [True]

        @retry_conflicts
        def count() -> None:
            with transaction.atomic():
                Subscription.objects.filter(pk=first).update(failures=1)
                attempts.append(first)
                if is_first_attempt.pop() if is_first_attempt else False:
                    both_have_one.wait(PATIENCE_S)
                Subscription.objects.filter(pk=second).update(is_active=False)

        count()

    steps = [Step(lambda: count_both(a.pk, b.pk)), Step(lambda: count_both(b.pk, a.pk))]
    for step in steps:
        step.join(PATIENCE_S)

    assert [step.error for step in steps] == [None, None]
    assert len(attempts) == 3
    assert list(Subscription.objects.values_list("failures", "is_active")) == [(1, False)] * 2


@pytest.mark.parametrize(
    ("error", "count"),
    [
        pytest.param(Conflict, 5, marks=pytest.mark.django_db(transaction=True), id="a conflict that stays"),
        pytest.param(Conflict, 1, marks=pytest.mark.django_db, id="within a transaction of the caller"),
        pytest.param(
            OperationalError, 1, marks=pytest.mark.django_db(transaction=True), id="a database that is away"
        ),
    ],
)
def test_conflict_alone_is_met_again_at_most_five_times(error: type[Exception], count: int) -> None:
    attempts: list[int] = []

    @retry_conflicts
    def meet() -> None:
        attempts.append(1)
        raise error

    with pytest.raises(error):
        meet()

    assert len(attempts) == count


@pytest.mark.django_db(transaction=True)
def test_transaction_of_a_frozen_process_is_ended_and_no_other() -> None:
    def read_limit() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            return str(cursor.fetchone()[0])

    usual = read_limit()
    with transaction.atomic():
        end_if_frozen()
        assert read_limit() == "40s"

    assert read_limit() == usual
