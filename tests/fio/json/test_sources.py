"""Each value has a source, and each missing one a reason."""

import json
from typing import Any

import pytest

from benchapp.fio import read_output
from benchapp.fio.report import Direction
from tests.fio.outputs import (
    find_direction,
    make_content,
    make_direction,
    make_job,
    make_latency,
    make_output,
    read_bytes,
    read_single,
)


def read_direction(**changes: Any) -> Direction:
    output = make_output(make_job(read=make_direction(**changes)))
    return find_direction(read_output(output).documents[0], "read")


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        (
            "generated/07_json.out",
            {
                "io_bytes": "io_bytes",
                "total_ios": "total_ios",
                "iops": "iops",
                "bandwidth_bytes_per_s": "bw_bytes",
                "runtime_s": "runtime in ms ÷ 1000",
                "submission": "slat_ns",
                "completion": "clat_ns",
                "total": "lat_ns",
                "percentiles": "percentile of clat_ns",
                "bandwidth_samples": "bw_min, bw_max, bw_mean, bw_dev in KiB/s × 1024",
                "iops_samples": "iops_min, iops_max, iops_mean, iops_stddev",
                "short_ios": "short_ios",
                "dropped_ios": "drop_ios",
            },
        ),
        (
            "versions/fio-2.2.10/json.json",
            {
                "io_bytes": "io_bytes in KiB × 1024",
                "total_ios": "total_ios",
                "iops": "iops",
                "bandwidth_bytes_per_s": "io_bytes × 1000 ÷ runtime in ms",
                "runtime_s": "runtime in ms ÷ 1000",
                "submission": "slat in µs × 1000",
                "completion": "clat in µs × 1000",
                "total": "lat in µs × 1000",
                "percentiles": "percentile of clat in µs × 1000",
                "short_ios": "short_ios",
                "dropped_ios": "drop_ios",
            },
        ),
    ],
)
def test_sources_of_one_entry_name_key_and_conversion(name: str, sources: dict[str, str]) -> None:
    assert find_direction(read_single(name), "read").sources == sources


def test_bandwidth_is_bw_if_there_is_no_other_source() -> None:
    content = make_content(make_job(read={"bw": 200, "iops": 50, "total_ios": 100}))

    direction = find_direction(read_output(json.dumps(content).encode()).documents[0], "read")

    assert direction.bandwidth_bytes_per_s == 204800
    assert direction.sources["bandwidth_bytes_per_s"] == "bw in KiB/s × 1024"


def test_sources_of_clones_name_how_many_were_merged() -> None:
    sources = find_direction(read_single("generated/11_numjobs4_json.out"), "write").sources

    assert sources["iops"] == "sum of 4 jobs"
    assert sources["runtime_s"] == "longest of 4 jobs"
    assert sources["completion"] == "mean weighted by samples of 4 jobs"
    assert "percentiles" not in sources


def test_percentiles_of_clones_with_histograms_have_a_source() -> None:
    bins = make_direction(clat_ns=make_latency(percentile={"50.000000": 48}, bins={"48": 100}))
    clone = make_job(read=bins, **{"job options": {"rw": "read", "numjobs": "2"}})

    direction = find_direction(read_output(make_output(clone, clone)).documents[0], "read")

    assert direction.sources["percentiles"] == "merged bins of 2 jobs"


def test_percentiles_under_the_wrong_key_have_a_source() -> None:
    job = make_job(**{"job options": {"rw": "read", "lat_percentiles": "1"}})

    (document,) = read_output(make_output(job, **{"fio version": "fio-3.12"})).documents

    assert find_direction(document, "read").sources["percentiles"] == (
        "percentile of clat_ns, where this version prints those of lat_ns"
    )


def test_equal_sources_are_shared_between_directions() -> None:
    first, second = (read_single("generated/07_json.out") for _ in range(2))

    assert find_direction(first, "read").sources is find_direction(second, "read").sources


@pytest.mark.parametrize(
    ("changes", "name", "reason"),
    [
        ({"io_bytes": -1}, "io_bytes", "out-of-range"),
        ({"total_ios": 2**64}, "total_ios", "out-of-range"),
        ({"iops": float("nan")}, "iops", "not-a-number"),
        ({"runtime": float("inf")}, "runtime_s", "not-a-number"),
        ({"iops": "many"}, "iops", "not-reported"),
        ({"iops_mean": float("nan")}, "iops_samples", "not-a-number"),
    ],
)
def test_invalid_value_is_dropped_alone(changes: dict[str, Any], name: str, reason: str) -> None:
    direction = read_direction(**changes)

    assert direction.missing[name] == reason
    assert direction.completion.mean_ns == 50.0
    assert direction.completion.percentiles == ((50.0, 48), (99.0, 88))


def test_invalid_percentile_is_skipped() -> None:
    percentile = {"50.000000": 48, "nan": 1, "101.0": 2, "99.000000": -88, "90.000000": 70}

    direction = read_direction(clat_ns=make_latency(percentile=percentile))

    assert direction.completion.percentiles == ((50.0, 48), (90.0, 70))


def test_percentiles_in_any_order_ascend_and_padding_is_dropped() -> None:
    direction = read_direction(clat_ns=make_latency(percentile={"99.00": 88, "0.00": 0, "5.00": 20}))

    assert direction.completion.percentiles == ((5.0, 20), (99.0, 88))


@pytest.mark.parametrize("bins", [{"48": -1}, {"48": 1.5}, {"x": 1}, {"48": 2**63}, {}, []])
def test_histogram_with_invalid_counts_is_none(bins: Any) -> None:
    assert read_direction(clat_ns=make_latency(bins=bins)).completion.bins is None


def test_histogram_in_any_order_ascends_and_empty_bins_are_dropped() -> None:
    bins = read_direction(clat_ns=make_latency(bins={"90": 1, "10": 98, "20": 0, "48": 1})).completion.bins

    assert list(bins.items()) == [(10, 98), (48, 1), (90, 1)]


@pytest.mark.parametrize(
    "name",
    [
        "generated/07_json.out",
        "generated/83_multi_job_jsonplus.out",
        "versions/fio-2.21/json.json",
        "versions/fio-3.1/json.json",
        "versions/fio-3.39/json_group2.json",
    ],
)
def test_tolerant_decoder_gives_the_same_as_the_strict_one(name: str) -> None:
    """Every level gets an invalid value at an unused key, so that each is read key by key."""
    content = json.loads(read_bytes(name))
    content["timestamp_ms"] = content["disk_util"] = None
    strict = read_output(json.dumps(content).encode())
    for job in content["jobs"]:
        job["job_start"] = -1
        for direction in ("read", "write", "trim"):
            job[direction]["io_kbytes"] = -1
            for latency in [part for key, part in job[direction].items() if key.startswith("clat")]:
                latency.setdefault("percentile", {})["-1"] = 0

    tolerant = read_output(json.dumps(content).encode())

    assert [document.groups for document in tolerant.documents] == [
        document.groups for document in strict.documents
    ]
