"""Facts of disks and their queues, and hashing of serial numbers."""

import hashlib
from pathlib import Path

import pytest

from agent.storage.disk_facts import hash_identifier
from agent.storage.layout import describe_storage
from agent.storage.mounts import Mount
from tests.agent.storage.layouts import (
    BLOCK,
    Tree,
    bcache,
    describe,
    logical_volume,
    mount_only,
    mounted,
    multipath,
    raid5,
)
from tests.agent.storage.trees import disk, nvme, raid0, write_tree

PCI = "sys/devices/pci0000:60/0000:60:03.2/0000:61:00.0"


def pci_nvme(**files: str) -> Tree:
    """Return an NVMe drive at its bus position in /sys/devices."""
    base = f"{PCI}/nvme/nvme0/nvme0n1"
    contents = {
        f"{base}/size": f"{3840 * 10**9 // 512}\n",
        f"{base}/wwid": "eui.36344630528029720025384500000001\n",
        f"{base}/queue/scheduler": "[none] mq-deadline kyber bfq\n",
        f"{base}/queue/nr_requests": "1023\n",
        f"{base}/queue/rotational": "0\n",
        f"{base}/queue/write_cache": "write through\n",
        f"{PCI}/nvme/nvme0/model": "SAMSUNG MZQL23T8HCLS-00A07              \n",
        f"{PCI}/nvme/nvme0/firmware_rev": "GDC5602Q\n",
        f"{PCI}/nvme/nvme0/serial": "S64HNE0T600001      \n",
        f"{PCI}/nvme/nvme0/transport": "pcie\n",
        f"{PCI}/numa_node": "1\n",
        "sys/bus/pci/drivers/nvme/module/version": "1.0\n",
        f"{PCI}/current_link_speed": "16.0 GT/s PCIe\n",
        f"{PCI}/current_link_width": "4\n",
        **{f"{base}/mq/{number}/nr_tags": "1023\n" for number in range(3)},
        **{f"{PCI}/{name}": text for name, text in files.items()},
    }
    links = {
        "sys/dev/block/259:0": base,
        f"{base}/device": f"{PCI}/nvme/nvme0",
        f"{PCI}/driver": "sys/bus/pci/drivers/nvme",
    }
    return mounted((contents, links), "259:0", source="/dev/nvme0n1")


def test_drive_has_model_and_bus_position(tmp_path: Path) -> None:
    storage = describe(tmp_path, pci_nvme())

    assert storage.environment == {
        "scheduler": "none",
        "device_model": "SAMSUNG MZQL23T8HCLS-00A07",
        "device_firmware": "GDC5602Q",
        "device_driver": "nvme 1.0",
        "device_class": "nvme",
    }
    assert storage.facts["disk"] == {
        "nvme0n1": {
            "size_bytes": 3840000000000,
            "model": "SAMSUNG MZQL23T8HCLS-00A07",
            "firmware": "GDC5602Q",
            "scheduler": "none",
            "serial": hashlib.sha256(b"serial:S64HNE0T600001").hexdigest()[:12],
            "wwn": hashlib.sha256(b"wwn:eui.36344630528029720025384500000001").hexdigest()[:12],
            "transport": "nvme-pcie",
            "numa_node": "1",
            "link_speed": "16.0 GT/s PCIe",
            "link_width": "4",
        }
    }
    assert storage.facts["queue"] == {
        "nr_requests": "1023",
        "rotational": "0",
        "write_cache": "write through",
        "hardware_queues": "3",
    }


@pytest.mark.parametrize(
    ("files", "unknown"),
    [
        ({"numa_node": "-1\n"}, "numa_node"),
        ({"current_link_speed": "Unknown\n"}, "link_speed"),
        ({"current_link_width": "0\n"}, "link_width"),
    ],
)
def test_missing_bus_attributes_are_unknown(tmp_path: Path, files: dict[str, str], unknown: str) -> None:
    assert unknown not in describe(tmp_path, pci_nvme(**files)).facts["disk"]["nvme0n1"]


def test_ids_are_not_hashed_if_serials_are_enabled(tmp_path: Path) -> None:
    found = describe(tmp_path, pci_nvme(), sends_serials=True).facts["disk"]["nvme0n1"]

    assert (found["serial"], found["wwn"]) == ("S64HNE0T600001", "eui.36344630528029720025384500000001")


def test_scsi_serial_number_is_read_after_its_header(tmp_path: Path) -> None:
    files, links = mounted(disk("sda", "8:0"), "8:0")
    root = write_tree(tmp_path, files, links)
    page = tmp_path / BLOCK / "sda/device/vpd_pg80"
    page.parent.mkdir()
    page.write_bytes(b"\x00\x80\x00\x0cZ1D0ABCD    ")

    found = describe_storage("/data", root=root, sends_serials=True).facts["disk"]["sda"]

    assert found["serial"] == "Z1D0ABCD"


def test_virtio_serial_number_is_an_attribute_of_the_disk(tmp_path: Path) -> None:
    tree = mounted(disk("vda", "254:0", serial="vol-0abc\n"), "254:0")

    assert describe(tmp_path, tree).facts["disk"]["vda"]["serial"] == hash_identifier("serial", "vol-0abc")


@pytest.mark.parametrize(
    ("base", "transport"),
    [
        ("pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda", "sata"),
        ("pci0000:00/0000:00:01.0/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sda", "sas"),
        ("pci0000:00/0000:00:02.0/host1/rport-1:0-0/target1:0:0/1:0:0:0/block/sda", "fc"),
        ("platform/host2/session1/target2:0:0/2:0:0:1/block/sda", "iscsi"),
        ("pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/host3/target3:0:0/3:0:0:0/block/sda", "usb"),
        ("pci0000:00/0000:00:04.0/virtio1/block/vda", "virtio"),
        ("pci0000:00/0000:00:05.0/odd/block/sda", None),
    ],
)
def test_transport_is_read_from_the_path_in_sysfs(tmp_path: Path, base: str, transport: str | None) -> None:
    base = f"sys/devices/{base}"
    tree = mounted(({f"{base}/size": "2048\n"}, {"sys/dev/block/8:0": base}), "8:0")

    found = describe(tmp_path, tree).facts["disk"][base.rpartition("/")[2]]

    assert found.get("transport") == transport


def test_queue_has_the_settings_shared_by_all_disks(tmp_path: Path) -> None:
    files, links = raid0(4)
    for number in range(4):
        base = f"{BLOCK}/nvme{number}n1/queue"
        files.update({f"{base}/nr_requests": "127\n", f"{base}/read_ahead_kb": f"{128 + number}\n"})

    assert describe(tmp_path, (files, links)).facts["queue"] == {"nr_requests": "127"}


def test_more_than_64_disks_have_shared_facts_only(tmp_path: Path) -> None:
    """A server accepts at most 500 facts."""
    facts = describe(tmp_path, raid0(100)).facts

    assert "disk" not in facts
    assert len(facts["disks"]) == 100


def test_facts_are_within_the_limits_of_the_server(tmp_path: Path) -> None:
    from benchapp.intake.posts.metadata import read_environment

    trees = (multipath(), bcache(), raid5(missing=1), raid0(16), pci_nvme())
    for number, tree in enumerate(trees):
        facts = dict(describe(tmp_path / str(number), tree).facts)

        read = read_environment({"facts": facts})["facts"]

        assert set(read) == set(facts)


@pytest.mark.parametrize(
    ("tree", "device_class"),
    [
        (disk("sda", "8:0", queue__rotational="1\n"), "hdd"),
        (disk("sda", "8:0", queue__rotational="0\n"), "ssd"),
        (disk("sda", "8:0"), None),
        (disk("sda", "8:0", queue__rotational="1\n", device__model="QEMU HARDDISK\n"), None),
        (nvme(0), "network"),  # Amazon Elastic Block Store
        (disk("nvme0n1", "8:0", device__model="Amazon EC2 NVMe Instance Storage\n"), "nvme"),
        (disk("nvme0n1", "8:0", device__transport="tcp\n"), "network"),
        (disk("rbd0", "8:0"), "network"),
        (disk("loop0", "8:0", queue__rotational="0\n"), None),
        (disk("zram0", "8:0", queue__rotational="0\n"), "memory"),
    ],
)
def test_device_class_is_known_from_transport_model_and_rotation(
    tree: Tree, device_class: str | None, tmp_path: Path
) -> None:
    (number,) = (name.rpartition("/")[2] for name in tree[1] if name.startswith("sys/dev/block/"))

    assert describe(tmp_path, mounted(tree, number)).environment["device_class"] == device_class


def test_device_class_of_an_array_is_that_of_all_its_disks(tmp_path: Path) -> None:
    kinds = [disk(name, "8:0", queue__rotational=f"{int(name == 'sda')}\n") for name in ("sda", "sdb")]

    mixed = describe(tmp_path / "mixed", logical_volume(2, minimum=0, optimal=0, disks=kinds))
    equal = describe(tmp_path / "equal", logical_volume(1, minimum=0, optimal=0, disks=kinds[:1]))

    assert (mixed.environment["device_class"], equal.environment["device_class"]) == (None, "hdd")


def test_raw_device_has_a_stable_identifier_and_no_filesystem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = Mount("", "", "/dev/nvme0n1", "", "259:0")
    monkeypatch.setattr("agent.storage.layout.find_raw", lambda path: raw)

    storage = describe(tmp_path, pci_nvme(), "/dev/nvme0n1")

    assert (storage.target["filesystem"], storage.target["volume_count"]) == (None, 1)
    assert storage.describe_opened("/dev/nvme0n1", {"name": "x", "volume_count": 1}) == {
        "path": "/dev/nvme0n1",
        "mount_point": None,
        "device": {
            "kernel_name": "nvme0n1",
            "identifier": f"wwn-{hash_identifier('wwn', 'eui.36344630528029720025384500000001')}",
            "model": "SAMSUNG MZQL23T8HCLS-00A07",
            "class": "nvme",
        },
        "layout": {"volume_count": 1},
        "memory_filesystem": None,
    }


@pytest.mark.parametrize(
    ("tree", "identifier"),
    [
        (disk("sda", "8:0"), None),
        (
            disk("sda", "8:0", device__vpd_pg80="\0\0\0\0Z1D0ABCD"),
            f"serial-{hash_identifier('serial', 'Z1D0ABCD')}",
        ),
        (disk("dm-0", "253:0", dm__uuid="LVM-x\n", dm__name="vg-data\n"), "dm-name-vg-data"),
    ],
)
def test_identifier_is_serial_number_or_mapped_name(
    tree: Tree, identifier: str | None, tmp_path: Path
) -> None:
    (number,) = (name.rpartition("/")[2] for name in tree[1] if name.startswith("sys/dev/block/"))

    assert describe(tmp_path, mounted(tree, number)).identifier == identifier


def test_partition_is_identified_by_its_disk_and_number(tmp_path: Path) -> None:
    files, links = disk("sda", "8:0", device__wwid="naa.5002\n")
    base = "sys/devices/virtual/block/sda/sda2"
    links["sys/dev/block/8:2"] = base
    tree = mounted(({**files, f"{base}/partition": "2\n"}, links), "8:2")

    assert describe(tmp_path, tree, sends_serials=True).identifier == "wwn-naa.5002-part2"


def test_network_filesystem_is_identified_by_server_and_export(tmp_path: Path) -> None:
    line = "40 27 0:44 / /data rw - nfs4 filer:/vol/a rw,vers=4.2,addr=10.0.0.9"
    storage = describe(tmp_path, mount_only(line))

    assert (storage.identifier, storage.environment["device_class"]) == ("filer:/vol/a", "network")


def test_hash_depends_on_field_and_value_only() -> None:
    assert hash_identifier("serial", "A") == hashlib.sha256(b"serial:A").hexdigest()[:12]
    assert hash_identifier("wwn", "A") != hash_identifier("serial", "A")
    assert hash_identifier("serial", "A", is_plain=True) == "A"


@pytest.mark.parametrize(
    ("path", "drivers", "expected"),
    [
        ("pci0000:00/0000:00:05.0/virtio2/block/vda", {"virtio2": "virtio_blk"}, "virtio_blk"),
        (
            "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda",
            {"0:0:0:0": "sd", "0000:00:1f.2": "ahci"},
            "ahci",
        ),
        ("platform/host3/session1/target3:0:0/3:0:0:0/block/sdb", {"3:0:0:0": "sd"}, None),
        ("virtual/block/loop0", {}, None),
    ],
)
def test_driver_is_that_of_the_controller(
    path: str, drivers: dict[str, str], expected: str | None, tmp_path: Path
) -> None:
    base = f"sys/devices/{path}"
    links = {"sys/dev/block/8:0": base}
    for name, driver in drivers.items():
        links[f"{base[: base.index(name) + len(name)]}/driver"] = f"sys/bus/any/drivers/{driver}"
    tree = mounted(({f"{base}/size": "100\n"}, links), "8:0")

    assert describe(tmp_path, tree).environment["device_driver"] == expected
