"""Options in any notation give the same workload; different work gives different ones."""

import dataclasses
from typing import Any

import pytest

from benchapp.fio.report import Direction, Group
from benchapp.fio.workload import WorkloadSpec, parse_duration_s, parse_size, read_workload
from tests.fio.outputs import read_single


def make_group(options: dict[str, str] | None = None, **changes: Any) -> Group:
    values: dict[str, Any] = {
        "name": "job",
        "groupid": 0,
        "hostname": None,
        "numjobs": 1,
        "error": 0,
        "options": {"rw": "read"} if options is None else options,
        "directions": (),
        "jobs": (0,),
    }
    return Group(**(values | changes))


def read(**options: str) -> WorkloadSpec:
    return read_workload(make_group({"name": "job", **options}))


def make_direction(name: str = "read", **changes: Any) -> Direction:
    values = {"io_bytes": 409600, "total_ios": 100, "iops": 50.0, "bandwidth_bytes_per_s": 204800.0}
    return Direction(name, **(values | {"runtime_s": 2.0} | changes))


def test_workload_of_a_real_job() -> None:
    group = read_single("generated/80_multi_job_json.out").groups[2]

    assert read_workload(group) == WorkloadSpec(
        rw="randrw",
        block_size_bytes=None,
        block_size_text="4096-16384",
        iodepth=2,
        numjobs=1,
        file_size_bytes=8388608,
        file_size_text="",
        is_direct=True,
        engine="libaio",
        read_share_percent=60,
        runtime_s=1.0,
        is_time_based=True,
        extra={},
    )


def test_defaults_are_those_of_fio() -> None:
    assert read() == WorkloadSpec(
        rw="read",
        block_size_bytes=4096,
        block_size_text="",
        iodepth=1,
        numjobs=1,
        file_size_bytes=None,
        file_size_text="",
        is_direct=False,
        engine="psync",
        read_share_percent=100,
        runtime_s=None,
        is_time_based=False,
        extra={},
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"bs": "4k"}, {"bs": "4096"}),
        ({"bs": "4k"}, {}),
        ({"bs": "4KiB", "kb_base": "1000"}, {"bs": "4k"}),
        ({"iodepth": "08"}, {"iodepth": "8"}),
        ({"size": "1g"}, {"size": "1024m"}),
        ({"filesize": "1g"}, {"size": "1g"}),
        ({"runtime": "60s"}, {"runtime": "1m"}),
        ({"timeout": "60"}, {"runtime": "60"}),
        ({"direct": ""}, {"direct": "1"}),
        ({"buffered": "0"}, {"direct": "1"}),
        ({"direct": "0"}, {}),
        ({"readwrite": "randread"}, {"rw": "randread"}),
        ({"rw": "readwrite"}, {"rw": "rw"}),
        ({"rw": "randrw", "rwmixwrite": "30"}, {"rw": "randrw", "rwmixread": "70"}),
        ({"rw": "randrw"}, {"rw": "randrw", "rwmixread": "50"}),
        ({"rw": "write", "bs": "4k,8k"}, {"rw": "write", "bs": "8k"}),
        ({"rw": "read", "bs": ",8k"}, {"rw": "read"}),
        ({"rw": "trim", "bs": "4k,8k"}, {"rw": "trim", "bs": "8k"}),
        ({"rw": "trim", "bs": "4k,8k,"}, {"rw": "trim", "bs": "4k"}),
        ({"rw": "randrw", "bs": "8k,8192"}, {"rw": "randrw", "bs": "8k"}),
        ({"bsrange": "4k:16k"}, {"bsrange": "4096-16384"}),
        ({"bsrange": "4k-4k"}, {"bs": "4k"}),
        ({"bssplit": "4k/60:64k/40"}, {"bssplit": "4096/60:65536/40"}),
        ({"bssplit": "4k/100,64k/100"}, {"bssplit": "4k/100"}),
        ({"sync": "none"}, {}),
        ({"sync": "1"}, {"sync": "sync"}),
        ({"norandommap": ""}, {"norandommap": "1"}),
        ({"randrepeat": "1"}, {}),
        ({"rate": "10m"}, {"rate": "10485760"}),
        ({"thinktime": "1ms"}, {"thinktime": "1000"}),
        ({"ramp_time": "60"}, {"ramp_time": "1m"}),
        ({"io_limit": "1g"}, {"io_size": "1024m"}),
        ({"read_iolog": "/a"}, {"read_iolog": "/b"}),
        ({"filename": "/dev/a", "name": "a", "group_reporting": "1", "write_bw_log": "x"}, {}),
        ({"log_avg_msec": "500", "percentile_list": "50:99", "http_s3_key": "secret"}, {}),
    ],
)
def test_options_in_another_notation_are_the_same_workload(
    one: dict[str, str], other: dict[str, str]
) -> None:
    assert read(**one) == read(**other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"bs": "4k"}, {"bs": "4KiB"}),
        ({"rw": "read"}, {"rw": "randread"}),
        ({"rw": "randrw:8"}, {"rw": "randrw"}),
        ({"rw": "randrw", "bs": "4k,8k"}, {"rw": "randrw", "bs": "8k,4k"}),
        ({"size": "100%"}, {"size": "50%"}),
        ({"size": "1g", "filesize": "1m"}, {"size": "1g"}),
        ({"fsync": "1"}, {}),
        ({"fdatasync": "1"}, {"fsync": "1"}),
        ({"randrepeat": "0"}, {}),
        ({"random_distribution": "zipf:1.2"}, {}),
        ({"dedupe_percentage": "50"}, {}),
        ({"iodepth_batch": "8"}, {}),
        ({"write_hint": "short"}, {}),
        ({"read_iolog": "/a"}, {}),
        ({"an_option_of_fio_4": "1"}, {}),
        ({"iodepth": "(2*8)"}, {}),
        ({"runtime": "(60)"}, {}),
    ],
)
def test_other_work_is_another_workload(one: dict[str, str], other: dict[str, str]) -> None:
    assert read(**one) != read(**other)


@pytest.mark.parametrize(
    ("rw", "share"),
    [("randread", 100), ("randwrite", 0), ("trim", 0), ("randtrimwrite", 0), ("rw", 50), ("randrw", 50)],
)
def test_read_share_follows_from_rw(rw: str, share: int) -> None:
    assert read(rw=rw).read_share_percent == share


def test_impossible_read_share_is_none() -> None:
    assert read(rw="rw", rwmixread="250").read_share_percent is None


def test_size_in_per_cent_is_kept_as_text() -> None:
    spec = read(size="100%")

    assert (spec.file_size_bytes, spec.file_size_text) == (None, "100%")


def test_further_options_are_canonical_and_in_order() -> None:
    spec = read(rw="write", zero_buffers="", fsync="01", bs="4k", rate="1m,2m", name="x")

    assert list(spec.extra.items()) == [("fsync", "1"), ("rate", "1048576,2097152"), ("zero_buffers", "1")]


def test_effective_depth_replaces_an_option_that_is_not_listed() -> None:
    assert read_workload(make_group({"rw": "read"}, iodepth=32)).iodepth == 32
    assert read_workload(make_group({"rw": "read", "iodepth": "4"}, iodepth=32)).iodepth == 4


@pytest.mark.parametrize(("runtime_s", "is_time_based"), [(60.001, True), (59.9, True), (12.0, False)])
def test_run_as_long_as_its_runtime_is_time_based(runtime_s: float, is_time_based: bool) -> None:
    group = make_group({"rw": "read", "runtime": "60"}, directions=(make_direction(runtime_s=runtime_s),))

    assert read_workload(group).is_time_based is is_time_based


def test_same_options_with_another_result_depth_or_name_are_another_workload() -> None:
    options = {"rw": "read", "runtime": "60"}
    cut, ended = (make_group(options, directions=(make_direction(runtime_s=each),)) for each in (60.0, 12.0))
    listed = {"rw": "read", "verify_pattern": "x" * 5000}

    assert [read_workload(group).is_time_based for group in (cut, ended, cut)] == [True, False, True]
    assert [read_workload(make_group(options, numjobs=number)).numjobs for number in (1, 2)] == [1, 2]
    assert [
        read_workload(make_group(options, name=name, has_all_options=False)).extra["job"] for name in "ab"
    ] == ["a", "b"]
    assert read_workload(make_group(listed)) == read_workload(make_group(listed))


def test_job_without_options_is_identified_by_its_name_and_io() -> None:
    spec = read_workload(read_single("versions/fio-2.2.10/json.json").groups[0])

    assert (spec.rw, spec.block_size_bytes, spec.iodepth, spec.engine) == ("unknown-rw", 4096, 4, "")
    assert (spec.read_share_percent, spec.extra) == (None, {"options": "not-reported", "job": "mix"})
    assert spec.is_direct is None


def test_options_that_a_header_does_not_print_are_unknown() -> None:
    group = make_group({"rw": "randrw", "bs": "4096", "iodepth": "4"}, has_all_options=False)

    spec = read_workload(group)

    assert (spec.rw, spec.block_size_bytes, spec.iodepth) == ("randrw", 4096, 4)
    assert (spec.is_direct, spec.read_share_percent) == (None, None)
    assert spec.extra == {"options": "not-reported", "job": group.name}


def test_job_without_options_and_io_has_no_rw() -> None:
    spec = read_workload(make_group({}))

    assert (spec.rw, spec.block_size_bytes, spec.read_share_percent) == ("", None, None)


def test_texts_longer_than_their_columns_remain_distinct() -> None:
    long = ":".join(f"{size}k/1" for size in range(1, 100))

    one, other = read(bssplit=long), read(bssplit=long + ":1m/1")

    assert len(one.block_size_text) == len(other.block_size_text) == 200
    assert one != other
    assert len(read(rw="x" * 100).rw) == 20
    assert len(read(ioengine="external:" + "x" * 100).engine) == 50


def test_numbers_fit_their_columns() -> None:
    spec = read_workload(make_group({"rw": "read", "iodepth": "999999999999"}))

    assert spec.iodepth == 2**31 - 1


def test_spec_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        read().rw = "write"


@pytest.mark.parametrize(
    ("text", "in_1024", "in_1000"),
    [
        ("4096", 4096, 4096),
        ("4096b", 4096, 4096),
        ("4k", 4096, 4000),
        ("4K", 4096, 4000),
        ("4KB", 4096, 4000),
        ("4Ki", 4096, 4000),
        # Reversed on purpose: fio 3.33 was seen to do 4000-byte I/Os.
        ("4KiB", 4000, 4096),
        ("1m", 1048576, 1000000),
        ("1MiB", 1000000, 1048576),
        ("2g", 2147483648, 2000000000),
        ("1t", 1099511627776, 10**12),
        ("1p", 1125899906842624, 10**15),
        (" 8k ", 8192, 8000),
        ("008k", 8192, 8000),
        ("0x1000", 4096, 4096),
        ("0", 0, 0),
    ],
)
def test_size_in_either_base(text: str, in_1024: int, in_1000: int) -> None:
    assert parse_size(text) == in_1024
    assert parse_size(text, kb_base=1000) == in_1000


@pytest.mark.parametrize(
    "text", ["", "100%", "1.5m", "(2*4k)", "8*$mb_memory", "4x", "k", "-4k", "4k-8k", "25z", "9999999p", "٤k"]
)
def test_invalid_size_is_none(text: str) -> None:
    assert parse_size(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60", 60.0),
        ("60s", 60.0),
        ("1m", 60.0),
        ("2h", 7200.0),
        ("1D", 86400.0),
        ("500ms", 0.5),
        ("5msec", 0.005),
        ("10us", 0.00001),
        ("0", 0.0),
        ("", None),
        ("1.5", None),
        ("1h30m", None),
        ("(60)", None),
    ],
)
def test_duration_in_seconds(text: str, seconds: float | None) -> None:
    found = parse_duration_s(text)

    assert found == (None if seconds is None else pytest.approx(seconds))


def test_bare_number_has_the_unit_of_its_option() -> None:
    assert parse_duration_s("500", unit="us") == pytest.approx(0.0005)
