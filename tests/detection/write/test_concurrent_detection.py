"""Concurrent and killed workers, and concurrent writers: no duplicates, nothing lost."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import orjson
import pytest
from django.db import connection, transaction

from benchapp import judge as detect
from benchapp.incidents.actions.triage import acknowledge
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.posts.submissions import IncomingSubmission, accept_submission
from benchapp.judge import has_judging_due, judge_due, judge_series
from benchapp.models import (
    Change,
    Environment,
    Host,
    Incident,
    IncidentEvent,
    Kind,
    Measurement,
    Run,
    Series,
    State,
    Submission,
    Target,
)
from tests.detection.write.judging import make_cells, make_level
from tests.envelopes import make_envelope, read_fio
from tests.factories import NOON, make_host, note_measurements

pytestmark = pytest.mark.django_db(transaction=True)


def start(step: Callable[[], object]) -> threading.Thread:
    """Run a step on a separate connection."""

    def run() -> None:
        try:
            step()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def make_fallen(cells: int, *, name: str = "db-1") -> list[Series]:
    lines = [make_level(1000.0, 24, shift=n) + make_level(800.0, 8, shift=n) for n in range(cells)]
    return make_cells(make_host(name), lines)


class Killed(BaseException):
    """The worker is gone."""


def test_two_workers_on_one_host_open_one_incident() -> None:
    make_fallen(8)

    threads = [start(lambda: [judge_due(limit=1) for _ in range(8)]) for _ in range(2)]
    for thread in threads:
        thread.join(timeout=60)

    assert not has_judging_due()
    assert Incident.objects.get().change_count == Change.objects.count() == 8
    assert IncidentEvent.objects.filter(kind="opened").count() == 1


def test_eight_workers_store_and_evaluate_the_same_new_series_once() -> None:
    """Eight hosts of a pool post the same new workloads at once."""
    posts = 10
    hosts = [make_host(f"db-{number}", pool="db") for number in range(8)]
    for number in range(posts * len(hosts)):
        moment = (NOON + timedelta(hours=number)).isoformat()
        envelope = make_envelope(
            started_at=moment, finished_at=moment, fio_output=read_fio("80_multi_job_json.out")
        )
        host, body = hosts[number % len(hosts)], orjson.dumps(envelope)
        accept_submission(IncomingSubmission(host.pk, Kind.ENVELOPE, body, UUID(envelope["id"])))
    together = threading.Barrier(len(hosts))

    def work(_: Host) -> None:
        try:
            together.wait(timeout=60)
            while normalize_batch(limit=5).claimed:
                judge_due(limit=2)
            while judge_due(limit=2).series_ids:
                pass
        finally:
            connection.close()

    with ThreadPoolExecutor(len(hosts)) as workers:
        list(workers.map(work, hosts))

    # None of them at a second attempt.
    assert Submission.objects.filter(state=State.STORED, attempts=1).count() == posts * len(hosts)
    assert not has_judging_due()
    counts = Series.objects.values_list("measurement_count", flat=True)
    assert list(counts) == [posts * len(hosts)] * 5
    assert Measurement.objects.count() == sum(counts)
    assert Run.objects.count() == sum(Host.objects.values_list("run_count", flat=True)) == posts * len(hosts)
    assert (Target.objects.count(), Environment.objects.count()) == (1, 1)


def test_two_workers_take_different_series_without_waiting() -> None:
    make_cells(make_host(), [make_level(1000.0, 24, shift=n) for n in range(3)])
    counts: list[int] = []

    with transaction.atomic():
        first = len(judge_due(limit=2).series_ids)
        start(lambda: counts.append(len(judge_due().series_ids))).join(timeout=120)

    assert (first, counts, has_judging_due()) == (2, [1], False)


def test_series_judged_by_name_at_the_same_time_has_each_change_once() -> None:
    (series,) = make_fallen(1)

    threads = [start(lambda: judge_series([series.pk])) for _ in range(4)]
    for thread in threads:
        thread.join(timeout=60)

    assert (Change.objects.count(), Incident.objects.count()) == (1, 1)


@pytest.mark.parametrize("step", ["insert_changes", "upsert_statuses", "group_changes"])
def test_killed_worker_leaves_only_the_mark(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    make_fallen(2)

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(detect, step, die)
        with pytest.raises(Killed):
            judge_due()
    assert (Change.objects.count(), Incident.objects.count(), has_judging_due()) == (0, 0, True)

    judge_due()

    assert (Change.objects.count(), Incident.objects.count(), has_judging_due()) == (2, 1, False)


def test_run_stored_during_detection_leaves_its_series_due() -> None:
    (series,) = make_fallen(1)

    def store() -> None:
        with transaction.atomic():
            Series.objects.select_for_update().get(pk=series.pk)
            Series.objects.filter(pk=series.pk).update(judging_is_due=True)

    with transaction.atomic():
        judge_due()
        storing = start(store)
    storing.join(timeout=120)

    assert has_judging_due()


def test_concurrent_triage_and_detection_lose_nothing() -> None:
    (series,) = make_fallen(1)
    judge_due()
    incident = Incident.objects.get()
    Run.objects.filter(started_at__gte=NOON + timedelta(hours=31)).delete()
    note_measurements(series)

    with transaction.atomic():
        judge_due()
        person = start(lambda: acknowledge(incident.pk, by=None))
    person.join(timeout=120)

    incident.refresh_from_db()
    assert incident.state == "acknowledged"
    assert list(IncidentEvent.objects.order_by("pk").values_list("kind", flat=True))[-1] == "acknowledged"


def test_reparsed_history_keeps_its_changes() -> None:
    """As renormalize does it: the measurements go, and come again under the same runs with other ids."""
    (series,) = make_fallen(1)
    judge_due()
    change = Change.objects.get()
    with transaction.atomic():
        rows = list(Measurement.objects.filter(series=series).order_by("pk"))
        Measurement.objects.filter(series=series).delete()
        for row in reversed(rows):
            row.pk = None
            row.save(force_insert=True)
        note_measurements(series)

    judge_due()

    assert [(each.pk, each.started_at) for each in Change.objects.all()] == [(change.pk, change.started_at)]
    assert Incident.objects.count() == 1
