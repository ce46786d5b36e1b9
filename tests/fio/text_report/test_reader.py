"""fio's text output: every kind of line, in the layouts of 2.x and 3.x."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from benchapp.fio import read_output
from benchapp.fio.report import Direction, Disk, Latency, Notes, Samples, SteadyState
from benchapp.fio.text_report.reader import read_normal
from tests.corpus import SEEDS
from tests.fio.text_report.texts import (
    ISSUED,
    SUMMARY,
    WHOLE_2_2_10,
    WHOLE_3_28,
    make_old_text,
    make_text,
    read_direction,
    read_document,
    read_file,
    read_job,
    read_text,
)

OLD_READ = "  read : io=784996KB, bw=133662KB/s, iops=33415, runt=  5873msec"
OLD_WRITE = "  write: io=263580KB, bw=44880KB/s, iops=11219, runt=  5873msec"
OLD_ISSUED = "total=r=196249/w=65895/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0"


def list_totals(direction: Direction) -> tuple[object, ...]:
    return (
        direction.io_bytes,
        direction.total_ios,
        direction.iops,
        direction.bandwidth_bytes_per_s,
        direction.runtime_s,
    )


def test_summary_of_2_x_is_read_to_the_last_digit() -> None:
    job = read_job(make_old_text(OLD_READ, OLD_WRITE, issued=OLD_ISSUED))

    read, write = job.directions
    assert list_totals(read) == (803835904, 196249, 33415, 136869888, 5.873)
    assert list_totals(write) == (269905920, 65895, 11219, 45957120, 5.873)
    assert (read.short_ios, read.dropped_ios) == (0, 0)


def test_summary_of_3_x_is_read_to_the_last_digit() -> None:
    direction = read_direction(make_text(SUMMARY))

    assert list_totals(direction) == (491454464, 119984, 1999, 8190976, 60.001)
    assert direction.name == "write"


def test_sources_name_the_printed_figure_of_each_value() -> None:
    direction = read_direction(make_text(SUMMARY, "    clat (usec): min=1, max=2, avg= 1.50, stdev= 0.10"))

    assert direction.sources == {
        "io_bytes": "total_ios × block size, which agrees with io=",
        "bandwidth_bytes_per_s": "BW= in KiB × 1024",
        "iops": "IOPS=",
        "runtime_s": "msec / 1000",
        "total_ios": "total of issued",
        "completion": "clat in usec",
    }


@pytest.mark.corpus
def test_seed_of_2_2_10_is_read_to_the_last_digit() -> None:
    document = read_document((SEEDS / "fio-2.2.10-randrw.txt").read_text())

    (job,) = document.jobs
    assert (document.fio_version, document.is_partial, document.has_precise_values) == (
        "fio-2.2.10",
        False,
        False,
    )
    assert [list_totals(direction) for direction in job.directions] == [
        (803835904, 196249, 33415, 136869888, 5.873),
        (269905920, 65895, 11219, 45957120, 5.873),
    ]
    assert job.options == {"rw": "randrw", "bs": "4096", "ioengine": "libaio", "iodepth": "64"}
    assert (job.cpu_user_percent, job.cpu_system_percent, job.context_switches) == (6.56, 23.11, 266267)
    assert (job.iodepth, job.depth[">=64"], job.directions[0].missing["latency"]) == (
        64,
        100.0,
        "not-measured",
    )


@pytest.mark.corpus
def test_seed_of_3_28_is_read_to_the_last_digit() -> None:
    (job,) = read_document((SEEDS / "fio-3.28-randwrite.txt").read_text()).jobs

    (write,) = job.directions
    assert list_totals(write) == (491454464, 119984, 1999, 8190976, 60.001)
    assert write.submission == Latency(4000, 417000, 12060, 5710, None)
    assert write.total == Latency(382000, 28001000, 495960, 91890, None)
    assert write.completion.mean_ns == 483590
    assert dict(write.completion.percentiles)[99.99] == 1020000
    assert len(write.completion.percentiles) == 17
    assert write.bandwidth_samples == Samples(7585792, 8536064, 8194099.2, 143452.16, 120)
    assert write.iops_samples == Samples(1852, 2084, 2000.45, 35.06, 120)
    assert job.latency_shares[0] == (500_000, 70.67)
    assert write.missing == {}


def test_whole_text_of_2_2_10_is_read_to_the_last_digit() -> None:
    document = read_document(WHOLE_2_2_10)

    (job,) = document.jobs
    assert (document.fio_version, document.is_partial, document.has_precise_values) == (
        "fio-2.2.10",
        False,
        False,
    )
    assert [list_totals(direction) for direction in job.directions] == [
        (603713536, 147391, 27208, 111447040, 5.417),
        (201551872, 49207, 9083, 37207040, 5.417),
    ]
    assert [direction.name for direction in job.directions] == ["read", "write"]
    assert job.options == {"rw": "randrw", "bs": "4096", "ioengine": "libaio", "iodepth": "32"}
    assert (job.cpu_user_percent, job.cpu_system_percent, job.context_switches) == (5.81, 19.47, 180233)
    assert (job.iodepth, job.depth["32"], job.depth[">=64"]) == (32, 100.0, 0.0)
    assert [direction.missing["latency"] for direction in job.directions] == ["not-measured"] * 2


def test_whole_text_of_3_28_is_read_to_the_last_digit() -> None:
    (job,) = read_document(WHOLE_3_28).jobs

    (write,) = job.directions
    assert list_totals(write) == (291672064, 71209, 2373, 9720832, 30.004)
    assert write.submission == Latency(3000, 392000, 10870, 4920, None)
    assert write.total == Latency(331000, 24417000, 418640, 83170, None)
    assert write.completion == Latency(
        320000,
        24398000,
        407590,
        82660,
        None,
        (
            (1.0, 343000),
            (5.0, 359000),
            (10.0, 367000),
            (20.0, 379000),
            (30.0, 388000),
            (40.0, 396000),
            (50.0, 404000),
            (60.0, 412000),
            (70.0, 420000),
            (80.0, 433000),
            (90.0, 449000),
            (95.0, 469000),
            (99.0, 529000),
            (99.5, 570000),
            (99.9, 717000),
            (99.95, 783000),
            (99.99, 1037000),
        ),
    )
    assert write.bandwidth_samples == Samples(9011200, 10076160, 9724190.72, 148203.52, 60)
    assert write.iops_samples == Samples(2200, 2460, 2374.07, 36.18, 60)
    assert job.latency_shares == (
        (500_000, 97.13),
        (750_000, 2.79),
        (1_000_000, 0.06),
        (2_000_000, 0.01),
        (50_000_000, 0.01),
    )
    assert write.missing == {}


def test_bandwidth_in_bits_becomes_bytes() -> None:
    direction = read_file("generated/92_unit_base_bits_normal.out").jobs[0].directions[0]

    assert direction.bandwidth_bytes_per_s == 592 * 1024 * 1024 / 8
    assert direction.sources["bandwidth_bytes_per_s"] == "BW= in Mibit × 1048576 / 8"


def test_cpu_depths_and_latency_target_of_a_job() -> None:
    job = read_job(
        make_text(
            SUMMARY,
            "  cpu          : usr=2.04%, sys=3.25%, ctx=120561, majf=1, minf=58",
            "  IO depths    : 1=100.0%, 2=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.5%",
            "     submit    : 0=0.0%, 4=99.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=1.0%",
            "     complete  : 0=1.5%, 4=98.5%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%",
            "     errors    : total=3, first_error=28/<No space left on device>",
            "     latency   : target=0, window=0, percentile=100.00%, depth=7",
        )
    )

    assert (job.cpu_user_percent, job.cpu_system_percent, job.context_switches) == (2.04, 3.25, 120561)
    assert (job.major_faults, job.minor_faults, job.iodepth) == (1, 58, 7)
    assert (job.depth["1"], job.depth[">=64"]) == (100.0, 0.5)
    assert (job.depth_submitted["4"], job.depth_completed["0"]) == (99.0, 1.5)


@pytest.mark.parametrize(
    ("line", "total", "short", "dropped"),
    [
        ("issued    : total=r=3/w=252/d=9, short=r=0/w=2/d=0", 252, 2, None),
        ("issued    : total=r=3/w=252/d=9, short=r=0/w=2/d=0, drop=r=0/w=1/d=0", 252, 2, 1),
        ("issued rwt: total=3,252,9, short=0,2,0, dropped=0,1,0", 252, 2, 1),
        ("issued rwts: total=3,252,9,7 short=0,2,0,0 dropped=0,1,0,0", 252, 2, 1),
        ("issued rwts: total=3,99999999999999999999,9,7 short=0,2,0,0 dropped=0,1,0,0", None, 2, 1),
    ],
)
def test_counts_of_issued_ios_by_direction(
    line: str, total: int | None, short: int, dropped: int | None
) -> None:
    job = read_job(make_text(SUMMARY, issued=f"     {line}"))

    (write,) = (direction for direction in job.directions if direction.name == "write")
    assert (write.total_ios, write.short_ios, write.dropped_ios) == (total, short, dropped)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "attained=yes, bw=105MiB/s (107MB/s), iops=26.9k, bw mean dev=5.712%",
            SteadyState("bw", True, None, "5.712%", 26900, 110100480),
        ),
        (
            "attained=no, bw=105MiB/s (107MB/s), iops=269, iops slope=0.712%",
            SteadyState("iops_slope", False, None, "0.712%", 269, 110100480),
        ),
        (
            "attained=no, bw=105MiB/s (107MB/s), iops=269, lat=12usec, lat mean dev=3.000",
            SteadyState("lat", False, None, "3.000", 269, 110100480),
        ),
    ],
)
def test_steady_state_as_fio_found_it(line: str, expected: SteadyState) -> None:
    assert read_job(make_text(SUMMARY, f"  steadystate  : {line}")).steady_state == expected


def test_disks_with_and_without_members() -> None:
    text = make_text(SUMMARY) + "\n".join(
        (
            "",
            "Disk stats (read/write):",
            "    dm-1: ios=328/154, merge=0/1, ticks=947625/12780, in_queue=960429, util=99.53%, aggrios=626/101",
            "  sda: ios=626/101, sectors=5/6, merge=25/55, ticks=949096/9541, in_queue=958491, util=99.49%",
        )
    )

    assert read_document(text).disks == (
        Disk("dm-1", 328, 154, 99.53, 0, 1, 947.625, 12.78, 960.429),
        Disk("sda", 626, 101, 99.49, 25, 55, 949.096, 9.541, 958.491, is_member=True),
    )


def test_oldest_job_line_has_no_date() -> None:
    document = read_file("versions/fio-2.0/normal.txt")

    assert (document.fio_version, document.jobs[0].name, document.finished_at) == ("fio 2.0", "mix", None)
    assert list_totals(document.jobs[0].directions[0]) == (102825984, 25104, 25104, 102825984, 1.0)
    assert len(document.jobs[0].directions[0].completion.percentiles) == 15


def test_version_of_2_0_8_is_a_bare_number() -> None:
    assert read_file("versions/fio-2.0.8/normal.txt").fio_version == "2.0.8"


def test_printed_date_is_read_in_the_given_time_zone() -> None:
    output = make_text(SUMMARY).encode()

    (assumed,) = read_output(output).documents
    (known,) = read_output(output, time_zone=ZoneInfo("Europe/Berlin")).documents

    assert (assumed.started_at, assumed.finished_at) == (None, datetime(2022, 12, 21, 14, 56, 37, tzinfo=UTC))
    assert known.finished_at == datetime(2022, 12, 21, 13, 56, 37, tzinfo=UTC)
    assert known.started_at == datetime(2022, 12, 21, 13, 55, 36, 999000, tzinfo=UTC)
    assert "time-zone-assumed" in [note.code for note in read_output(output).warnings]


def test_repeated_hour_of_a_time_zone_is_its_first() -> None:
    output = make_text(SUMMARY).replace("Wed Dec 21 14:56:37 2022", "Sun Oct 30 02:30:00 2022").encode()

    (document,) = read_output(output, time_zone=ZoneInfo("Europe/Berlin")).documents

    assert document.finished_at == datetime(2022, 10, 30, 0, 30, tzinfo=UTC)


def test_description_is_read() -> None:
    assert read_job(make_text('  Description  : [a "quoted" one]', SUMMARY)).description == 'a "quoted" one'


def test_mixed_direction_counts_all_ios() -> None:
    job = read_job(
        make_old_text(
            "  mixed: io=8192KB, bw=8192KB/s, iops=2048, runt=  1000msec",
            issued="total=r=1500/w=548/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0",
        )
    )

    (mixed,) = job.directions
    assert (mixed.name, *list_totals(mixed)) == ("mixed", 8388608, 2048, 2048, 8388608, 1.0)


def test_mixed_line_that_fio_prints_as_zero_is_the_sum() -> None:
    mixed = read_file("generated/20_unified_both_normal.out").jobs[0].directions[-1]

    assert (mixed.name, mixed.io_bytes, mixed.total_ios) == ("mixed", 159838208, 39023)
    assert mixed.iops == pytest.approx(19482.2766)
    assert mixed.sources["iops"] == "sum of read, write and trim; fio before 3.39 prints 0"


def test_runtime_of_zero_gives_no_rates() -> None:
    line = "  write: io=4096B, bw=0B/s, iops=0, runt=     0msec"

    direction = read_direction(
        make_old_text(line, issued="total=r=0/w=1/d=0, short=r=0/w=0/d=0").replace("randrw", "write")
    )

    assert (direction.io_bytes, direction.iops, direction.missing["iops"]) == (4096, None, "zero-runtime")


def test_every_text_has_one_note_about_rounding() -> None:
    notes = Notes()

    read_normal(make_text(SUMMARY), notes)

    assert [(note.code, note.where) for note in notes.list_all()] == [("text-precision", "document 0")]


def test_text_without_a_report_is_returned_unchanged() -> None:
    text = "nothing of fio's\r\n\r\nat all"

    assert (read_text(text).documents, read_text(text).rest) == ((), text)


def test_counts_are_missing_if_the_line_has_an_unknown_format() -> None:
    direction = read_direction(make_text(SUMMARY, issued="     issued rwts: total= short=0"))

    assert (direction.total_ios, direction.missing["total_ios"]) == (None, "not-reported")
    assert direction.io_bytes == 469 * 1024 * 1024
    assert ISSUED not in make_text(SUMMARY, issued="")
