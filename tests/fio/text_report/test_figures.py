"""Figures of fio's text: units, rounding, and faults of fio."""

import pytest

from benchapp.fio.text_report.figures import (
    MODERN,
    OLD_BYTES,
    OLD_COUNTS,
    FigureVerdict,
    explain_absence,
    judge_figure,
    read_figure,
)
from tests.fio.text_report.texts import (
    OLD_HEADER,
    SUMMARY,
    list_codes,
    make_old_text,
    make_text,
    read_direction,
    read_document,
    read_job,
)


@pytest.mark.parametrize(
    ("text", "value", "step"),
    [
        ("1999", 1999, 1),
        ("33.4k", 33_400, 100),
        ("1591k", 1_591_000, 1000),
        ("2.5M", 2_500_000, 100_000),
        ("7999KiB/s", 8_190_976, 1024),
        ("8191kB/s", 8_191_000, 1000),
        ("69.5MiB/s", 72_876_032, 104_857.6),
        ("19.0GiB", 20_401_094_656, 107_374_182.4),
        ("1.0TiB", 1_099_511_627_776, 109_951_162_777.6),
        ("592Mibit/s", 77_594_624, 131_072),
        ("621Mbit/s", 77_625_000, 125_000),
        ("98.5Mi", 103_284_736, 104_857.6),
        ("4096B", 4096, 1),
        ("0", 0, 1),
        (" 12 ", 12, 1),
    ],
)
def test_figure_of_3_x_is_read_by_its_unit(text: str, value: float, step: float) -> None:
    figure = read_figure(text, MODERN)

    assert (figure.value, figure.step) == (value, pytest.approx(step))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("784996KB", 803_835_904),
        ("4096.0MB", 4_294_967_296),
        ("561152 B", 561_152),
        ("1.5GB/s", 1_610_612_736),
        # The list of prefixes has no T in 2.x: a terabyte prints as P.
        ("2.0PB", 2 * 1024**4),
        ("100Kb/s", 12_800),
    ],
)
def test_prefixes_of_2_x_are_powers_of_1024(text: str, value: float) -> None:
    assert read_figure(text, OLD_BYTES).value == value


def test_counts_of_2_x_are_in_powers_of_1000() -> None:
    assert read_figure("104.2K", OLD_COUNTS).value == 104_200


def test_cached_figures_are_distinguished_by_their_prefixes() -> None:
    values = [read_figure("2.0M", prefixes).value for prefixes in (OLD_BYTES, OLD_COUNTS, MODERN, OLD_BYTES)]

    assert values == [2_097_152, 2_000_000, 2_000_000, 2_097_152]


@pytest.mark.parametrize(
    "text", ["", "nan", "-5", "1e5", "5 apples", "5XiB", "1.2.3", "9" * 30, "9999999999GiB", "٣"]
)
def test_invalid_figure_is_none(text: str) -> None:
    assert read_figure(text, MODERN) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [("nan", "not-a-number"), ("-nan", "not-a-number"), ("inf", "not-a-number"), ("9EEB", "out-of-range")],
)
def test_invalid_figure_has_a_reason(text: str, reason: str) -> None:
    assert explain_absence(text) == reason


@pytest.mark.parametrize(
    ("text", "exact", "version", "verdict"),
    [
        ("1999", 1999.7, (3, 28, 0), FigureVerdict.AGREES),
        ("29.2k", 29169.8, (3, 1, 0), FigureVerdict.AGREES),
        ("11.0M", 11_980_000, (3, 1, 0), FigureVerdict.CARRY_LOST),
        ("11.0M", 11_980_000, (2, 20, 0), FigureVerdict.CARRY_LOST),
        ("11.0M", 11_980_000, (3, 25, 0), FigureVerdict.CARRY_LOST),
        ("11.0M", 11_980_000, (0, 0, 0), FigureVerdict.CARRY_LOST),
        ("11.0M", 11_980_000, (3, 26, 0), FigureVerdict.CONTRADICTS),
        ("11.0M", 12_980_000, (3, 1, 0), FigureVerdict.CONTRADICTS),
        ("11.0M", 10_500_000, (3, 1, 0), FigureVerdict.CONTRADICTS),
        ("11.1M", 11_980_000, (3, 1, 0), FigureVerdict.CONTRADICTS),
        ("12.6M", 12_055_000, (2, 19, 0), FigureVerdict.DECIMALS_ARE_JUNK),
        ("12.6M", 13_055_000, (2, 19, 0), FigureVerdict.CONTRADICTS),
    ],
)
def test_figure_is_compared_by_the_rounding_of_its_version(
    text: str, exact: float, version: tuple[int, int, int], verdict: FigureVerdict
) -> None:
    assert judge_figure(read_figure(text, MODERN), exact, version) is verdict


def test_lost_carry_is_corrected_by_the_count_of_ios() -> None:
    text = make_text(
        "  write: IOPS=3068, BW=11.0MiB/s (12.6MB/s)(3596MiB/300032msec)",
        issued="     issued rwt: total=0,920632,0, short=0,0,0, dropped=0,0,0",
        version="fio-3.1",
    )

    direction = read_direction(text)

    assert direction.bandwidth_bytes_per_s == pytest.approx(920632 * 4096 / 300.032)
    assert (direction.io_bytes, direction.iops) == (920632 * 4096, 3068)
    assert direction.sources["bandwidth_bytes_per_s"] == "total_ios × block size / run time; BW= is at fault"
    assert list_codes(text) == ["text-carry-lost"]


@pytest.mark.parametrize(
    ("summary", "bandwidth", "io_bytes"),
    [
        # Where sizes vary, the figure in brackets decides, else the rounded bytes.
        ("IOPS=3068, BW=11.0MiB/s (12.6MB/s)(3595MiB/300032msec)", 12_600_000, 3595 * 2**20),
        ("IOPS=3068, BW=11.0MiB/s (12.0MB/s)(3595MiB/300032msec)", 3595 * 2**20 / 300.032, 3595 * 2**20),
        ("IOPS=2043, BW=2043MiB/s (2143MB/s)(19.0GiB/10001msec)", 2043 * 2**20, int(2043 * 2**20 * 10.001)),
    ],
)
def test_lost_carry_is_corrected_by_the_other_figures(summary: str, bandwidth: float, io_bytes: int) -> None:
    header = "job: (g=0): rw=write, bs=(R) 512B-1024KiB, (W) 512B-1024KiB, (T) 512B-1024KiB, ioengine=sync, iodepth=1"
    text = make_text(
        f"  write: {summary}",
        issued="     issued rwts: total=0,9,0,0 short=0,0,0,0",
        header=header,
        version="fio-3.25",
    )

    direction = read_direction(text)

    assert direction.bandwidth_bytes_per_s == pytest.approx(bandwidth)
    assert direction.io_bytes == io_bytes
    assert "text-carry-lost" in list_codes(text)


def test_unusual_figure_of_a_later_version_is_accepted() -> None:
    text = make_text(
        "  write: IOPS=3068, BW=11.0MiB/s (12.6MB/s)(3596MiB/300032msec)",
        issued="     issued rwts: total=0,920632,0,0 short=0,0,0,0 dropped=0,0,0,0",
        version="fio-3.26",
    )

    assert read_direction(text).bandwidth_bytes_per_s == 11 * 2**20
    assert list_codes(text) == []


def test_decimals_of_2_x_are_corrected_if_counts_prove_them_wrong() -> None:
    # 12.055 MB: the remainder of 56 KB prints as if it were decimals.
    text = make_old_text(
        "  write: io=12.57MB, bw=12.57MB/s, iops=3086, runt=  1000msec",
        issued="total=r=0/w=3086/d=0, short=r=0/w=0/d=0",
        version="fio-2.1.3",
    ).replace("randrw", "write")

    direction = read_direction(text)

    assert (direction.io_bytes, direction.bandwidth_bytes_per_s) == (12640256, 12640256)
    assert list_codes(text) == ["text-decimals-wrong"] * 2


def test_kb_base_1000_of_2_x_is_found_by_the_counts() -> None:
    text = make_old_text(
        "  write: io=12640KB, bw=12640KB/s, iops=3086, runt=  1000msec",
        issued="total=r=0/w=3086/d=0, short=r=0/w=0/d=0",
    ).replace("randrw", "write")

    direction = read_direction(text)

    assert (direction.io_bytes, direction.bandwidth_bytes_per_s) == (12640256, 12640000)


def test_bytes_are_as_printed_if_there_were_short_ios() -> None:
    text = make_text(
        "  write: IOPS=1999, BW=7999KiB/s (8191kB/s)(469MiB/60001msec)",
        issued="     issued rwts: total=0,119984,0,0 short=0,3,0,0 dropped=0,0,0,0",
    )

    assert read_direction(text).io_bytes == 469 * 2**20


def test_block_size_of_the_first_job_does_not_correct_the_bytes_of_a_group() -> None:
    # 300 000 I/Os, some of 4 KiB and some of 8 KiB: 1.1 GB if all were of 4 KiB.
    text = make_old_text(
        "  write: io=1.8GB, bw=188743KB/s, iops=30000, runt= 10000msec",
        issued="total=r=0/w=300000/d=0, short=r=0/w=0/d=0",
    ).replace("randrw", "write")

    direction = read_direction(text)

    assert (direction.io_bytes, direction.bandwidth_bytes_per_s) == (int(1.8 * 2**30), 188743 * 1024)
    assert list_codes(text) == []


def test_bytes_are_as_printed_where_a_block_size_lost_digits() -> None:
    sizes = "bs=(R) 63.5KiB-63.5KiB, (W) 63.5KiB-63.5KiB, (T) 63.5KiB-63.5KiB"
    text = make_text(
        "  write: IOPS=100, BW=6348KiB/s (6500kB/s)(62.0MiB/10000msec)",
        issued="     issued rwts: total=0,1000,0,0 short=0,0,0,0 dropped=0,0,0,0",
        header=f"job: (g=0): rw=write, {sizes}, ioengine=sync, iodepth=1",
    )

    assert read_direction(text).io_bytes == 62 * 2**20
    assert read_document(text).jobs[0].options["bs"] == "65024"


def test_invalid_rate_is_missing_with_a_reason() -> None:
    direction = read_direction(make_text("  write: IOPS=-nan, BW=inf (nan)(0B/60001msec)"))

    assert (direction.iops, direction.bandwidth_bytes_per_s) == (None, None)
    assert (direction.missing["iops"], direction.missing["bandwidth_bytes_per_s"]) == ("not-a-number",) * 2


SNAPSHOT = "  read : io=108160KB, bw=123KB/s, iops=30, runt=875555msec"
SNAPSHOT_LATENCY = "    clat (usec): min=14, max=5356, avg=90.12, stdev=173.02"
SNAPSHOT_PROCESSOR = "  cpu          : usr=3.45%, sys=38.10%, ctx=9469, majf=0, minf=9"
SNAPSHOT_DEPTHS = "  IO depths    : 1=0.1%, 2=0.1%, 4=99.9%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%"


def make_snapshot(*, version: str = "fio-2.1.4", changes: tuple[str, str] = ("", "")) -> str:
    text = make_old_text(
        SNAPSHOT,
        SNAPSHOT_LATENCY,
        SNAPSHOT_PROCESSOR,
        SNAPSHOT_DEPTHS,
        issued="total=r=27040/w=0/d=0, short=r=0/w=0/d=0",
        version=version,
        header=OLD_HEADER.replace("randrw", "read"),
    )
    return text.replace(*changes) if changes[0] else text


def test_snapshot_of_2_1_4_alone_has_its_run_time_in_us() -> None:
    direction = read_direction(make_snapshot())

    assert (direction.runtime_s, direction.io_bytes) == (0.875555, 108160 * 1024)
    assert direction.iops == pytest.approx(27040 / 0.875555)
    assert direction.bandwidth_bytes_per_s == pytest.approx(108160 * 1024 / 0.875555)
    assert list_codes(make_snapshot()) == ["runtime-in-us"]


@pytest.mark.parametrize(
    ("version", "changes"),
    [
        ("fio-2.1.14", ("", "")),
        # The printed rate fits the depth: it may be correct.
        ("fio-2.1.4", ("avg=90.12", "avg=90120.12")),
        # In a job that sleeps, each I/O takes as little CPU time as in others.
        ("fio-2.1.4", ("usr=3.45%, sys=38.10%", "usr=0.01%, sys=0.04%")),
    ],
)
def test_run_time_of_a_long_run_of_an_old_version_is_not_converted(
    version: str, changes: tuple[str, str]
) -> None:
    direction = read_direction(make_snapshot(version=version, changes=changes))

    assert (direction.runtime_s, direction.iops) == (875.555, pytest.approx(30.88, abs=0.01))


@pytest.mark.parametrize(
    ("goal", "target"),
    [
        ("target=0.00ns, window=0.00ns, percentile=100.00%, depth=4", None),
        ("target=500.00us, window=2.50s, percentile=99.90%, depth=4", ("500us", "2500000us", "99.9")),
        ("target=2.01ms, window=1000.00us, percentile=100.00%, depth=4", ("2010us", "1000us", "100")),
    ],
)
def test_latency_target_of_3_42_has_units(goal: str, target: tuple[str, str, str] | None) -> None:
    job = read_job(make_text(SUMMARY, f"     latency   : {goal}", version="fio-3.42"))

    names = ("latency_target", "latency_window", "latency_percentile")
    assert job.iodepth == 4
    assert tuple(job.options.get(name) for name in names) == (target or (None, None, None))
