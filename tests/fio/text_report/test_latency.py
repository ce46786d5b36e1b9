"""Latencies, percentiles, samples and shares of fio's text, line by line."""

import pytest

from benchapp.fio.report import Latency, Samples
from tests.fio.text_report.texts import SUMMARY, make_text, read_direction, read_file, read_job


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("slat (usec): min=4, max=417, avg=12.06, stdev= 5.71", Latency(4000, 417000, 12060, 5710, None)),
        ("slat (usec): min=3 , max=4326 , avg= 8.72, stdev=58.65", Latency(3000, 4326000, 8720, 58650, None)),
        ("slat (nsec): min=601, max=12905k, avg=547.2, stdev=1.3", Latency(601, 12905000, 547.2, 1.3, None)),
        ("slat (msec): min=1, max=192, avg= 1.90, stdev= 1.48", Latency(1e6, 192e6, 1.9e6, 1.48e6, None)),
        (
            "slat (nsec): min=500, max=1172.3M, avg=41078.37, stdev=4706686.20",
            Latency(500, 1172300000, 41078.37, 4706686.2, None),
        ),
        (
            "slat (msec): min=1, max=1900123, avg=1200345.67, stdev= 0.01",
            Latency(1e6, 1_900_123e6, 1_200_345_670_000, 1e4, None),
        ),
        ("slat (usec): min=1, max=2, avg= -nan, stdev= -nan", Latency(1000, 2000, None, None, None)),
    ],
)
def test_latency_is_in_ns_by_the_unit_of_its_line(line: str, expected: Latency) -> None:
    assert read_direction(make_text(SUMMARY, f"    {line}")).submission == expected


def test_nan_in_a_latency_is_not_a_number() -> None:
    direction = read_direction(make_text(SUMMARY, "    clat (usec): min=1, max=2, avg= -nan, stdev=inf"))

    assert direction.missing["completion"] == "not-a-number"


@pytest.mark.parametrize(
    "line",
    [
        "clat (msec): min=753429K, max=753429K, avg=753429.00, stdev= 0.00",
        "clat (usec): min=9, max=3, avg= 5.00, stdev= 0.00",
    ],
)
def test_latency_of_a_wrapped_counter_is_withheld(line: str) -> None:
    direction = read_direction(make_text(SUMMARY, line, "lat (usec): min=3, max=9, avg= 5.00, stdev= 0.00"))

    assert (direction.completion, direction.missing["completion"]) == (None, "out-of-range")
    assert direction.total.mean_ns == 5000


def test_each_table_of_percentiles_is_with_its_latency() -> None:
    direction = read_direction(
        make_text(
            SUMMARY,
            "    clat (usec): min=1, max=9, avg= 5.00, stdev= 0.00",
            "     lat (usec): min=2, max=9, avg= 6.00, stdev= 0.00",
            "    slat percentiles (nsec):",
            "     |  1.00th=[  404], 50.00th=[ 1004]",
            "    clat percentiles (usec):",
            "     |  1.00th=[    3],  5.00th=[    4],",
            "     | 50.00th=[12911]",
            "    lat percentiles (msec):",
            "     | 99.99th=[   17]",
        )
    )

    assert direction.submission == Latency(None, None, None, None, None, ((1.0, 404), (50.0, 1004)))
    assert direction.completion.percentiles == ((1.0, 3000), (5.0, 4000), (50.0, 12911000))
    assert direction.total.percentiles == ((99.99, 17_000_000),)


@pytest.mark.parametrize(
    "title",
    [
        "    clat prio 0/0 (79.72% of IOs) percentiles (usec):",
        "    clat prio 2/7/0 (10.00% of IOs) percentiles (usec):",
        "    high prio_clat percentiles (usec):",
    ],
)
def test_table_of_one_priority_does_not_replace_that_of_all(title: str) -> None:
    direction = read_direction(
        make_text(
            SUMMARY,
            "    clat (usec): min=1, max=9, avg= 5.00, stdev= 0.00",
            "    clat prio 0/0 (nsec): min=661, max=11053k, avg=140389.50, stdev=375302.45",
            "    clat percentiles (usec):",
            "     | 50.00th=[    5]",
            title,
            "     | 50.00th=[   77]",
        )
    )

    assert direction.completion == Latency(1000, 9000, 5000, 0, None, ((50.0, 5000),))


def test_table_without_end_is_read_to_a_limit() -> None:
    row = "     | 50.00th=[    5], 60.00th=[    6]"

    direction = read_direction(make_text(SUMMARY, "    clat percentiles (usec):", *[row] * 100_000))

    assert direction.completion is None or len(direction.completion.percentiles) <= 64


def test_file_with_priorities_has_the_percentiles_of_all_ios() -> None:
    completion = read_file("generated/99_cmdprio_normal.out").jobs[0].directions[0].completion

    assert (completion.mean_ns, dict(completion.percentiles)[99.0]) == (129566.11, 1074000)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "bw (  KiB/s): min= 7408, max= 8336, per=100.00%, avg=8002.05, stdev=140.09, samples=120",
            Samples(7585792, 8536064, 8194099.2, 143452.16, 120),
        ),
        (
            "bw (  MiB/s): min= 6499, max= 6499, per=100.00%, avg=6499.98, stdev= 0.00, samples=1",
            Samples(6814695424, 6814695424, 6815723028.48, 0, 1),
        ),
        (
            "bw ( Kibit/s): min= 8, max= 16, per=1.00%, avg=12.00, stdev= 0.00, samples=2",
            Samples(1024, 2048, 1536, 0, 2),
        ),
        (
            "bw (KB  /s): min=34373, max=70176, per=100.00%, avg=67211.32, stdev=5212.44",
            Samples(35197952, 71860224, 68824391.68, 5337538.56, None),
        ),
        (
            "bw (KB/s)  : min=92512, max=92512, per=95.78%, avg=92512.00, stdev= 0.00",
            Samples(94732288, 94732288, 94732288, 0, None),
        ),
    ],
)
def test_samples_of_bandwidth_are_in_bytes_per_second(line: str, expected: Samples) -> None:
    assert read_direction(make_text(SUMMARY, f"   {line}")).bandwidth_samples == expected


def test_samples_of_iops_are_as_printed() -> None:
    direction = read_direction(
        make_text(SUMMARY, "   iops        : min= 1852, max= 2084, avg=2000.45, stdev=35.06, samples=120")
    )

    assert direction.iops_samples == Samples(1852, 2084, 2000.45, 35.06, 120)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("versions/fio-3.7/normal_group2.txt", "per-job-samples"),
        ("versions/fio-3.13/normal_group2.txt", None),
    ],
)
def test_samples_of_several_jobs_are_used_from_3_13_on(name: str, missing: str | None) -> None:
    direction = read_file(name).jobs[0].directions[0]

    assert direction.missing.get("bandwidth_samples") == missing
    assert direction.missing.get("iops_samples") == missing


def test_samples_under_kb_base_1000_are_kib_whatever_their_prefix() -> None:
    direction = read_file("generated/91_kb_base_1000_normal.out").jobs[0].directions[0]

    # 23 046.33 IOPS of 4096 bytes are 92 185 KiB/s, which fio labels kB/s.
    assert direction.bandwidth_samples.mean == 92186 * 1024
    assert direction.bandwidth_bytes_per_s == 88_700_000
    assert direction.sources["bandwidth_bytes_per_s"] == "BW= in MB × 1000000"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            (
                "  lat (nsec)   : 750=0.01%",
                "  lat (usec)   : 2=0.01%, 1000=0.46%",
                "  lat (msec)   : >=2000=2.60%",
            ),
            ((750, 0.01), (2000, 0.01), (1_000_000, 0.46), (None, 2.6)),
        ),
        (
            ("    lat (usec) : 750=0.02%, 1000=0.01%", "    lat (msec) : 2=0.10%, 2000=0.20%"),
            ((750_000, 0.02), (1_000_000, 0.01), (2_000_000, 0.1), (2_000_000_000, 0.2)),
        ),
    ],
)
def test_shares_of_latencies_have_bounds_in_ns(
    lines: tuple[str, ...], expected: tuple[tuple[int | None, float], ...]
) -> None:
    assert read_job(make_text(SUMMARY, *lines)).latency_shares == expected


def test_latency_of_fsync_is_the_direction_sync() -> None:
    job = read_file("versions/fio-3.7/normal_fsync.txt").jobs[0]

    write, sync = job.directions
    assert (sync.name, sync.total_ios, sync.total.mean_ns) == ("sync", 15, 2314340)
    assert dict(sync.total.percentiles)[50.0] == 3326000
    assert (sync.iops, sync.missing["iops"]) == (None, "not-reported")
    assert (write.total_ios, len(write.completion.percentiles)) == (64, 17)


def test_fsyncs_that_fio_does_not_count_have_no_count() -> None:
    sync = read_file("generated/26_fdatasync_normal.out").jobs[0].directions[-1]

    assert (sync.total_ios, sync.missing["total_ios"], sync.total.mean_ns) == (None, "not-reported", 2364900)
