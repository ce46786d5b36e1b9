"""Jobs of fio's text: options from their headers, and roll-up."""

import pytest

from benchapp.fio.report import Note, Notes
from benchapp.fio.text_report.reader import read_normal
from benchapp.fio.workload import read_workload
from tests.fio.text_report.texts import (
    END,
    HEADER,
    ISSUED,
    JOB_LINE,
    SUMMARY,
    list_codes,
    make_text,
    read_document,
    read_file,
    read_job,
)


@pytest.mark.parametrize(
    ("version", "target"), [("fio-2.2.10", "5000000us"), ("fio-3.2", "5000000us"), ("fio-3.3", "5000us")]
)
def test_target_of_latency_is_an_option_in_us_and_from_3_3_in_ns(version: str, target: str) -> None:
    line = "     latency   : target=5000000, window=500000, percentile=99.00%, depth=32"

    options = read_job(make_text(SUMMARY, line, version=version)).options

    assert (options["latency_target"], options["latency_window"]) == (target, "500000us")
    assert options["latency_percentile"] == "99"


def test_failed_job_has_a_note_with_error_and_reason() -> None:
    job = (
        "job: (groupid=0, jobs=1): err=28 (file:io_u.c:1876, func=io_u error, error=No space left on device):"
        " pid=21559: Sat Nov 21 07:38:10 2026"
    )
    notes = Notes()

    (found,) = read_normal(make_text(SUMMARY, job=job), notes).documents

    assert found.jobs[0].error == 28
    assert notes.list_all()[1] == Note(
        "job-error",
        "document 0, job 0 (job)",
        "this job failed with error 28: file:io_u.c:1876, func=io_u error, error=No space left on device",
    )


@pytest.mark.parametrize("name", ["read", "cpu", "lat", "Run", "a job: with (parts)", "Jobs"])
def test_job_name_may_look_like_a_line_of_the_report(name: str) -> None:
    text = make_text(SUMMARY).replace("job: (g", f"{name}: (g")

    document = read_document(text)

    assert (document.jobs[0].name, document.jobs[0].options["rw"]) == (name, "randwrite")


def test_direction_without_io_is_not_reported() -> None:
    (trim,) = read_file("generated/28_trim_file_normal.out").jobs[0].directions

    assert (trim.name, trim.total_ios, trim.iops, trim.missing["iops"]) == ("trim", 1, None, "not-reported")


def test_requested_direction_without_io_is_listed() -> None:
    text = make_text(SUMMARY).replace("rw=randwrite", "rw=randrw")

    read, write = read_job(text).directions

    assert (read.name, read.total_ios, read.missing["iops"]) == ("read", 0, "no-io")
    assert write.total_ios == 119984


@pytest.mark.parametrize(
    ("header", "block_size_bytes", "block_size_text"),
    [
        ("bs=4K-4K/4K-4K", 4096, ""),
        ("bs=64K-64K/64K-64K/64K-64K", 65536, ""),
        ("bs=64.0KiB-64.0KiB,64.0KiB-64.0KiB,64.0KiB-64.0KiB", 65536, ""),
        ("bs=(R) 32.0MiB-32.0MiB, (W) 32.0MiB-32.0MiB, (T) 32.0MiB-32.0MiB", 33554432, ""),
        ("bs=(R) 2300B-2300B, (W) 2300B-2300B, (T) 2300B-2300B", 2300, ""),
        ("bs=(R) 4096B-16.0KiB, (W) 4096B-16.0KiB, (T) 4096B-16.0KiB", None, "4096-16384"),
        ("bs=(R) 4096B-4096B, (W) 8192B-8192B, (T) 4096B-4096B", None, "4096,8192"),
        ("bs=(R) 4096B-4096B, (W) 8192B-16.0KiB, (T) 4096B-4096B", None, "4096,8192-16384"),
    ],
)
def test_header_contains_the_workload(
    header: str, block_size_bytes: int | None, block_size_text: str
) -> None:
    line = f"job: (g=0): rw=randrw, {header}, ioengine=libaio, iodepth=16"

    (group,) = read_document(make_text(SUMMARY, header=line)).groups
    workload = read_workload(group)

    assert (workload.block_size_bytes, workload.block_size_text) == (block_size_bytes, block_size_text)
    assert (workload.rw, workload.engine, workload.iodepth) == ("randrw", "libaio", 16)
    assert workload.extra == {"options": "not-reported", "job": "job"}


def test_header_of_each_job_is_found_by_name_and_group() -> None:
    document = read_file("generated/81_multi_job_normal.out")

    assert [(group.name, group.options["rw"], group.numjobs) for group in document.groups] == [
        ("seqread", "read", 1),
        ("randwrite", "randwrite", 2),
        ("randrw", "randrw", 1),
    ]
    assert document.groups[2].options["bsrange"] == "4096-16384"


def test_header_of_the_same_host_is_used() -> None:
    other = HEADER.replace("4096B", "8192B")
    text = "\n".join(
        (
            "<a> hostname=a, be=0, 64-bit, os=Linux, arch=x86-64, fio=fio-3.33, flags=1",
            "<b> hostname=b, be=0, 64-bit, os=Linux, arch=x86-64, fio=fio-3.33, flags=1",
            f"<a> {HEADER}",
            f"<b> {other}",
            "<b> ",
            JOB_LINE,
            SUMMARY,
            ISSUED,
            END,
            "<a> ",
            JOB_LINE,
            SUMMARY,
            ISSUED,
            END,
        )
    )

    document = read_document(text)

    assert [(group.hostname, group.options["bs"]) for group in document.groups] == [
        ("b", "8192"),
        ("a", "4096"),
    ]


def test_clones_are_rolled_up_and_their_percentiles_withheld() -> None:
    document = read_file("generated/14_numjobs4_normal.out")

    (group,) = document.groups
    assert (group.numjobs, group.jobs, group.directions[0].total_ios) == (4, (0, 1, 2, 3), 52382)
    assert group.directions[0].iops == 6626 + 6779 + 5983 + 6762
    assert group.directions[0].missing["percentiles"] == "clones-without-bins"


def test_grouped_clones_are_counted_by_the_job_line() -> None:
    (job,) = read_file("generated/15_numjobs4_group_normal.out").jobs

    assert (job.clones, job.options["numjobs"], job.has_all_options) == (4, "4", False)


def test_report_without_headers_has_no_options() -> None:
    text = make_text(SUMMARY, header="")

    assert read_job(text).options == {}
    assert list_codes(text) == ["options-not-reported"]


def test_jobs_summed_into_another_have_a_note() -> None:
    header = "other: (g=0): rw=read, bs=(R) 8192B-8192B, (W) 8192B-8192B, (T) 8192B-8192B, ioengine=sync, iodepth=1"
    text = make_text(SUMMARY).replace("fio-3.28", f"{header}\nfio-3.28")

    assert list_codes(text) == ["job-not-printed"]
    assert list_codes(text.replace("jobs=1", "jobs=2")) == ["group-of-different-jobs"]
    assert read_document(text).groups[0].numjobs == 1
    assert read_document(text.replace("jobs=1", "jobs=2")).groups[0].numjobs is None


def test_iops_below_100_are_calculated_as_fio_truncates_them() -> None:
    text = (
        "slow: (groupid=0, jobs=1): err= 0: pid=1: Sat Nov 21 10:00:00 2026\n"
        "  read: IOPS=1, BW=4900B/s (4900B/s)(288KiB/60200msec)\n"
        "    issued rwts: total=72,0,0,0 short=0,0,0,0 dropped=0,0,0,0\n"
    )

    (found,) = read_normal(text, Notes()).documents

    (read,) = found.groups[0].directions
    assert read.iops == pytest.approx(72 / 60.2)
    assert read.sources["iops"] == "total_ios / run time, of which IOPS= is the whole part"


def test_disk_with_nan_utilisation_is_kept() -> None:
    text = (
        "a: (groupid=0, jobs=1): err= 0: pid=1: Sat Nov 21 10:00:00 2026\n"
        "  read: IOPS=200, BW=800KiB/s (819kB/s)(800KiB/1000msec)\n"
        "    issued rwts: total=200,0,0,0 short=0,0,0,0 dropped=0,0,0,0\n"
        "\nDisk stats (read/write):\n"
        "  vda: ios=0/0, merge=0/0, ticks=0/0, in_queue=0, util=-nan%\n"
    )

    (found,) = read_normal(text, Notes()).documents

    (disk,) = found.disks
    assert (disk.name, disk.utilisation_percent) == ("vda", None)
