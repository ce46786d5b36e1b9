"""Disks by number: another name by the kernel is no change, another disk is one."""

from datetime import timedelta
from typing import Any

import pytest

from benchapp.incidents.rules.incidents import FactDifference
from benchapp.incidents.write.suspects import RunFacts, compare_facts, flatten_environment
from benchapp.intake.normalize.series_lookup import recalculate_environments
from benchapp.models import Environment
from benchapp.series.read.environment_changes import (
    compare_environments,
    identify_disks,
    list_alternating_disks,
)
from tests.factories import NOON, make_environment, make_measurement, make_run, make_series, make_target
from tests.pages import Page
from tests.visitors import sign_in


def describe(*disks: str, first: int = 0, mounted: str = "", **numbers: Any) -> dict[str, Any]:
    """Return the facts that an agent sends of NVMe disks by serial number, in the order of the kernel."""
    names = {serial: f"nvme{first + index}n1" for index, serial in enumerate(disks)}
    own = mounted or disks[0]
    return {
        "mount_point": "/data",
        "mount_source": f"/dev/{names[own]}p1",
        "devices": [f"{names[own]}p1"],
        "chain": [f"{names[own]}p1 partition", f"{names[own]} disk"],
        "disks": [names[own]],
        "disk": {names[own]: {"serial": own, "model": "Samsung 990", "size_bytes": "1000", **numbers}},
        "queue": {"nr_requests": "1023"},
    }


def compare(before: dict[str, Any], after: dict[str, Any], **fields: str) -> list[tuple[str, Any, Any]]:
    found = compare_environments({"facts": before}, {"facts": after, **fields})
    return [(each.label, each.before, each.after) for each in found]


def test_disk_with_another_name_is_no_change() -> None:
    assert compare(describe("77a3", "99b1", mounted="77a3"), describe("99b1", "77a3", mounted="77a3")) == []


def test_replaced_disk_is_one_change() -> None:
    before, after = describe("77a3"), describe("99b1", first=1)
    after["disk"]["nvme1n1"]["model"] = "Kioxia XG6"
    after["queue"] = {"nr_requests": "255"}

    changes = compare(before, after, device_model="Kioxia XG6", device_firmware="2", kernel="6.8")

    assert changes == [("kernel", None, "6.8"), ("disk replaced", "Samsung 990 77a3", "Kioxia XG6 99b1")]


def test_property_of_the_same_disk_is_a_change() -> None:
    changes = compare(describe("77a3", link_speed="16 GT/s"), describe("77a3", first=1, link_speed="8 GT/s"))

    assert [label for label, _, _ in changes] == ["disk 77a3"]


def test_further_disk_is_a_number_of_disks() -> None:
    more = describe("77a3")
    more["disk"]["nvme1n1"] = {"serial": "99b1"}

    assert compare(describe("77a3"), more) == [("disks", "1", "2")]


def test_disk_without_a_number_keeps_its_name() -> None:
    facts = {"disk": {"vda": {"size_bytes": "1"}}, "chain": ["vda1 partition", "vda disk"], "disks": ["vda"]}

    assert identify_disks(facts) == {
        "chain": ["vda disk", "vda1 partition"],
        "disks": {"vda": "disk vda"},
        "disk vda": {"size_bytes": "1"},
    }


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("/dev/nvme1n1", "/dev/77a3"),
        ("/dev/nvme1n1p12", "/dev/77a3p12"),
        ("/dev/nvme1n10", "/dev/nvme1n10"),
        ("sda3 partition", "99b13 partition"),
        ("sdaa disk", "sdaa disk"),
        ("dm-0 lvm vg-data", "vg-data lvm vg-data"),
        ("dm-01", "dm-01"),
    ],
)
def test_words_with_names_of_disks_are_renamed(text: str, renamed: str) -> None:
    facts = {
        "disk": {"nvme1n1": {"serial": "77a3"}, "sda": {"wwn": "99b1"}},
        "chain": ["dm-0 lvm vg-data"],
        "mount_source": text,
    }

    assert identify_disks(facts)["mount_source"] == renamed


def test_members_of_an_array_in_another_order_are_no_change() -> None:
    sides = []
    for first, second in (("a1", "b2"), ("b2", "a1")):
        disks = {"sda": {"serial": first}, "sdb": {"serial": second}}
        sides.append({"disk": disks, "chain": ["md0 md", "sda disk", "sdb disk"], "devices": ["md0"]})

    assert compare(*sides) == []


def test_paths_of_a_multipath_disk_with_other_names_are_no_change() -> None:
    sides = [
        {"disk": {"dm-0": {"wwn": "36", "path_states": states}}}
        for states in (["sda running", "sdb offline"], ["sda offline", "sdc running"])
    ]

    assert compare(*sides) == []


@pytest.mark.parametrize("disk", ["x", {"sda": "x"}, None, {}])
def test_facts_of_another_sender_are_compared_as_they_are(disk: Any) -> None:
    assert compare({"disk": disk, "other": "a"}, {"disk": disk, "other": "b"}) == [("other", "a", "b")]


def test_replaced_disk_is_one_suspect() -> None:
    sides = []
    for number, (serial, first) in enumerate((("77a3", 0), ("77a3", 1), ("99b1", 1))):
        environment = Environment(key=bytes([0xD1, number]), facts=describe(serial, first=first))
        sides.append(RunFacts(flatten_environment(environment), {}))

    assert compare_facts(sides[0], sides[1]) == ()
    assert compare_facts(sides[1], sides[2]) == (
        FactDifference("disk_replaced", "Samsung 990 77a3", "Samsung 990 99b1"),
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("order", "found"),
    [
        (("77a3", "77a3", "99b1", "99b1"), []),
        (("77a3", "99b1", "77a3", "99b1"), ["Samsung 990 77a3", "Samsung 990 99b1"]),
    ],
)
def test_disks_that_take_turns_under_one_name_are_named_on_the_page_of_their_series(
    order: tuple[str, ...], found: list[str]
) -> None:
    series = make_series(target=make_target(target_name="data"))
    environments = {disk: make_environment(facts=describe(disk)) for disk in order}
    for place, disk in enumerate(order):
        run = make_run(series.host, started_at=NOON + timedelta(hours=place), environment=environments[disk])
        make_measurement(run, series, iops=1000.0)
    recalculate_environments([series.pk])

    assert list_alternating_disks(series.pk) == found
    page = Page(sign_in().get(f"/series/{series.pk}/")).words
    assert ("go back and forth between disks of one name" in page) == bool(found)
