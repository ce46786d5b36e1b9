"""Names of targets, by hand: from the options of fio alone, with the facts of an agent, and from hostile input."""

from typing import Any

import pytest

from benchapp.storage.rules.target_name import NameMapping, name_target, unite_layouts

UUID = "6f1cbb2e-9d3e-4a55-8d0a-222222222222"
EUI = "nvme-eui.0025385b71b00001"

# What a job opens, and the name.
DEVICES = [
    ({"filename": "/dev/sda"}, "sda"),
    ({"filename": "/dev/nvme0n1"}, "nvme0n1"),
    ({"filename": "/dev/nvme0n1p2"}, "nvme0n1p2"),
    ({"filename": "//dev//sdb"}, "sdb"),
    ({"filename": "/dev/../dev/sdc"}, "sdc"),
    ({"filename": "/dev/mapper/vg-data"}, "mapper/vg-data"),
    ({"filename": "/dev/vg0/data"}, "vg0/data"),
    ({"filename": "/dev/md/scratch"}, "md/scratch"),
    ({"filename": "/dev/rbd/pool/image"}, "rbd/pool/image"),
    ({"filename": "/dev/zvol/tank/vol1"}, "zvol/tank/vol1"),
    ({"filename": f"/dev/mapper/luks-{UUID}"}, f"mapper/luks-{UUID}"),
    (
        {"filename": "/dev/mapper/3600508b1001c61aa0000000000000042"},
        "mapper/3600508b1001c61aa0000000000000042",
    ),
    ({"filename": f"/dev/longhorn/pvc-{UUID}"}, "longhorn/pvc-*"),
    ({"filename": f"/dev/disk/by-id/{EUI}"}, EUI),
    ({"filename": "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"}, "wwn-0x5000c500a1b2c3d4"),
    (
        {"filename": "/dev/disk/by-id/ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0123456"},
        "ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0123456",
    ),
    ({"filename": "/dev/disk/by-path/pci-0000\\:00\\:1f.2-ata-1"}, "pci-0000:00:1f.2-ata-1"),
    ({"filename": f"/dev/disk/by-uuid/{UUID}"}, UUID),
    ({"filename": "/dev/ng0n1", "ioengine": "io_uring_cmd"}, "ng0n1"),
    ({"filename": "\\\\.\\PhysicalDrive1", "ioengine": "windowsaio"}, "PhysicalDrive1"),
    ({"filename": "/dev/disk4", "directory": "/mnt/a"}, "disk4"),
    (
        {"filename": "trtype=PCIe traddr=0000.04.00.0 ns=1", "ioengine": "spdk"},
        "trtype=PCIe traddr=0000.04.00.0 ns=1",
    ),
    ({"filename": "Malloc0", "ioengine": "/opt/spdk_bdev"}, None),
    ({"filename": "Malloc0", "ioengine": "spdk_bdev"}, "Malloc0"),
    ({"filename": "0000\\:04\\:00.0", "ioengine": "xnvme"}, "0000:04:00.0"),
    ({"filename": "/dev/nvme0n1", "ioengine": "xnvme"}, "nvme0n1"),
    ({"libblkio_path": "/dev/vhost-vdpa-0", "ioengine": "libblkio"}, "vhost-vdpa-0"),
]
DIRECTORIES = [
    ({"directory": "/mnt/data"}, "/mnt/data"),
    ({"directory": "/mnt/data/"}, "/mnt/data"),
    ({"directory": "/mnt//data/./x/.."}, "/mnt/data"),
    ({"directory": "/"}, "/"),
    ({"filename": "/test.dat"}, "/"),
    ({"filename": "/mnt/data/test.dat"}, "/mnt/data"),
    ({"filename": "test.dat", "directory": "/mnt/data"}, "/mnt/data"),
    ({"filename": "sub/test.dat", "directory": "/mnt/data"}, "/mnt/data/sub"),
    ({"filename": "/dev/shm/test.dat"}, "/dev/shm"),
    ({"directory": "/dev/shm"}, "/dev/shm"),
    ({"filename": "/mnt/with space/x"}, "/mnt/with space"),
    ({"filename": "/mnt/a\\:b/x"}, "/mnt/a:b"),
    ({"directory": "/mnt/\u00fcber"}, "/mnt/\u00fcber"),
    ({"directory": "/mnt/\ufffd\ufffd"}, "/mnt/\ufffd\ufffd"),
    ({"directory": "/mnt/a\tb\x00c"}, "/mnt/a\ufffdb\ufffdc"),
    ({"filename_format": "/mnt/a/$jobname.$jobnum.$filenum"}, "/mnt/a"),
    ({"filename_format": "/mnt/$jobnum/f.$filenum"}, "/mnt/*"),
    ({"filename_format": "$jobname.$jobnum", "directory": "/mnt/a"}, "/mnt/a"),
    ({"opendir": "/mnt/tree"}, "/mnt/tree"),
    ({"directory": "C\\:\\fio\\data"}, "C:\\fio\\data"),
    ({"filename": "C\\:\\fio\\test.dat", "ioengine": "windowsaio"}, "C:\\fio"),
    ({"filename": "D:\\test.dat"}, "D:\\"),
    ({"filename": "\\\\server\\share\\test.dat"}, "\\\\server\\share"),
]
SEVERAL = [
    ({"filename": "/dev/sdb:/dev/sda"}, "sda, sdb"),
    ({"filename": "/dev/sda:/dev/sda"}, "sda"),
    ({"filename": "/mnt/a/1:/mnt/a/2"}, "/mnt/a"),
    ({"filename": "/mnt/b/1:/mnt/a/2"}, "/mnt/a, /mnt/b"),
    ({"filename": "1:2", "directory": "/mnt/b:/mnt/a"}, "/mnt/b"),
    ({"directory": "/mnt/b:/mnt/a", "numjobs": "2"}, "/mnt/a, /mnt/b"),
    ({"directory": "/mnt/b:/mnt/a"}, "/mnt/b"),
    ({"filename": "x:/dev/sda"}, "sda"),
]
NETWORK = [
    ({"ioengine": "rbd", "pool": "rbd", "rbdname": "vol1", "clientname": "admin"}, "rbd/vol1"),
    ({"ioengine": "rbd", "pool": "rbd", "rbdname": "vol1", "clustername": "east"}, "east:rbd/vol1"),
    ({"ioengine": "rados", "pool": "bench"}, "bench"),
    ({"ioengine": "nfs", "nfs_url": "nfs://filer/export/a?uid=0&gid=0"}, "filer:/export/a"),
    ({"ioengine": "nfs", "nfs_url": "nfs://bob:hunter22@filer/export"}, "filer:/export"),
    (
        {"ioengine": "libiscsi", "filename": "iscsi\\://u%secret@10.0.0.1\\:3260/iqn.2013-03.org.x\\:t/0"},
        "10.0.0.1:3260/iqn.2013-03.org.x:t/0",
    ),
    ({"ioengine": "nbd", "uri": "nbd://10.0.0.1:10809/disk"}, "10.0.0.1:10809/disk"),
    ({"ioengine": "nbd", "uri": "nbd+unix:///?socket=/run/nbd.sock"}, "/run/nbd.sock"),
    (
        {"ioengine": "http", "http_host": "s3.local", "filename": "/bucket/object", "http_s3_key": "SECRET"},
        "s3.local/bucket",
    ),
    ({"ioengine": "gfapi", "brick": "gluster1", "volume": "vol"}, "gluster1:/vol"),
    ({"ioengine": "libhdfs", "namenode": "nn1", "port": "9000", "hdfsdirectory": "/fio"}, "nn1:9000/fio"),
    ({"ioengine": "dfs", "pool": "p1", "cont": "c1"}, "p1/c1"),
]
GENERATED = [
    ({"directory": "/tmp/tmp.Ab3dE6fGh1"}, "/tmp/*"),
    ({"directory": "/tmp/tmp1x_8q2zk"}, "/tmp/*"),
    ({"directory": "/tmp/template"}, "/tmp/template"),
    ({"directory": "/mnt/fio.a8Gh2K/data"}, "/mnt/fio.*/data"),
    ({"directory": "/mnt/test.$RANDOM"}, "/mnt/test.*"),
    ({"directory": "/mnt/${RUN}/x"}, "/mnt/*/x"),
    ({"directory": "/mnt/test.21345"}, "/mnt/test.*"),
    ({"directory": "/mnt/fio21345"}, "/mnt/fio*"),
    ({"directory": f"/var/lib/kubelet/pods/{UUID}/volumes/data"}, "/var/lib/kubelet/pods/*/volumes/data"),
    ({"directory": "/mnt/0123456789abcdef0123"}, "/mnt/*"),
    ({"directory": "/mnt/2026-11-27_10-15-00"}, "/mnt/*"),
    ({"directory": "/mnt/run-20261127T101500"}, "/mnt/run-*"),
    ({"directory": "/mnt/1795739189"}, "/mnt/*"),
    ({"directory": "/scratch/job-17"}, "/scratch/job*"),
    ({"directory": "/scratch/build204/x"}, "/scratch/build*/x"),
    ({"directory": "/data/.bench-agent-7d5f1c"}, "/data"),
    ({"filename": "/data/.bench-agent-7d5f1c/bench-agent.test"}, "/data"),
    # What belongs to a disk stays.
    ({"directory": "/mnt/disk12"}, "/mnt/disk12"),
    ({"directory": "/mnt/nvme0n1"}, "/mnt/nvme0n1"),
    ({"directory": "/mnt/S3Z8NB0K123456"}, "/mnt/S3Z8NB0K123456"),
    ({"directory": "/srv/node/d100"}, "/srv/node/d100"),
]
UNKNOWN: list[dict[str, str]] = [
    {},
    {"filename": "test.dat"},
    {"filename": "data/test.dat"},
    {"filename": "../test.dat"},
    {"directory": "."},
    {"directory": "data"},
    {"filename": "-"},
    {"filename": ""},
    {"filename": ":"},
    {"filename_format": "$jobname.$jobnum"},
    {"ioengine": "null", "filename": "/dev/sda"},
    {"ioengine": "net", "filename": "/dev/sda"},
    {"ioengine": "nfs", "nfs_url": "nfs:"},
    {"ioengine": "rbd"},
]


@pytest.mark.parametrize(("options", "name"), DEVICES + DIRECTORIES + SEVERAL + NETWORK + GENERATED)
def test_the_options_of_a_job_name_its_target(options: dict[str, str], name: str | None) -> None:
    assert name_target(options, numjobs=int(options.get("numjobs", "1"))).name == name


@pytest.mark.parametrize("options", UNKNOWN)
def test_target_that_is_not_known_has_no_name(options: dict[str, str]) -> None:
    assert name_target(options).name is None


def entry(path: str, mount_point: str | None = None, **device: str) -> dict[str, Any]:
    return {
        "path": path,
        "mount_point": mount_point,
        "device": device or None,
        "layout": {},
        "memory_filesystem": None,
    }


RAW = entry("/dev/nvme0n1", kernel_name="nvme0n1", identifier=EUI)
DATA = entry("/data/bench", "/data", kernel_name="sdb", identifier="wwn-0x5000c500a1b2c3d4")
EXPORT = entry("/net/x", "/net/x", kernel_name="", identifier="filer:/export", **{"class": "network"})
EBS = entry("/ebs", "/ebs", kernel_name="nvme1n1", identifier="nvme-Amazon_vol0123", **{"class": "network"})
POD = entry("/pod", f"/var/lib/pods/{UUID}")


@pytest.mark.parametrize(
    ("options", "opened", "name", "in_pool", "others"),
    [
        ({"filename": "/dev/nvme0n1"}, [RAW, DATA], EUI, "nvme0n1", ["nvme0n1"]),
        ({"filename": "/dev/sdc"}, [RAW, DATA], "sdc", "sdc", []),
        ({"directory": "/data/bench"}, [RAW, DATA], "/data", "/data", ["/data/bench"]),
        ({"filename": "/data/bench/x/1"}, [RAW, DATA], "/data", "/data", ["/data/bench/x"]),
        ({"filename": "/data/bench2"}, [DATA], "/data", "/data", []),
        ({"filename": "bench-agent.test"}, [RAW, DATA], "/data", "/data", []),
        ({"filename": "x"}, [DATA, EXPORT], None, None, []),
        ({}, [DATA], "/data", "/data", []),
        ({}, [RAW], EUI, "nvme0n1", ["nvme0n1"]),
        ({}, [RAW, entry("/dev/sdc", kernel_name="sdc", identifier="wwn-1")], None, None, []),
        ({"directory": "/net/x"}, [EXPORT], "filer:/export", "filer:/export", ["/net/x"]),
        ({"directory": "/ebs"}, [EBS], "/ebs", "/ebs", []),
        ({"directory": "/pod"}, [POD], "/var/lib/pods/*", "/var/lib/pods/*", ["/pod"]),
        (
            {"filename": "/dev/nvme0n1:/data/bench/1"},
            [RAW, DATA],
            f"/data, {EUI}",
            "/data, nvme0n1",
            ["/data/bench, nvme0n1", "/data, nvme0n1"],
        ),
        ({"filename": "/a/b/c"}, [entry("/a", "/a"), entry("/a/b", "/a/b")], "/a/b", "/a/b", []),
        ({"filename": "/dev/loop9"}, [entry("/dev/loop9")], "loop9", "loop9", []),
    ],
)
def test_an_agent_knows_mount_points_and_serials(
    options: dict[str, str], opened: list[dict[str, Any]], name: str, in_pool: str, others: list[str]
) -> None:
    target = name_target(options, opened=opened)

    assert target.name == name
    assert list(target.other_names) == others
    assert name_target(options, opened=opened, is_pool=True).name == in_pool


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "10.0.0.1"),
        ({"filename": "x"}, "10.0.0.1"),
        ({"directory": "/mnt/a"}, "10.0.0.1:/mnt/a"),
        ({"filename": "/dev/nvme0n1"}, "10.0.0.1:nvme0n1"),
        ({"ioengine": "rbd", "pool": "rbd", "rbdname": "vol1"}, "10.0.0.1:rbd/vol1"),
    ],
)
def test_host_of_a_client_goes_before(options: dict[str, str], name: str) -> None:
    assert name_target(options, client="10.0.0.1", opened=[RAW, DATA]).name == name


def test_several_targets_are_listed_one_by_one() -> None:
    assert name_target({"filename": "/dev/sdb:/dev/sda:/mnt/x"}).parts == ("/mnt", "sda", "sdb")


def test_many_targets_have_a_name_of_limited_length_that_no_others_have() -> None:
    some, others = (":".join(f"/dev/disk{number}" for number in range(count)) for count in (500, 501))

    first, second = name_target({"filename": some}).name, name_target({"filename": others}).name

    assert first is not None
    assert second is not None
    assert first[:100] == second[:100]
    assert len(first) == len(second) == 200
    assert first != second


@pytest.mark.parametrize(
    "text",
    [
        "/" * 100_000,
        "/tmp." * 20_000,
        "/mnt/" + "_tmp" * 25_000,
        ":" * 100_000,
        "\\:" * 50_000,
        "iscsi://" + "@" * 99_000,
    ],
)
@pytest.mark.parametrize("option", ["filename", "directory", "nfs_url", "filename_format"])
def test_long_hostile_text_is_named_within_bounds(option: str, text: str) -> None:
    for engine in ("libaio", "libiscsi", "nfs"):
        name = name_target({option: text, "ioengine": engine}).name

        assert name is None or len(name) <= 200


RUN = NameMapping("/mnt/run-*", "data")


@pytest.mark.parametrize(
    ("options", "mappings", "name", "mapping_names"),
    [
        ({"directory": "/mnt/run-a"}, [RUN], "data", ["/mnt/run-a"]),
        # The path that fio opens counts, too.
        ({"filename": "/mnt/run-7.dat"}, [RUN], "data", ["/mnt"]),
        ({"filename": "/dev/nvme2n1"}, [NameMapping("nvme*n1", "nvme")], "nvme", ["nvme2n1"]),
        ({"filename": "/dev/nvme2n1"}, [NameMapping("/dev/nvme?n1", "nvme")], "nvme", ["nvme2n1"]),
        ({"directory": "/mnt/run-*"}, [RUN], "data", ["/mnt/run-*"]),
        ({"ioengine": "rbd", "pool": "p", "rbdname": "v1"}, [NameMapping("p/v[12]", "vol")], "vol", ["p/v1"]),
        # The longest pattern wins, the first of equals.
        ({"directory": "/mnt/run-a"}, [NameMapping("/mnt/*", "all"), RUN], "data", ["/mnt/run-a"]),
        ({"directory": "/mnt/run-a"}, [RUN, NameMapping("/mnt/run-?", "pool")], "data", ["/mnt/run-a"]),
        # Upper case is another name.
        ({"directory": "/mnt/RUN-a"}, [RUN], "/mnt/RUN-a", []),
        ({"directory": "/srv"}, [RUN], "/srv", []),
        ({}, [NameMapping("*", "all")], None, []),
        ({"filename": "x"}, [NameMapping("*", "all")], None, []),
        # Several places of one job are one target by their mapping.
        ({"filename": "/dev/sda:/dev/sdb"}, [NameMapping("sd?", "jbod")], "jbod", ["sda, sdb"]),
        # A removed one names what was stored by it.
        ({"directory": "/mnt/run-a"}, [NameMapping("/mnt/*", "old", is_removed=True)], "/mnt/run-a", ["old"]),
        (
            {"directory": "/mnt/run-a"},
            [NameMapping("/mnt/run-*", "old", is_removed=True), RUN],
            "data",
            ["/mnt/run-a", "old"],
        ),
    ],
)
def test_patterns_name_targets(
    options: dict[str, str], mappings: list[NameMapping], name: str | None, mapping_names: list[str]
) -> None:
    target = name_target(options, mappings=mappings)

    assert target.name == name
    assert list(target.mapping_names) == mapping_names
    assert target.other_names == ()


def test_patterns_keep_the_host_of_a_client() -> None:
    assert name_target({"directory": "/mnt/run-a"}, client="10.0.0.1", mappings=[RUN]).name == "10.0.0.1:data"


def test_mapping_that_begins_with_a_client_gives_its_target_the_name_that_text_has() -> None:
    mappings = [NameMapping("10.0.0.1:/mnt/*", "vm:/mnt"), NameMapping("*", "other")]
    options = {"directory": "/mnt/a"}

    assert name_target(options, client="10.0.0.1", mappings=mappings[:1]).name == "vm:/mnt"
    assert name_target(options, client="10.0.0.2", mappings=mappings[:1]).name == "10.0.0.2:/mnt/a"


def test_server_on_the_port_of_fio_goes_on_without_it() -> None:
    target = name_target({"directory": "/mnt/a"}, client="db-2")

    assert (target.name, target.other_names) == ("db-2:/mnt/a", ("db-2:8765:/mnt/a",))
    assert name_target({"directory": "/mnt/a"}, client="db-2:9000").other_names == ()


def test_patterns_match_the_mount_point_of_an_agent() -> None:
    target = name_target({"filename": "/data/x"}, opened=[DATA], mappings=[NameMapping("/data", "fast")])

    assert target.name == "fast"


def test_hostile_pattern_and_path_are_compared_within_bounds() -> None:
    mapping = NameMapping("*a" * 100, "x")

    assert name_target({"directory": "/" + "a" * 4000 + "b"}, mappings=[mapping]).name != "x"


def describe_part(device: str | None, volumes: int | None = 1, **layout: Any) -> dict[str, Any]:
    """Return the entry of an agent: of a device, or of a mount point if it begins with a slash."""
    facts = {"filesystem": None, "raid_level": None, "volume_size_bytes": 100} | layout
    is_mounted = device is not None and device.startswith("/")
    return {
        "mount_point": device if is_mounted else None,
        "device": None if is_mounted or device is None else {"kernel_name": device, "identifier": None},
        "layout": {"volume_count": volumes, **facts},
    }


SDA, SDB = describe_part("sda"), describe_part("sdb")
UNKNOWN = {"volume_count": None, "filesystem": None, "raid_level": None, "volume_size_bytes": None}


@pytest.mark.parametrize(
    ("entries", "volumes"),
    [
        ([SDA], 1),
        ([SDA, SDB], 2),
        ([SDA, SDB, describe_part("sdc")], 3),
        ([SDA, describe_part("sda")], 1),
        # Partitions are of their disks, as far as names tell.
        ([describe_part("sda1"), describe_part("sda2")], 1),
        ([describe_part("sda1"), describe_part("sdb1")], 2),
        ([describe_part("nvme0n1p1"), describe_part("nvme0n1p2")], 1),
        ([describe_part("nvme0n1"), describe_part("nvme1n1")], 2),
        ([describe_part("loop0"), describe_part("loop1")], 2),
        # Arrays may share their disks, as logical volumes.
        ([describe_part("md0", 4), describe_part("md1", 4)], None),
        ([describe_part("dm-0"), describe_part("dm-1")], None),
        ([describe_part("dm-0"), describe_part("dm-0")], None),
        ([describe_part("md0", 4), describe_part("md0", 4)], 4),
        ([describe_part("sda"), describe_part("md0", 4)], None),
        ([describe_part("/data", 4), describe_part("/data", 4)], 4),
        ([describe_part("/data"), describe_part("/scratch")], 2),
        ([SDA, describe_part("sdb", None)], None),
        ([SDA, describe_part(None)], None),
        ([describe_part(None), describe_part(None)], None),
        ([SDA, None], None),
    ],
)
def test_volumes_of_a_job_are_its_distinct_devices(
    entries: list[dict[str, Any] | None], volumes: int | None
) -> None:
    assert unite_layouts(entries)["volume_count"] == volumes


def test_identifiers_tell_devices_apart() -> None:
    entries = [
        {**SDA, "device": {"kernel_name": "sda1", "identifier": f"wwn-0x5-part{number}"}} for number in (1, 2)
    ]
    other = {**SDA, "device": {"kernel_name": "sda", "identifier": "wwn-0x6"}}

    assert unite_layouts(entries)["volume_count"] == 1
    assert unite_layouts([*entries, other])["volume_count"] == 2
    volume = {**SDA, "device": {"kernel_name": "dm-0", "identifier": "dm-name-vg-data"}}
    assert unite_layouts([SDA, volume])["volume_count"] is None


def test_other_facts_of_a_job_are_those_of_all_parts() -> None:
    ext4 = describe_part("sda", filesystem="ext4", raid_level="raid0")
    larger = describe_part("sdb", filesystem="ext4", volume_size_bytes=200)

    assert unite_layouts([ext4, larger]) == UNKNOWN | {"volume_count": 2, "filesystem": "ext4"}
    assert unite_layouts([ext4, None]) == UNKNOWN
    assert unite_layouts([SDA, SDB], counts_volumes=False) == UNKNOWN | {"volume_size_bytes": 100}
