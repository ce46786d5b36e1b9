"""fio's logs over time: units, columns, and what is refused."""

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.fio.logs import Log, UnreadableLog, read_log, read_log_name, split_log_name
from benchapp.fio.numbers import Version
from tests.fio.outputs import read_bytes

FIO_2: Version = (2, 16, 0)
FIO_3: Version = (3, 33, 0)
NONE: Version = (0, 0, 0)
NAMES = json.loads((Path(__file__).parents[1] / "data" / "log_names.json").read_text())


def read(text: str, *, name: str = "a_iops.1.log", version: Version = FIO_3) -> Log:
    return read_log(name, text.encode(), version=version)


def read_file(name: str) -> Log:
    return read_log(name, read_bytes(name), version=FIO_3)


def refuse(text: bytes, *, name: str = "a_iops.1.log", version: Version = FIO_3) -> UnreadableLog:
    with pytest.raises(UnreadableLog) as refusal:
        read_log(name, text, version=version)
    return refusal.value


@pytest.mark.parametrize(
    ("name", "kind", "job"),
    [
        ("a_bw.1.log", "bw", 1),
        ("a_bw.log", "bw", None),
        ("folder/my_job_clat.12.log", "clat", 12),
        ("C:\\logs\\a_slat.3.log", "slat", 3),
        ("lat.1.log", "lat", 1),
        ("bw_iops.2.log", "iops", 2),
    ],
)
def test_kind_and_job_are_in_the_name(name: str, kind: str, job: int | None) -> None:
    assert read_log_name(name) == (kind, job)


@pytest.mark.parametrize("case", NAMES, ids=[case["name"] for case in NAMES])
def test_name_is_split_as_the_page_splits_it(case: dict[str, str | int | None]) -> None:
    found = split_log_name(str(case["name"]))

    if case["stem"] is None:
        assert found is None
    else:
        assert found is not None
        assert (found.stem, found.kind, found.job) == (case["stem"], case["kind"], case["job"])


@pytest.mark.parametrize(
    "name", ["a_clat_hist.1.log", "clat_hist.log", "a.log", "a_bw.1.log.fz", "a_bw.csv", ""]
)
def test_other_files_are_refused_by_name(name: str) -> None:
    assert refuse(b"0, 1, 0, 0\n", name=name).code == "log-kind-not-read"


def test_real_windowed_bandwidth_is_in_bytes_per_second() -> None:
    log = read_file("generated/C0_log_bw.1.log")

    assert (log.kind, log.job, log.is_windowed, log.is_cut, log.began_at_ms) == ("bw", 1, True, False, None)
    assert list(log.directions["read"].at_s) == [0.5, 1.003, 1.503, 2.004, 2.504]
    assert list(log.directions["read"].values[:2]) == [49544 * 1024, 51824 * 1024]
    assert list(log.directions["write"].values[:2]) == [49920 * 1024, 51426 * 1024]
    assert set(log.directions["write"].block_bytes) == {0}


def test_real_iops_are_as_printed() -> None:
    log = read_file("generated/C0_log_iops.1.log")

    assert list(log.directions["write"].values[:2]) == [12480, 12856]


def test_real_latencies_of_single_ios_with_offset_and_priority() -> None:
    log = read_file("generated/C1_log_lat.1.log")

    assert (log.is_windowed, {name: len(part.at_s) for name, part in log.directions.items()}) == (
        False,
        {"read": 29, "write": 35},
    )
    assert list(log.directions["read"].values[:3]) == [569815, 95373, 54943]
    assert set(log.directions["read"].block_bytes) == {4096}


def test_log_of_a_phase_that_the_engine_does_not_have_is_empty() -> None:
    log = read_file("generated/C1_log_slat.1.log")

    assert (log.kind, log.directions) == ("slat", {})


def test_latencies_are_microseconds_before_fio_3_and_nanoseconds_since() -> None:
    for version, value in (
        (FIO_2, 300_061_000),
        ((2, 21, 0), 300_061_000),
        ((2, 99, 0), 300_061),
        (FIO_3, 300_061),
    ):
        log = read("1000, 300061, 0, 0\n", name="a_clat.13.log", version=version)
        assert list(log.directions["read"].values) == [value]


def test_latencies_but_not_rates_of_an_unknown_version_are_refused() -> None:
    refusal = refuse(b"1000, 300061, 0, 0\n", name="a_lat.1.log", version=NONE)

    assert refusal.code == "log-unit-unknown"
    assert "the version of fio is not known" in refusal.detail
    assert list(read("1000, 5, 0, 0\n", version=NONE).directions["read"].values) == [5]


@pytest.mark.parametrize(
    "line",
    [
        "500, 7, 2, 4096",
        "500,7,2,4096",
        "500, 7, 2, 4096, 1",
        "500, 7, 2, 4096, 8192, 0",
        "500, 7, 2, 4096, 8192, 0x4001",
        "500, 7, 2, 4096, 8192, 0x0000, 123456789",
        "500, 7, 900, 2, 4096, 8192, 0x0000, 123456789",
    ],
)
def test_every_set_of_columns_is_read(line: str) -> None:
    log = read(f"{line}\r\n{line}\r\n")

    assert list(log.directions) == ["trim"]
    trim = log.directions["trim"]
    assert (list(trim.at_s), list(trim.values), list(trim.block_bytes)) == ([0.5, 0.5], [7, 7], [4096, 4096])


def test_maximum_after_the_mean_is_distinguished_from_the_direction_in_later_lines() -> None:
    log = read("500, 1, 1, 0, 0, 0\n1000, 7, 900, 1, 0, 0\n")

    assert list(log.directions["read"].values) == [1]
    assert (list(log.directions["write"].values), list(log.directions["write"].maximums)) == ([7], [900])


def test_clock_times_count_from_the_first_entry() -> None:
    log = read_file("logs/epoch_iops.1.log")

    assert log.began_at_ms == 1795269296147
    assert list(log.directions["read"].at_s[:3]) == [0.0, 0.1, 0.2]


def test_one_log_for_all_jobs_has_no_job() -> None:
    log = read_file("logs/joint_bw.log")

    assert (log.job, len(log.directions["read"].at_s)) == (None, 16)


def test_truncated_last_line_is_dropped_and_reported() -> None:
    log = read("500, 7, 0, 0\n1000, 8, 0, 0\n1500, 9")

    assert (list(log.directions["read"].values), log.is_cut) == ([7, 8], True)


def test_last_line_with_a_possibly_truncated_block_size_is_dropped() -> None:
    log = read("1, 7, 0, 4096\n2, 8, 0, 40")

    assert (list(log.directions["read"].values), log.is_cut) == ([7], True)


def test_complete_last_line_without_newline_is_kept() -> None:
    log = read("500, 7, 0, 0\n1000, 8, 0, 0")

    assert (list(log.directions["read"].values), log.is_cut) == ([7, 8], False)


@pytest.mark.parametrize(
    "line",
    [
        b"fio: error",
        b"5, 6",
        b"1, 2, 3, 0",
        b"-1, 2, 0, 0",
        b"1, 2, 0, 0, 0",
        b"1, nan, 0, 0",
        b"\x00\xff",
        b"1," * 900,
    ],
)
def test_invalid_line_is_refused_with_its_number(line: bytes) -> None:
    refusal = refuse(b"1, 2, 0, 0\n\n" + line + b"\n4, 2, 0, 0\n")

    assert refusal.code == "unreadable-log"
    assert refusal.detail.startswith("line 3 ")


@given(
    st.lists(
        st.sampled_from([b"1", b", ", b"0", b"\n", b"4096", b"0x1f", b"-", b"9" * 19, b"x", b"\r"]),
        max_size=60,
    )
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_arbitrary_text_is_a_log_or_refused(parts: list[bytes]) -> None:
    try:
        log = read_log("a_lat.1.log", b"".join(parts), version=FIO_3)
    except UnreadableLog as refusal:
        assert refusal.code == "unreadable-log"
    else:
        assert all(
            len(part.at_s) == len(part.values) == len(part.block_bytes) for part in log.directions.values()
        )


@pytest.mark.parametrize(
    "line",
    [
        "{}, {}, {}, 0",
        "{}, {}, {}, 4096, 8192, 0x4001",
        "{}, {}, 900, {}, 4096, 8192, 0x0000, 18446744073709551615",
    ],
)
def test_fast_path_gives_the_same_values_as_reading_field_by_field(line: str) -> None:
    text = "".join(line.format(number // 3, 7 * number, number % 2) + "\n" for number in range(9_000))

    at_once = read(text, name="a_lat.1.log", version=FIO_2)
    one_by_one = read(text.replace(", ", ",\t"), name="a_lat.1.log", version=FIO_2)

    assert at_once == one_by_one
    assert len(at_once.directions["write"].values) == 4_500
    assert list(at_once.directions["read"].values[:3]) == [0, 14_000, 28_000]


def test_late_invalid_line_is_named() -> None:
    lines = [f"{number}, 7, 0, 0" for number in range(20_000)]
    lines[15_000] = "1, 2, 0"

    refusal = refuse("\n".join(lines).encode())

    assert refusal.detail.startswith("line 15001 ") and refusal.detail.endswith(": 1, 2, 0")


def test_memory_is_limited_by_the_length_of_the_text() -> None:
    text = b"".join(b"%d, 4000, 0, 4096, 0\n" % number for number in range(100_000))

    tracemalloc.start()
    log = read_log("a_bw.1.log", text, version=FIO_3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(log.directions["read"].at_s) == 100_000
    assert peak < 3 * len(text)
