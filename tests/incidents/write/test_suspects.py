"""Environment changes between the last good and the first bad run."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.incidents.write.suspects import find_suspects
from benchapp.models import Change, Incident, Run
from benchapp.series.read.environment_changes import read_environment_changes
from benchapp.series.read.series import read_series_versions
from tests.detection.write.judging import get_incident, judge_all, make_cells, make_level
from tests.factories import NOON, make_environment, make_host, make_runs

pytestmark = pytest.mark.django_db


def make_fallen(**of_bad_runs: Any) -> list[dict[str, Any]]:
    """Make a host fall at its 25th run, from which on its runs have these fields, and return the suspects."""
    make_cells(make_host(), [make_level(1000.0, 24) + make_level(800.0, 8)])
    runs = list(Run.objects.order_by("started_at"))
    Run.objects.filter(pk__in=[run.pk for run in runs[24:]]).update(**of_bad_runs)
    judge_all()
    suspects: list[dict[str, Any]] = get_incident().suspects
    return suspects


def test_nested_fact_is_named_by_its_path() -> None:
    facts = {"md": {"degraded": "1"}, "mount_options": "rw"}

    suspects = make_fallen(environment=make_environment(kernel="6.1.0", facts=facts))

    assert [(one["name"], one["before"], one["after"]) for one in suspects] == [
        ("mount_options", None, "rw"),
        ("md.degraded", None, "1"),
    ]
    assert suspects[1]["text"] == "the array's missing members: unknown → 1, coincides with all changes"


def test_replaced_disk_is_one_suspect_and_names_that_swap_are_none() -> None:
    cells = make_cells(make_host(), [make_level(1000.0, 24) + make_level(800.0, 8)])
    for number, run in enumerate(Run.objects.order_by("started_at")):
        serial, name = "99b1" if number >= 24 else "77a3", f"nvme{number // 3 % 2}n1"
        facts = {
            "mount_source": f"/dev/{name}",
            "devices": [name],
            "disks": [name],
            "disk": {name: {"serial": serial, "model": "X"}},
        }
        environment = make_environment(facts=facts, device_firmware=serial)
        Run.objects.filter(pk=run.pk).update(environment=environment)

    judge_all()

    assert [one["text"] for one in get_incident().suspects] == [
        "disk replaced: X 77a3 → X 99b1, coincides with all changes"
    ]
    changes = read_environment_changes(read_series_versions([cells[0].pk]))[cells[0].pk].changes
    assert [[field.label for field in change.fields] for change in changes] == [["disk replaced"]]


def test_label_is_a_suspect() -> None:
    (suspect,) = make_fallen(labels={"release": "7"})

    assert suspect["text"] == "label release: unknown → 7, coincides with all changes"


def test_condition_of_the_run_counts_from_a_change_of_20_percent() -> None:
    Run.objects.all().delete()
    make_cells(make_host(), [make_level(1000.0, 24) + make_level(800.0, 8)])
    for number, run in enumerate(Run.objects.order_by("started_at")):
        is_bad = number >= 24
        conditions = {"fill_percent": "96" if is_bad else "61", "free_memory": str(1000 + number)}
        Run.objects.filter(pk=run.pk).update(command={"conditions": conditions})

    judge_all()

    assert [(one["name"], one["before"], one["after"]) for one in get_incident().suspects] == [
        ("fill_percent", "61", "96")
    ]


def test_load_that_varies_at_every_run_is_not_a_suspect() -> None:
    make_cells(make_host(), [make_level(1000.0, 24) + make_level(800.0, 8)])
    for number, run in enumerate(Run.objects.order_by("started_at")):
        conditions = {"load": str(1 + 5 * (number % 2))}
        Run.objects.filter(pk=run.pk).update(command={"conditions": conditions})

    judge_all()

    assert get_incident().suspects == []


def test_changes_with_deleted_runs_have_no_suspects() -> None:
    make_fallen(labels={"release": "7"})
    Change.objects.update(run=None)

    assert find_suspects(list(Change.objects.all())) == []


def test_series_that_changed_at_the_same_run_are_compared_once() -> None:
    make_cells(
        make_host(), [make_level(1000.0, 24, shift=shift) + make_level(800.0, 8) for shift in range(6)]
    )
    judge_all()
    # As in a pool, where the run before is another host's: what this host was before is asked for.
    Change.objects.update(last_good_run=None)
    counts = []
    for changes in (list(Change.objects.all()[:1]), list(Change.objects.all())):
        with CaptureQueriesContext(connection) as queries:
            find_suspects(changes)
        counts.append(len(queries))

    assert Change.objects.count() == 6
    assert counts[0] == counts[1]


def test_values_are_cut() -> None:
    (suspect,) = make_fallen(labels={"note": "x" * 500})

    assert len(suspect["after"]) == 80


def test_environment_change_a_run_beside_most_changes_is_a_suspect_within_a_run() -> None:
    falls = [30, 31, 31, 29, 31]
    values = [[*make_level(1000.0, fall), *make_level(800.0, 40 - fall)] for fall in falls]
    make_cells(make_host("db-1"), values, kernels=["6.1"] * 30 + ["6.2"] * 10)

    judge_all()

    (suspect,) = Incident.objects.get(scope="host:db-1").suspects
    assert (suspect["name"], suspect["coincides_with"], suspect["changes"]) == ("kernel", 5, 5)
    assert suspect["text"].startswith("the kernel: 6.1 → 6.2, coincides within a run with all changes")


def test_environment_change_two_runs_before_the_changes_is_not_a_suspect() -> None:
    values = [[*make_level(1000.0, 30), *make_level(800.0, 10)] for _ in range(3)]
    make_cells(make_host("db-1"), values, kernels=["6.1"] * 28 + ["6.2"] * 12)

    judge_all()

    assert Incident.objects.get(scope="host:db-1").suspects == []


def test_suspect_within_a_run_is_stored_as_one() -> None:
    (exact,) = make_fallen(labels={"release": "7"})
    values = [[*make_level(1000.0, 31), *make_level(800.0, 9)] for _ in range(3)]
    make_cells(make_host("db-2"), values, kernels=["6.1"] * 30 + ["6.2"] * 10)

    judge_all()

    (near,) = Incident.objects.get(scope="host:db-2").suspects
    assert (exact["is_near"], near["is_near"]) == (False, True)


def test_change_that_cannot_be_compared_counts_in_the_share_of_a_suspect_within_a_run() -> None:
    values = [[*make_level(1000.0, 31), *make_level(800.0, 9)] for _ in range(5)]
    make_cells(make_host("db-1"), values, kernels=["6.1"] * 30 + ["6.2"] * 10)
    judge_all()
    first = Change.objects.earliest("pk")
    (elsewhere,) = make_runs(make_host("db-2"), [NOON])
    # As in a pool, where the run before is another host's.
    Change.objects.exclude(pk=first.pk).update(last_good_run=elsewhere)

    assert find_suspects(list(Change.objects.all())) == []


def test_suspect_within_a_run_counts_runs_of_the_same_series() -> None:
    host = make_host("db-1")
    values = [[*make_level(1000.0, 31), *make_level(800.0, 9)] for _ in range(3)]
    make_cells(host, values, kernels=["6.1"] * 30 + ["6.2"] * 10)
    # Another workload of the same layout, between the last run with the old kernel and the next one.
    kernel = Run.objects.latest("started_at").environment
    target = Run.objects.latest("started_at").target
    make_runs(host, [NOON + timedelta(hours=29, minutes=30)], target=target, environments=[kernel])

    judge_all()

    (suspect,) = Incident.objects.get(scope="host:db-1").suspects
    assert (suspect["name"], suspect["coincides_with"], suspect["is_near"]) == ("kernel", 3, True)
