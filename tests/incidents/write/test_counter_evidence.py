"""Other hosts with the same environment change: regressed and unaffected ones."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from benchapp.models import Change, Host, Incident, IncidentEvent, Measurement, Run
from benchapp.notices.channels.transport import render_text
from benchapp.notices.write.incident_message import make_incident_message
from tests.detection.write.judging import judge_all, make_cells, make_level
from tests.factories import NOON, make_environment, make_host, make_run, note_measurements

pytestmark = pytest.mark.django_db
OLD, NEW = "6.1.0-18", "6.1.0-22"
FALLEN = make_level(1000.0, 24) + make_level(800.0, 8)
STEADY = make_level(1000.0, 32)


def measure(
    name: str,
    values: Sequence[float],
    *,
    kernel_from: int = 24,
    pool: str = "",
    after: timedelta = timedelta(),
) -> Host:
    """Measure a host each hour, with the new kernel from a run on."""
    host = make_host(name, pool=pool)
    kernels = [OLD] * kernel_from + [NEW] * (len(values) - kernel_from)
    make_cells(host, [list(values)], kernels=kernels, start_at=NOON + after)
    return host


def read_suspect(scope: str = "host:db-1") -> dict[str, Any]:
    (suspect,) = Incident.objects.get(scope=scope).suspects
    return dict(suspect)


def test_unaffected_hosts_are_named() -> None:
    measure("db-1", FALLEN)
    measure("db-2", STEADY)
    measure("db-3", STEADY)
    measure("db-4", STEADY, kernel_from=32)

    judge_all()

    suspect = read_suspect()
    assert (suspect["hosts_unaffected"], suspect["hosts_regressed"], suspect["unaffected_hosts"]) == (
        2,
        0,
        ["db-2", "db-3"],
    )
    assert suspect["text"] == (
        "the kernel: 6.1.0-18 → 6.1.0-22, coincides with all changes;"
        " same change on other hosts: 2 hosts unaffected (db-2, db-3)"
    )


def test_suspect_without_other_hosts_has_no_counter_evidence() -> None:
    measure("db-1", FALLEN)
    measure("db-2", STEADY, kernel_from=32)

    judge_all()

    assert read_suspect()["text"] == "the kernel: 6.1.0-18 → 6.1.0-22, coincides with all changes"


def test_host_that_also_regressed_is_counted() -> None:
    measure("db-1", FALLEN)
    measure("db-2", FALLEN)
    measure("db-3", STEADY)

    judge_all()

    assert read_suspect()["text"].endswith(
        "; same change on other hosts: 1 host also regressed, 1 host unaffected (db-3)"
    )


def test_share_of_coinciding_changes_is_counted() -> None:
    host = make_host("db-1")
    make_cells(host, [FALLEN, FALLEN, FALLEN], kernels=[OLD] * 24 + [NEW] * 8)
    make_cells(host, [FALLEN], targets=[{"target_name": "other"}], kernels=[OLD] * 32)

    judge_all()

    (kernel,) = Incident.objects.get().suspects
    assert (kernel["coincides_with"], kernel["changes"], kernel["share"]) == (3, 4, 0.75)
    assert kernel["text"] == "the kernel: 6.1.0-18 → 6.1.0-22, coincides with 3 of 4 changes"


def test_host_with_few_runs_since_is_ignored() -> None:
    measure("db-1", FALLEN)
    measure("db-2", make_level(1000.0, 28))

    judge_all()

    assert (read_suspect()["hosts_unaffected"], read_suspect()["hosts_regressed"]) == (0, 0)


def test_same_change_a_month_apart_is_ignored() -> None:
    measure("db-1", FALLEN)
    measure("db-2", STEADY, after=-timedelta(days=30))

    judge_all()

    assert read_suspect()["hosts_unaffected"] == 0


def test_other_kernel_is_another_environment_change() -> None:
    measure("db-1", FALLEN)
    measure("db-2", STEADY)
    other = make_environment(kernel="6.12.0")
    Run.objects.filter(host__name="db-2", environment__kernel=NEW).update(environment=other)

    judge_all()

    assert read_suspect()["hosts_unaffected"] == 0


def test_retired_host_is_ignored() -> None:
    measure("db-1", FALLEN)
    Host.objects.filter(pk=measure("db-2", STEADY).pk).update(retired_at=NOON)

    judge_all()

    assert read_suspect()["hosts_unaffected"] == 0


def test_suspect_with_unaffected_hosts_ranks_lower() -> None:
    host = make_host("db-1")
    make_cells(host, [FALLEN])
    both = make_environment(kernel=NEW, scheduler="mq-deadline")
    old = make_environment(kernel=OLD, scheduler="none")
    bad = NOON + timedelta(hours=24)
    Run.objects.filter(host=host, started_at__lt=bad).update(environment=old)
    Run.objects.filter(host=host, started_at__gte=bad).update(environment=both)
    measure("db-2", STEADY)
    measure("db-3", STEADY)

    judge_all()

    (incident,) = Incident.objects.filter(scope="host:db-1")
    assert [one["name"] for one in incident.suspects] == ["scheduler", "kernel"]


def test_suspect_of_a_second_regressed_host_ranks_first() -> None:
    host = make_host("db-1")
    make_cells(host, [FALLEN])
    old = make_environment(kernel=OLD, facts={"swappiness": 60})
    both = make_environment(kernel=NEW, facts={"swappiness": 10})
    bad = NOON + timedelta(hours=24)
    Run.objects.filter(host=host, started_at__lt=bad).update(environment=old)
    Run.objects.filter(host=host, started_at__gte=bad).update(environment=both)
    measure("db-2", FALLEN)

    judge_all()

    incident = Change.objects.filter(series__scope="host:db-1").latest("pk").incident
    assert incident is not None
    assert incident.suspects[0]["name"] == "kernel"


def test_hosts_of_a_pool_are_distinguished() -> None:
    slow, unaffected = make_host("db-1", pool="db"), make_host("db-2", pool="db")
    (series,) = make_cells(slow, [FALLEN + make_level(800.0, 12)], kernels=[OLD] * 24 + [NEW] * 20)
    for index in range(44):
        moment = NOON + timedelta(hours=index, minutes=30)
        environment = make_environment(kernel=OLD if index < 24 else NEW)
        run = make_run(unaffected, target=series.target, started_at=moment, environment=environment)
        level = 1000.0 if index < 24 else 960.0
        Measurement.objects.create(run=run, series=series, started_at=moment, position=0, iops=level)
    note_measurements(series)

    judge_all()

    suspect = read_suspect("pool:db")
    assert (suspect["name"], suspect["hosts_unaffected"], suspect["unaffected_hosts"]) == (
        "kernel",
        1,
        ["db-2"],
    )


def test_mail_lists_counter_evidence() -> None:
    measure("db-1", FALLEN)
    measure("db-2", STEADY)
    judge_all()
    incident = Incident.objects.get()
    event = IncidentEvent.objects.get(incident=incident, kind="opened")
    changes = list(incident.changes.select_related("series"))

    text = render_text([make_incident_message(incident, event, changes=changes, change_count=1, base_url="")])

    assert "coincides with all changes; same change on other hosts: 1 host unaffected (db-2)" in text
