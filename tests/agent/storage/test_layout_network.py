"""Filesystems without a disk of this machine under them: network, ZFS, overlay."""

from pathlib import Path
from typing import Any

import pytest

from agent.storage.layout import parse_status
from agent.storage.mounts import find_mount
from agent.storage.network_storage import find_server
from tests.agent.storage.layouts import container, describe, mount_only, zfs
from tests.agent.storage.trees import write_tree

NFS = (
    "40 27 0:52 / /data rw,relatime - nfs4 filer:/export rw,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp,"
    "nconnect=4,timeo=600,sec=sys,clientaddr=192.0.2.9,addr=192.0.2.7"
)
CIFS = (
    r"40 27 0:56 / /data rw - cifs //nas/my\040share rw,vers=3.1.1,cache=strict,username=me,domain=OFFICE,"
    "addr=192.0.2.8,rsize=4194304"
)
CEPH = (
    "40 27 0:57 / /data rw - ceph 192.0.2.1:6789,192.0.2.2:6789:/volumes/a rw,name=admin,secret=<hidden>,acl"
)
NEW_CEPH = (
    "40 27 0:57 / /data rw - ceph admin@0e3a-77.cephfs=/volumes/a rw,name=admin,secret=<hidden>,"
    "mon_addr=192.0.2.1:3300/192.0.2.2:3300,acl"
)


@pytest.mark.parametrize(
    ("line", "options", "network"),
    [
        (
            NFS,
            "rw,relatime,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp,nconnect=4,timeo=600,sec=sys,addr=192.0.2.7",
            {
                "server": "filer",
                "export": "/export",
                "address": "192.0.2.7",
                "version": "4.2",
                "transport": "tcp",
                "connections": "4",
            },
        ),
        (
            "40 27 0:52 / /data rw - nfs [2001:db8::7]:/vol rw,vers=3,mountport=635",
            "rw,vers=3",
            {"server": "2001:db8::7", "export": "/vol", "version": "3"},
        ),
        (
            CIFS,
            "rw,vers=3.1.1,cache=strict,addr=192.0.2.8,rsize=4194304",
            {"server": "nas", "export": "/my share", "address": "192.0.2.8", "version": "3.1.1"},
        ),
        (CEPH, "rw,acl", {"server": "192.0.2.1:6789,192.0.2.2:6789", "export": "/volumes/a"}),
        (NEW_CEPH, "rw,acl", {"filesystem": "cephfs", "export": "/volumes/a"}),
        (
            "40 27 0:58 / /data rw - lustre 192.0.2.1@tcp:192.0.2.2@tcp:/scratch rw,flock",
            "rw,flock",
            {"export": "/scratch"},
        ),
        (
            "40 27 0:59 / /data rw - fuse.sshfs me@box:/srv rw,user_id=0",
            "rw,user_id=0",
            {"server": "box", "export": "/srv"},
        ),
        ("40 27 0:59 / /data rw - nfs4 odd rw", "rw", {}),
    ],
)
def test_server_and_options_are_described(
    tmp_path: Path, line: str, options: str, network: dict[str, str]
) -> None:
    storage = describe(tmp_path, mount_only(line))

    assert storage.target["mount_options"] == options
    assert (storage.target["volume_count"], storage.target["volume_size_bytes"]) == (None, None)
    found = storage.facts["network"]
    assert {name: found[name] for name in network} == network


@pytest.mark.parametrize(
    "line",
    [
        CIFS,
        CEPH,
        NEW_CEPH,
        "40 27 0:59 / /data rw - fuse.sshfs admin@box:/srv rw",
        "40 27 0:59 / /data rw - fuse https://admin:sesame@cloud.example/dav rw",
        "40 27 0:59 / /data rw - fuse curlftpfs#ftp://admin:sesame@box/ rw",
        "40 27 0:59 / /data rw - cifs //nas/x rw,username=admin,password=sesame,password2=sesame",
    ],
)
def test_user_names_are_not_sent(tmp_path: Path, line: str) -> None:
    found = str(describe(tmp_path, mount_only(line)))

    assert not [word for word in ("admin", "sesame", "username", "OFFICE", "<hidden>") if word in found]


def test_read_ahead_of_a_network_filesystem_is_described(tmp_path: Path) -> None:
    files, links = mount_only(NFS)
    files["sys/class/bdi/0:52/read_ahead_kb"] = "128\n"

    assert describe(tmp_path, (files, links)).facts["network"]["read_ahead_kb"] == "128"


def test_round_trip_finds_the_server_in_the_same_mount(tmp_path: Path) -> None:
    mount = find_mount("/data", root=write_tree(tmp_path, *mount_only(NFS)))

    assert mount is not None
    assert find_server(mount) == ("192.0.2.7", 2049)


def test_overlay_in_a_container_has_unknown_disks(tmp_path: Path) -> None:
    """The upper directory is a path of the machine, which is below / here, too."""
    storage = describe(tmp_path, container())

    assert (storage.target["filesystem"], storage.target["mount_options"]) == ("overlay", "rw,relatime")
    assert storage.target["volume_count"] is None
    assert "overlay" not in storage.facts
    assert "devices" not in storage.facts


def test_overlay_on_its_machine_has_its_upper_directory(tmp_path: Path) -> None:
    line = "40 27 0:54 / /data rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/srv/up,workdir=/srv/work"
    files, links = mount_only(line)
    files["srv/up/x"] = ""

    assert describe(tmp_path, (files, links)).facts["overlay"] == {
        "upper_directory": "/srv/up",
        "filesystem": "ext4",
        "mount_options": "rw,relatime,discard",
    }


HEAD = (
    "  pool: tank\n state: ONLINE\n  scan: {scan}\nconfig:\n\n\tNAME             STATE     READ WRITE CKSUM\n"
)
RAIDZ = HEAD + (
    "\ttank             ONLINE       0     0     0\n"
    "\t  raidz2-0       ONLINE       0     0     0\n"
    "\t    /dev/sda1    ONLINE       0     0     0\n"
    "\t    /dev/sdb1    ONLINE       0     0     0\n"
    "\t    /dev/sdc1    ONLINE       0     0     0\n"
    "\tlogs\t\n"
    "\t  /dev/nvme0n1   ONLINE       0     0     0\n"
    "\tcache\n"
    "\t  /dev/nvme1n1   ONLINE       0     0     0\n"
    "\tspares\n"
    "\t  /dev/sdd1      AVAIL\n"
    "\nerrors: No known data errors\n"
)
MIRRORS = HEAD + (
    "\ttank           ONLINE       0     0     0\n"
    "\t  mirror-0     ONLINE       0     0     0\n"
    "\t    /dev/sda   ONLINE       0     0     0\n"
    "\t    /dev/sdb   ONLINE       0     0     0\n"
    "\t  mirror-1     ONLINE       0     0     0\n"
    "\t    /dev/sdc   ONLINE       0     0     0\n"
    "\t    /dev/sdd   ONLINE       0     0     0\n"
)
STRIPE = HEAD + (
    "\ttank        ONLINE       0     0     0\n"
    "\t  /dev/sda  ONLINE       0     0     0\n"
    "\t  /dev/sdb  ONLINE       0     0     0\n"
)


def pool_status(text: str) -> Any:
    """Return a replacement for `zpool status -P -L tank`."""

    def query(tool: str, *arguments: str) -> str:
        return text if (tool, *arguments) == ("zpool", "status", "-P", "-L", "tank") else ""

    return query


def test_zfs_without_its_tool_has_pool_and_dataset_only(tmp_path: Path) -> None:
    storage = describe(tmp_path, zfs("sda"))

    assert storage.target["volume_count"] is None
    assert storage.target["raid_level"] is None
    assert storage.facts["zfs"] == {
        "pool": "tank",
        "dataset": "tank/data",
        "state": "ONLINE",
        "version": "2.1.11-1",
    }


@pytest.mark.parametrize(
    ("text", "disks", "count", "level"),
    [
        (MIRRORS, ("sda", "sdb", "sdc", "sdd"), 4, "mirror"),
        (STRIPE, ("sda", "sdb"), 2, "stripe"),
        (STRIPE.replace("\t  /dev/sdb  ONLINE       0     0     0\n", ""), ("sda",), 1, None),
        (STRIPE, ("sda",), None, "stripe"),
    ],
)
def test_zfs_with_its_tool_has_disks_and_level(
    tmp_path: Path, text: str, disks: tuple[str, ...], count: int | None, level: str | None
) -> None:
    storage = describe(tmp_path, zfs(*disks), query=pool_status(text.format(scan="none requested")))

    assert (storage.target["volume_count"], storage.target["raid_level"]) == (count, level)
    assert (storage.target["stripe_count"], storage.target["chunk_size_bytes"]) == (None, None)
    assert storage.target["volume_size_bytes"] == (536870912000 if count else None)


def test_logs_caches_and_spares_of_a_pool_are_not_volumes() -> None:
    pool = parse_status(RAIDZ.format(scan="scrub repaired 0B in 00:00:01 with 0 errors"))

    assert pool is not None
    assert (pool.level, pool.devices) == ("raidz2", ("/dev/sda1", "/dev/sdb1", "/dev/sdc1"))
    assert not pool.is_resilvering


def test_resilvering_or_degraded_pool_is_a_raid_state(tmp_path: Path) -> None:
    text = STRIPE.format(scan="resilver in progress since Sun Jul 25 16:07:49 2021")

    resilvering = describe(tmp_path / "a", zfs("sda", "sdb"), query=pool_status(text))
    degraded = describe(tmp_path / "b", zfs("sda", state="DEGRADED"))

    assert resilvering.facts["raid_state"] == "rebuilding"
    assert degraded.facts["raid_state"] == "degraded"


@pytest.mark.parametrize("text", ["", "no pools available\n", HEAD, "config:\n\n\tNAME\n"])
def test_status_without_a_pool_is_unknown(text: str) -> None:
    assert parse_status(text) is None
