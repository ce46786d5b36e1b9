"""One event on many hosts is one incident."""

from datetime import timedelta

import pytest

from benchapp.models import Incident, IncidentEvent, IncidentState
from tests.detection.write.judging import judge_all, make_cells, make_level
from tests.factories import NOON, make_host
from tests.incidents.write.test_grouping import fallen, steady
from tests.received_notices import list_told

pytestmark = pytest.mark.django_db


def test_three_hosts_with_the_same_kernel_are_one_incident() -> None:
    kernels = ["6.1.0"] * 24 + ["6.12.0"] * 6
    for number in range(3):
        make_cells(make_host(f"db-{number}"), [fallen(number)], kernels=kernels)

    judged = judge_all()

    wide = Incident.objects.get(merged_into=None)
    assert (wide.scope, wide.change_count) == ("", 3)
    assert wide.title == "db-0 to db-2: IOPS −20 % in 3 of 3 series"
    assert Incident.objects.filter(merged_into=wide, state=IncidentState.RESOLVED).count() == 2
    assert list_told(judged.event_ids) == ["suspected"]


def test_hosts_that_get_a_kernel_one_after_the_other_are_one_incident_that_grows() -> None:
    for number in range(4):
        kernels = ["6.1.0"] * 24 + ["6.12.0"] * 6
        start_at = NOON - timedelta(hours=6 * 30 - 36 * number)
        cells = [fallen(number), fallen(number + 4)]
        make_cells(
            make_host(f"db-{number}"), cells, kernels=kernels, step=timedelta(hours=6), start_at=start_at
        )
        judge_all()

    wide = Incident.objects.get(merged_into=None)
    assert (wide.scope, wide.change_count) == ("", 8)


def test_host_without_the_cause_of_the_others_is_another_incident() -> None:
    for number in range(4):
        kernels = ["6.1.0"] * 24 + (["6.12.0"] if number else ["6.1.0"]) * 6
        layouts = [{"volume_type": "st1"}, {"volume_type": "io2"}]
        values = [fallen(number), steady(1), fallen(number + 3), steady(3)]
        make_cells(make_host(f"db-{number}"), values, targets=layouts, kernels=kernels)

    judge_all()

    alone, wide = Incident.objects.filter(merged_into=None).order_by("pk")
    assert (alone.scope, alone.suspects, wide.scope) == ("host:db-0", [], "")
    assert wide.suspects[0]["share"] == 1


def test_losses_of_different_sizes_are_different_incidents() -> None:
    kernels = ["6.1.0"] * 24 + ["6.12.0"] * 6
    for number, level in enumerate((900.0, 900.0, 900.0, 700.0, 700.0)):
        values = make_level(1000.0, 24, shift=number) + make_level(level, 6, shift=number)
        make_cells(make_host(f"db-{number}"), [values], kernels=kernels)

    judge_all()

    sizes = Incident.objects.filter(merged_into=None).values_list("relative", flat=True)
    assert sorted(round(size, 1) for size in sizes) == [-0.3, -0.1]


def test_improvements_with_one_cause_are_one_incident() -> None:
    kernels = ["6.1.0"] * 24 + ["6.12.0"] * 6
    for number in range(3):
        values = make_level(800.0, 24, shift=number) + make_level(1000.0, 6, shift=number)
        make_cells(make_host(f"db-{number}"), [values], kernels=kernels)

    judge_all()

    assert not Incident.objects.get(merged_into=None).is_regression


def test_three_hosts_that_run_every_36_hours_at_different_times_are_one_incident() -> None:
    kernels = ["6.1.0"] * 24 + ["6.12.0"] * 6
    every = timedelta(hours=36)
    for number in range(3):
        start_at = NOON - 30 * every + number * timedelta(hours=15)
        make_cells(
            make_host(f"db-{number}"), [fallen(number)], kernels=kernels, step=every, start_at=start_at
        )

    judge_all()

    assert Incident.objects.get(merged_into=None).change_count == 3


@pytest.mark.parametrize(
    ("interval_h", "apart_h", "count"),
    [(36, 36, 1), (36, 160, 3), (24, 12, 1), (6, 6, 1), (6, 30, 3), (1, 1, 1), (1, 5, 3)],
)
def test_hosts_with_the_same_factor_are_one_incident_within_intervals_of_their_series(
    interval_h: float, apart_h: float, count: int
) -> None:
    layouts = [{"volume_type": "st1"}, {"volume_type": "io2"}]
    every = timedelta(hours=interval_h)
    for number in range(3):
        start_at = NOON - 30 * every + number * timedelta(hours=apart_h)
        values = [fallen(number), steady(1), fallen(number + 3), steady(3)]
        make_cells(make_host(f"db-{number}"), values, targets=layouts, step=every, start_at=start_at)

    judge_all()

    assert Incident.objects.filter(merged_into=None).count() == count


def test_volume_type_that_regressed_on_three_hosts_is_one_incident() -> None:
    layouts = [{"volume_type": "st1"}, {"volume_type": "io2"}]
    for number in range(3):
        values = [fallen(number), steady(1), fallen(number + 3), steady(3)]
        make_cells(make_host(f"db-{number}"), values, targets=layouts)

    judge_all()

    wide = Incident.objects.get(merged_into=None)
    assert (wide.scope, wide.change_count, wide.suspects) == ("", 6, [])
    assert wide.title == ("db-0 to db-2: IOPS −20 % in 6 of 12 series, volume type st1 only")
    merged = IncidentEvent.objects.get(incident=wide, kind="merged")
    assert merged.text == "2 incidents merged: same common factor"


@pytest.mark.parametrize(
    ("hosts", "fell", "incidents", "changes"),
    [
        # A single series joins the incident of its common factor, and counts as a scope besides two hosts.
        (3, [0], 1, 7),
        (3, [1], 2, 6),
        (2, [0], 1, 5),
        (2, [1], 3, 2),
        # Three of four affected series have the common factor; two of four.
        (3, [0, 2, 4, 1], 1, 10),
        (3, [0, 2, 1, 3], 2, 6),
    ],
)
def test_host_joins_if_three_of_four_affected_series_have_the_common_factor(
    hosts: int, fell: list[int], incidents: int, changes: int
) -> None:
    layouts = [{"volume_type": "st1"}, {"volume_type": "io2"}]
    for number in range(hosts):
        values = [fallen(number), steady(1), fallen(number + 3), steady(3)]
        make_cells(make_host(f"db-{number}"), values, targets=layouts)
    values = [fallen(place) if place in fell else steady(place) for place in range(10)]
    make_cells(make_host("db-3"), values, targets=layouts)

    judge_all()

    counts = Incident.objects.filter(merged_into=None).values_list("change_count", flat=True)
    assert (len(counts), max(counts)) == (incidents, changes)


def test_different_volume_types_on_three_hosts_stay_three_incidents() -> None:
    for number, kind in enumerate(("st1", "io2", "gp3")):
        layouts = [{"volume_type": kind}, {"volume_type": "standard"}]
        values = [fallen(number), steady(1), fallen(number + 3), steady(3)]
        make_cells(make_host(f"db-{number}"), values, targets=layouts)

    judge_all()

    assert Incident.objects.filter(merged_into=None).count() == 3
