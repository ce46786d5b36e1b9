"""Workers as real processes: killed, concurrent, and after a reparse.

Whatever happens, each change, incident and notice is there once, and none is missing after the next judge.
"""

import json
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import renormalize, select_submissions
from benchapp.judge import detect_and_notify
from benchapp.models import Change, Incident, IncidentEvent, Measurement, Notice, Series
from tests.detection.write.judges import Judge, halt_at, judge_all_by_name, judge_what_is_due
from tests.detection.write.judging import make_cells, make_level
from tests.envelopes import read_fio
from tests.factories import make_host
from tests.intake.normalize.test_batch import submit
from tests.intake.normalize.test_reparse import better_reader  # noqa: F401  # a fixture
from tests.received_notices import make_subscription
from tests.servers import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
WITHIN_S = 120


def run_together(judge: Any, *, judges: int) -> None:
    """Have so many judges begin at once, and wait for all of them."""
    started = [Judge(judge) for _ in range(judges)]
    for each in started:
        each.wait_until_there()
    for each in started:
        each.let_go()
    for each in started:
        each.process.join(WITHIN_S)
    assert [each.process.exitcode for each in started] == [0] * judges


def kill_judge_at(module: str, step: str) -> None:
    """Have a judge go through a step, kill it there, and wait until the database has noticed."""
    judge = Judge(halt_at, module, step)
    judge.wait_until_there()
    assert has_stranger()
    judge.process.kill()
    judge.process.join(WITHIN_S)
    assert judge.process.exitcode == -signal.SIGKILL
    wait_for(lambda: not has_stranger(), within_s=WITHIN_S, what="the killed judge's transaction gone")


def has_stranger() -> bool:
    """Say whether another connection has a transaction open."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND xact_start IS NOT NULL AND backend_type = 'client backend'"
        )
        return bool(cursor.fetchone()[0])


def make_fallen(host: str, *, cells: int) -> list[Series]:
    lines = [make_level(1000.0, 24, shift=n) + make_level(800.0, 8, shift=n) for n in range(cells)]
    return make_cells(make_host(host), lines)


def count_all() -> dict[str, int]:
    return {
        "changes": Change.objects.count(),
        "incidents": Incident.objects.count(),
        "opened": IncidentEvent.objects.filter(kind="opened").count(),
        "events": IncidentEvent.objects.count(),
        "notices": Notice.objects.count(),
        "due": Series.objects.filter(judging_is_due=True).count(),
    }


@pytest.mark.parametrize(
    ("module", "step"),
    [
        ("benchapp.judge", "read_histories"),
        ("benchapp.judge", "insert_changes"),
        ("benchapp.judge", "group_changes"),
        ("benchapp.judge", "enqueue"),
    ],
)
def test_killed_worker_leaves_nothing_and_the_next_one_finds_all(module: str, step: str) -> None:
    make_subscription()
    make_fallen("db-1", cells=3)

    kill_judge_at(module, step)

    assert count_all() == {"changes": 0, "incidents": 0, "opened": 0, "events": 0, "notices": 0, "due": 3}
    detect_and_notify()
    whole = count_all()
    assert (whole["changes"], whole["incidents"], whole["opened"]) == (3, 1, 1)
    assert (whole["notices"], whole["due"]) == (1, 0)
    Series.objects.update(judging_is_due=True)
    detect_and_notify()
    assert count_all() == whole


def test_killed_worker_reverts_no_earlier_change() -> None:
    make_subscription()
    make_fallen("db-1", cells=3)
    detect_and_notify()
    whole = count_all()
    Measurement.objects.order_by("-started_at")[0:1].get().delete()
    Series.objects.update(judging_is_due=True)

    kill_judge_at("benchapp.judge", "judge_due")

    assert count_all() == whole | {"due": 3}
    detect_and_notify()
    assert count_all() == whole


@pytest.mark.parametrize(
    "judge", [judge_what_is_due, judge_all_by_name], ids=["what is due", "the same series"]
)
def test_three_concurrent_workers_write_each_change_once(judge: Any) -> None:
    make_subscription()
    for host in ("db-1", "db-2"):
        make_fallen(host, cells=6)

    run_together(judge, judges=3)

    whole = count_all()
    assert (whole["changes"], whole["incidents"], whole["opened"], whole["due"]) == (12, 2, 2, 0)
    assert sorted(Incident.objects.values_list("scope", "change_count")) == [
        ("host:db-1", 6),
        ("host:db-2", 6),
    ]
    Series.objects.update(judging_is_due=True)
    detect_and_notify()
    assert count_all() == whole


def store_history(*, falls_at: int, runs: int) -> None:
    """Hand in runs an hour apart whose IOPS fall by a fifth, and store them."""
    began = datetime(2026, 11, 1, tzinfo=UTC)
    for index, level in enumerate(make_level(1000.0, falls_at) + make_level(800.0, runs - falls_at)):
        report = json.loads(read_fio("07_json.out"))
        printed_at = began + timedelta(hours=index)
        report |= {
            "timestamp": int(printed_at.timestamp()),
            "timestamp_ms": int(printed_at.timestamp() * 1000),
        }
        for job in report["jobs"]:
            for direction in ("read", "write"):
                job[direction]["iops"] *= level / 1000
        submit(fio_output=json.dumps(report))
    while normalize_batch().claimed:
        pass


def list_found() -> list[tuple[Any, ...]]:
    rows = Change.objects.order_by("pk").values_list("pk", "series_id", "metric", "started_at", "incident_id")
    return list(rows)


@pytest.mark.parametrize("reader", ["the same", "better"])
def test_reparsed_history_has_no_duplicates(reader: str, request: pytest.FixtureRequest) -> None:
    make_subscription()
    store_history(falls_at=24, runs=32)
    detect_and_notify()
    whole, found = count_all(), list_found()
    assert whole["changes"] >= 1
    assert (whole["incidents"], whole["opened"], whole["notices"], whole["due"]) == (1, 1, 1, 0)

    if reader == "better":
        request.getfixturevalue("better_reader")
    for _ in renormalize(select_submissions(), is_dry_run=False):
        pass
    Series.objects.update(judging_is_due=True)
    detect_and_notify()

    assert (count_all(), list_found()) == (whole, found)
