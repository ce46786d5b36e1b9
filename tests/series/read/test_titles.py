from dataclasses import replace

import pytest

from benchapp.models import name_scopes
from benchapp.series.read.shapes import TargetRow, WorkloadRow
from benchapp.series.read.titles import (
    describe_block_size,
    describe_options,
    describe_target,
    describe_workload,
    join_titles,
    name_scope,
)

GIB = 2**30
WORKLOAD = WorkloadRow(
    rw="randread",
    block_size_bytes=4096,
    block_size_text="4k",
    iodepth=8,
    numjobs=1,
    file_size_bytes=64 * 2**20,
    file_size_text="64m",
    is_direct=True,
    engine="libaio",
    read_share_percent=100,
    runtime_s=None,
    options={},
)


@pytest.mark.parametrize(
    ("changes", "direction", "title"),
    [
        ({}, "read", "4k random read · QD 8 × 1 job · 64 MiB file"),
        (
            {"rw": "write", "numjobs": 4},
            "write",
            "4k sequential write · QD 8 × 4 jobs · 64 MiB file",
        ),
        (
            {"rw": "randrw", "read_share_percent": 70},
            "write",
            "4k random read/write 70/30, writes · QD 8 × 1 job · 64 MiB file",
        ),
        (
            {"rw": "randrw", "read_share_percent": 70},
            "mixed",
            "4k random read/write 70/30, total · QD 8 × 1 job · 64 MiB file",
        ),
        ({"rw": "rw"}, "", "4k sequential read/write 100/0 · QD 8 × 1 job · 64 MiB file"),
        ({"rw": "write"}, "sync", "4k sequential write, syncs · QD 8 × 1 job · 64 MiB file"),
        (
            {"is_direct": False, "engine": "psync", "runtime_s": 20.0},
            "read",
            "4k random read · QD 8 × 1 job · 64 MiB file · buffered · psync · ≤ 20 s",
        ),
        (
            {"runtime_s": 60.0, "options": {"time_based": 1}},
            "read",
            "4k random read · QD 8 × 1 job · 64 MiB file · 60 s",
        ),
        (
            {
                "options": {"fsync": 1, "beside": "randread 4096 iodepth 1 numjobs 1 × 2"},
                "file_size_bytes": None,
                "file_size_text": "",
            },
            "read",
            "4k random read · QD 8 × 1 job · beside random read 4k, QD 1 (2 jobs) · fsync 1",
        ),
        ({"rw": "weird"}, "read", "4k weird · QD 8 × 1 job · 64 MiB file"),
        (
            {"block_size_bytes": None, "block_size_text": ""},
            "read",
            "random read · QD 8 × 1 job · 64 MiB file",
        ),
        (
            {
                "rw": "unknown-read",
                "iodepth": None,
                "is_direct": None,
                "engine": "",
                "options": {"options": "not-reported", "job": "db"},
            },
            "read",
            "4k read, sequential or random · 1 job · 64 MiB file · options unknown (job db)",
        ),
        (
            {"rw": "write", "engine": "shell", "options": {"nrfiles": "1001"}},
            "write",
            "1001 small files written by the shell",
        ),
        ({"rw": "read", "engine": "shell", "options": {}}, "read", "small files read by the shell"),
        (
            {"is_direct": None, "engine": "psync", "options": {"options": "not-reported", "job": "db"}},
            "read",
            "4k random read · QD 8 × 1 job · 64 MiB file · psync · other options unknown (job db)",
        ),
        (
            {"file_size_bytes": None, "file_size_text": "10%"},
            "read",
            "4k random read · QD 8 × 1 job · 10% file",
        ),
    ],
)
def test_workload_in_one_line(changes, direction, title):
    assert describe_workload(replace(WORKLOAD, **changes), direction=direction) == title


@pytest.mark.parametrize(
    ("name", "stored", "shown"),
    [
        ("beside", "write 1048576 iodepth 16 numjobs 1 × 1", "sequential write 1M, QD 16 (1 job)"),
        ("beside", "read  iodepth None numjobs 4 × 1", "sequential read, unknown depth (1 × 4 jobs)"),
        (
            "beside",
            "randread 4k,8k, iodepth 1 numjobs 2 × 3, write 512 iodepth 1 numjobs 1 × 1",
            "random read 4k,8k,, QD 1 (3 × 2 jobs); sequential write 512, QD 1 (1 job)",
        ),
        ("beside", "11 others of 0123456789abcdef", "11 others of 0123456789abcdef"),
        ("beside", "randread 4096 iodepth 1 numjobs 1 × 2 cut", "randread 4096 iodepth 1 numjobs 1 × 2 cut"),
        ("offset_increment", "134217728", "128 MiB"),
        ("offset", "20%", "20%"),
        ("rate", "1048576,0", "1 MiB/s, 0 B/s"),
        ("ramp_time", "10", "10 s"),
        ("thinktime", "0.0001", "100 µs"),
        ("fsync", "4096", "4096"),
    ],
)
def test_options_are_in_words_and_units(name, stored, shown):
    workload = replace(WORKLOAD, options={name: stored})

    assert describe_options(workload) == {name: shown}
    assert describe_workload(workload).endswith(f" · {name.replace('_', ' ')} {shown}")


def test_neighbors_of_a_report_without_options_are_not_called_sequential():
    workload = replace(WORKLOAD, rw="unknown-read", options={"beside": "read 4096 iodepth 1 numjobs 1 × 1"})

    assert describe_options(workload) == {"beside": "read 4k, QD 1 (1 job)"}


@pytest.mark.parametrize(
    ("target", "title"),
    [
        (
            TargetRow(
                filesystem="ext4",
                volume_type="gp3",
                volume_count=4,
                volume_size_bytes=500 * GIB,
                raid_level="raid0",
                chunk_size_bytes=65536,
            ),
            "ext4 on 4 × gp3 500 GiB, RAID0, chunk 64 KiB",
        ),
        (TargetRow(), "unknown layout"),
        (TargetRow(filesystem="xfs"), "xfs"),
        (TargetRow(target_name="/data"), "/data"),
        (TargetRow(target_name="/data", filesystem="xfs"), "/data: xfs"),
        (TargetRow(volume_count=2), "2 × volume"),
        (TargetRow(volume_size_bytes=2**40), "1 TiB"),
        (TargetRow(raid_level="0", stripe_count=1), "RAID0, 1 stripe"),
        (TargetRow(raid_level="linear", stripe_count=3), "linear, 3 stripes"),
        (TargetRow(volume_type="io2", provisioned_iops=16000), "io2, 16000 IOPS provisioned"),
        (TargetRow(instance_type="m5.large"), "m5.large"),
        (TargetRow(filesystem="ext4", instance_type="m5.large"), "ext4, on m5.large"),
        (TargetRow(volume_type="gp2", volume_size_bytes=500 * 10**9), "gp2 465.7 GiB"),
    ],
)
def test_target_in_one_line(target, title):
    assert describe_target(target) == title


def test_series_names_its_layout_only_when_it_is_known():
    workload = "4k random read · QD 8 × 1 job · 64 MiB file"

    assert join_titles(workload, describe_target(TargetRow())) == workload
    assert join_titles(workload, "xfs") == f"{workload} · xfs"


@pytest.mark.parametrize(
    ("size_bytes", "text", "said"),
    [(4096, "", "4k"), (2**20, "", "1M"), (512, "", "512"), (1536, "", "1536"), (None, "4k/64k", "4k/64k")],
)
def test_block_size_is_said_as_fio_writes_it(size_bytes, text, said):
    workload = replace(WORKLOAD, block_size_bytes=size_bytes, block_size_text=text)

    assert describe_block_size(workload) == said


def test_scope_is_named_without_its_kind():
    assert name_scope("pool:db:1") == "db:1"


@pytest.mark.parametrize(
    ("scopes", "text"),
    [
        (["host:db-1"], "db-1"),
        (["pool:web"], "pool web"),
        (["host:db-10", "host:db-9"], "db-9 and db-10"),
        (["host:db-09", "host:db-03", "host:db-10", "host:db-11"], "db-03 and db-09 to db-11"),
        (["host:a", "host:b", "host:c"], "a, b and c"),
        (["host:a", "pool:edge"], "pool edge and a"),
        ([f"host:h{number}" for number in (1, 3, 5, 7)], "4 hosts"),
        ([*(f"host:h{number}" for number in (1, 3, 5)), "pool:edge"], "3 hosts and 1 pool"),
        ([f"host:h{number}" for number in range(1, 1100)], "h1 to h1099"),
        ([], ""),
    ],
)
def test_scopes_are_named_by_name_or_range_and_counted_beyond(scopes: list[str], text: str) -> None:
    assert name_scopes(scopes) == text
