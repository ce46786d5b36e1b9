"""Clones become groups; values that cannot be calculated exactly are withheld."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from benchapp.fio import read_output
from benchapp.fio.merging.directions import CLONES, merge_directions
from benchapp.fio.report import Document, Report
from tests.fio.outputs import (
    find_direction,
    make_content,
    make_direction,
    make_job,
    make_latency,
    make_output,
    read_fixture,
    read_single,
)


def list_groups(document: Document) -> list[tuple[Any, ...]]:
    return [(group.name, group.hostname, group.numjobs, group.jobs) for group in document.groups]


def make_clone(**changes: Any) -> dict[str, Any]:
    return make_job(**{"job options": {"rw": "read", "numjobs": "2"}, **changes})


def with_bins(bins: dict[str, int], **changes: Any) -> dict[str, Any]:
    percentile = {"50.000000": 1, "99.000000": 1}
    latency = make_latency(N=sum(bins.values()), percentile=percentile, bins=bins, **changes)
    return make_direction(clat_ns=latency)


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("generated/11_numjobs4_json.out", [("rw", None, 4, (0, 1, 2, 3))]),
        ("generated/12_numjobs4_group_json.out", [("rw", None, 4, (0,))]),
        # The bare flag group_reporting is not listed before 3.39.
        ("generated/13_numjobs4_group_flag_json.out", [("rw", None, 4, (0,))]),
        ("versions/fio-2.16/json_group2.json", [("mix", None, 2, (0,))]),
        ("versions/fio-3.39/json_group2.json", [("mix", None, 2, (0,))]),
        (
            "generated/80_multi_job_json.out",
            [("seqread", None, 1, (0,)), ("randwrite", None, 2, (1,)), ("randrw", None, 1, (2,))],
        ),
        # "All clients" (2 and 4) is in no group.
        ("generated/60_client_json.out", [("csjob", "127.0.0.1", 2, (0, 1))]),
        # Two servers of one host.
        (
            "generated/62_client_two_json.out",
            [("csjob", "127.0.0.1:8766", 2, (0, 1)), ("csjob", "127.0.0.1", 2, (2, 3))],
        ),
        # Terse and text do not name their ports.
        ("generated/63_client_two_normal.out", [("csjob", "vm", 2, (0, 1)), ("csjob", "vm", 2, (2, 3))]),
        # The earlier entries are snapshots, within one report.
        ("generated/67_client_status_interval.out", [("csjob", "127.0.0.1", 2, (5, 6))]),
        # Two jobs that group_reporting summed, and one: these versions print no options.
        ("versions/fio-2.0.10/json_group2.json", [("mix", None, None, (0,))]),
        ("versions/fio-2.1.14/json_client.json", [("cs", "127.0.0.1:8901", None, (0,))]),
        ("versions/fio-3.39/json_client.json", [("cs", "127.0.0.1:8901", 1, (0,))]),
    ],
)
def test_clones_that_ran_together_are_one_group(name: str, groups: list[tuple[Any, ...]]) -> None:
    assert list_groups(read_single(name)) == groups


def test_totals_of_four_clones_are_added_up() -> None:
    write = find_direction(read_single("generated/11_numjobs4_json.out"), "write")

    assert (write.io_bytes, write.total_ios, write.runtime_s) == (177209344, 43264, 2.003)
    assert write.iops == pytest.approx(21610.408974, rel=1e-12)
    assert write.bandwidth_bytes_per_s == 88516233
    assert (write.completion.minimum_ns, write.completion.maximum_ns) == (591, 12990557)
    assert write.completion.count == 43264


def test_percentiles_of_clones_without_histograms_are_withheld() -> None:
    write = find_direction(read_single("generated/11_numjobs4_json.out"), "write")

    assert write.completion.percentiles == ()
    assert write.missing == {
        "bandwidth_samples": "clones",
        "iops_samples": "clones",
        "percentiles": "clones-without-bins",
    }


def test_percentiles_that_fio_calculated_for_a_group_are_kept() -> None:
    write = find_direction(read_single("generated/12_numjobs4_group_json.out"), "write")

    assert len(write.completion.percentiles) == 17
    assert write.missing == {}


@pytest.mark.parametrize("kind", ["submission", "completion", "total"])
@pytest.mark.parametrize("name", ["read", "write"])
def test_merging_agrees_with_all_clients_of_fio(name: str, kind: str) -> None:
    jobs = read_single("generated/62_client_two_json.out").jobs
    merged = merge_directions([job.directions for job in jobs if not job.is_aggregate], CLONES)

    ours = next(direction for direction in merged if direction.name == name)
    (of_fio,) = [d for job in jobs if job.is_aggregate for d in job.directions if d.name == name]

    assert (ours.io_bytes, ours.total_ios) == (of_fio.io_bytes, of_fio.total_ios)
    assert ours.iops == pytest.approx(of_fio.iops, rel=1e-9)
    mine, theirs = getattr(ours, kind), getattr(of_fio, kind)
    assert (mine.minimum_ns, mine.maximum_ns, mine.count) == (
        theirs.minimum_ns,
        theirs.maximum_ns,
        theirs.count,
    )
    assert mine.mean_ns == pytest.approx(theirs.mean_ns, rel=1e-9)
    assert mine.stddev_ns == pytest.approx(theirs.stddev_ns, rel=1e-6)


def test_percentiles_of_clones_come_from_merged_histograms() -> None:
    """One slow clone in two: the mean of the p99s would be 5050, the truth is 10000."""
    fast, slow = with_bins({"100": 100}, max=100), with_bins({"10000": 100}, max=10000)

    document = read_output(make_output(make_clone(read=fast), make_clone(read=slow))).documents[0]

    read = find_direction(document, "read")
    assert document.format == "json+"
    assert read.completion.percentiles == ((50.0, 100), (99.0, 10000))
    assert read.completion.bins == {100: 100, 10000: 100}
    assert "percentiles" not in read.missing


def test_percentiles_of_a_group_are_withheld_if_one_clone_has_no_histogram() -> None:
    jobs = make_clone(read=with_bins({"100": 100})), make_clone()

    read = find_direction(read_output(make_output(*jobs)).documents[0], "read")

    assert (read.completion.percentiles, read.completion.bins) == ((), None)
    assert read.missing["percentiles"] == "clones-without-bins"


def test_mean_is_weighted_by_samples_and_deviation_pooled() -> None:
    """2 samples of 10 ± 0 and 2 of 20 ± 0: mean 15, squares 100, over n - 1."""
    first = make_direction(clat_ns=make_latency(N=2, mean=10.0, stddev=0.0, min=10, max=10))
    other = make_direction(clat_ns=make_latency(N=2, mean=20.0, stddev=0.0, min=20, max=20))

    document = read_output(make_output(make_clone(read=first), make_clone(read=other))).documents[0]

    completion = find_direction(document, "read").completion
    assert (completion.mean_ns, completion.minimum_ns, completion.maximum_ns) == (15.0, 10, 20)
    assert completion.stddev_ns == pytest.approx((100 / 3) ** 0.5)


def test_clone_that_measured_no_latency_withholds_that_of_the_group() -> None:
    unmeasured = {key: make_latency(N=0) for key in ("slat_ns", "clat_ns", "lat_ns")}

    document = read_output(
        make_output(make_clone(), make_clone(read=make_direction(**unmeasured)))
    ).documents[0]

    read = find_direction(document, "read")
    assert (read.completion, read.missing["latency"]) == (None, "clones-disagree")
    assert read.total_ios == 200


def test_clone_without_io_adds_nothing() -> None:
    idle = make_direction(io_bytes=0, total_ios=0, runtime=0, iops=0.0)

    read = find_direction(read_output(make_output(make_clone(), make_clone(read=idle))).documents[0], "read")

    assert (read.total_ios, read.iops) == (100, 50.0)


@pytest.mark.parametrize(
    ("other", "count"),
    [
        ({}, 1),
        ({"groupid": 1}, 2),
        ({"jobname": "other"}, 2),
        ({"job options": {"rw": "read", "numjobs": "2", "bs": "8k"}}, 2),
    ],
)
def test_only_same_group_name_and_options_are_clones(other: dict[str, Any], count: int) -> None:
    assert len(read_output(make_output(make_clone(), make_clone(**other))).documents[0].groups) == count


def test_equal_jobs_without_numjobs_are_counted_as_printed() -> None:
    document = read_output(make_output(make_job(), make_job())).documents[0]

    assert list_groups(document) == [("job", None, 2, (0, 1))]


def test_error_of_any_clone_is_the_error_of_the_group() -> None:
    document = read_output(make_output(make_clone(), make_clone(error=28))).documents[0]

    assert document.groups[0].error == 28


def read_cut(*jobs: dict[str, Any]) -> Report:
    text = json.dumps(make_content(*jobs, make_job("victim")), indent=2)
    return read_output(text[: text.index('"victim"')].encode())


def test_group_with_half_of_its_clones_has_no_values() -> None:
    report = read_cut(make_clone())

    (group,) = report.documents[0].groups
    assert (group.numjobs, group.directions[0].iops) == (2, None)
    assert group.directions[0].missing["iops"] == "clones-missing"
    assert [note.code for note in report.warnings] == ["truncated-report", "clones-missing"]


def read_cut_old(*jobs: dict[str, Any], version: str = "fio-3.1") -> Report:
    content = make_content(*jobs, make_job("victim"), **{"fio version": version})
    text = json.dumps(content, indent=2)
    return read_output(text[: text.index('"victim"')].encode())


@pytest.mark.parametrize(("version", "iops"), [("fio-3.1", None), ("fio-2.1.14", None), ("fio-3.33", 100.0)])
def test_last_group_of_a_truncated_report_has_no_values_if_numjobs_is_not_listed(
    version: str, iops: float | None
) -> None:
    report = read_cut_old(make_job("whole"), make_job(), make_job(), version=version)

    whole, last = report.documents[0].groups
    assert (whole.directions[0].iops, last.directions[0].iops) == (50.0, iops)
    assert ("clones-missing" in [note.code for note in report.warnings]) == (iops is None)


@pytest.mark.parametrize("options", [{"numjobs": "1"}, {"group_reporting": "1"}])
def test_last_group_of_a_truncated_report_has_values_if_its_options_list_numjobs(
    options: dict[str, str],
) -> None:
    report = read_cut_old(make_job(**{"job options": {"rw": "read", **options}}))

    assert report.documents[0].groups[0].directions[0].iops == 50.0


@pytest.mark.parametrize(
    ("changes", "version", "numjobs"),
    [
        ({}, "fio-3.33", 1),
        ({"job_runtime": 4000}, "fio-3.33", None),
        # numjobs of the global section is not listed before 3.4.
        ({}, "fio-3.1", None),
        ({}, "fio-2.3", None),
        ({}, "", None),
        ({"job options": {"rw": "read", "numjobs": "1"}}, "fio-3.1", 1),
        ({"job options": {"rw": "read", "numjobs": "3"}}, "fio-3.1", 3),
        ({"job options": {"rw": "read", "numjobs": "$jobs"}}, "fio-3.33", None),
        ({"job options": None}, "fio-3.33", None),
        ({"job options": {}}, "fio-3.33", 1),
    ],
)
def test_number_of_jobs_is_unknown_where_an_entry_may_hide_some(
    changes: dict[str, Any], version: str, numjobs: int | None
) -> None:
    (document,) = read_output(make_output(make_job(**changes), **{"fio version": version})).documents

    assert (document.groups[0].numjobs, document.jobs[0].may_hide_jobs) == (numjobs, numjobs is None)


ONE = "--name=a"
THREE = "--numjobs=3 --name=a"
SUMMED = "--group_reporting --numjobs=3 --name=a"
MERGED = "--group_reporting --name=a --name=b"


@pytest.mark.parametrize(
    ("options", "output_format", "numjobs"),
    [
        (ONE, "json", 1),
        (ONE, "normal", 1),
        (ONE, "terse", None),
        (THREE, "json", 3),
        (THREE, "normal", 3),
        (THREE, "terse", 3),
        (SUMMED, "json", 3),
        (SUMMED, "normal", 3),
        (SUMMED, "terse", None),
        # Two jobs of one each.
        (MERGED, "json", None),
        (MERGED, "normal", None),
        (MERGED, "terse", None),
    ],
)
def test_number_of_jobs_of_fio_is_known_or_unknown(
    options: str, output_format: str, numjobs: int | None
) -> None:
    fio = shutil.which("fio")
    if fio is None:
        pytest.skip("fio is not installed")
    shared = "--ioengine=null --size=1g --bs=4k --rw=randread --rate_iops=200 --time_based --runtime=500ms"
    command = [fio, f"--output-format={output_format}", *shared.split(), *options.split()]
    output = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout

    (group,) = read_output(output).documents[0].groups

    assert group.numjobs == numjobs


def test_clones_listed_separately_hide_no_jobs() -> None:
    (document,) = read_output(make_output(make_job(), make_job(), **{"fio version": "fio-3.1"})).documents

    assert [job.may_hide_jobs for job in document.jobs] == [False, False]


def test_complete_group_in_a_truncated_report_keeps_its_values() -> None:
    grouped = make_clone(**{"job options": {"rw": "read", "numjobs": "2", "group_reporting": "1"}})

    assert read_cut(make_clone(), make_clone()).documents[0].groups[0].directions[0].iops == 100.0
    assert read_cut(grouped).documents[0].groups[0].directions[0].iops == 50.0


def test_sum_of_2_63_or_more_is_missing() -> None:
    huge = make_direction(io_bytes=2**62)

    read = find_direction(
        read_output(make_output(make_clone(read=huge), make_clone(read=huge))).documents[0], "read"
    )

    assert (read.io_bytes, read.missing["io_bytes"]) == (None, "out-of-range")


def test_client_entries_without_options_get_those_of_the_same_job_name() -> None:
    def make_entry(hostname: str, **changes: Any) -> dict[str, Any]:
        return make_job(hostname=hostname, port=8765, **changes)

    aggregate = make_job("All clients", hostname="b", port=8765, **{"job options": {}})
    content = make_content() | {
        "client_stats": [make_entry("a"), make_entry("b", **{"job options": {}}), aggregate]
    }
    del content["jobs"]

    report = read_output(json.dumps(content).encode())

    assert list_groups(report.documents[0]) == [("job", "a", 1, (0,)), ("job", "b", 1, (1,))]
    assert [group.options["rw"] for group in report.documents[0].groups] == ["read", "read"]
    assert [note.code for note in report.warnings] == ["options-borrowed"]


def test_global_options_of_each_server_are_its_own() -> None:
    servers = [
        {"bs": "4k", "hostname": "a", "port": 8765},
        {"bs": "8k", "hostname": "b", "port": 8765},
    ]
    content = make_content() | {
        "global options": servers,
        "client_stats": [make_job(hostname=host, port=8765) for host in ("a", "b")],
    }
    del content["jobs"]

    groups = read_output(json.dumps(content).encode()).documents[0].groups

    assert [(group.hostname, group.options["bs"]) for group in groups] == [("a", "4k"), ("b", "8k")]


@pytest.mark.parametrize(("version", "jobs"), [("fio-3.33", (1,)), ("fio-3.1", (0, 1))])
def test_second_entry_of_a_client_is_a_snapshot_only_if_numjobs_is_known(version: str, jobs: tuple) -> None:
    later = make_direction(io_bytes=819200, total_ios=200, runtime=4000)
    entries = [make_job(hostname="a", port=1), make_job(hostname="a", port=1, read=later)]
    content = make_content() | {"fio version": version, "client_stats": entries}
    del content["jobs"]

    (group,) = read_output(json.dumps(content).encode()).documents[0].groups

    assert group.jobs == jobs


def test_job_named_like_the_aggregate_outside_client_mode_is_a_job() -> None:
    assert len(read_output(make_output(make_job("All clients"))).documents[0].groups) == 1


def test_ten_thousand_clones_are_one_group() -> None:
    jobs = [{"jobname": "j", "groupid": 0, "read": {"io_bytes": 1, "total_ios": 1, "runtime": 1}}] * 10_000

    (group,) = read_output(make_output(jobs=jobs)).documents[0].groups

    assert (group.numjobs, group.directions[0].total_ios) == (10_000, 10_000)


def test_fixture_with_aggregate_keeps_it_among_the_jobs() -> None:
    jobs = read_fixture("generated/60_client_json.out").documents[0].jobs

    assert [(job.name, job.is_aggregate) for job in jobs] == [
        ("csjob", False),
        ("csjob", False),
        ("All clients", True),
    ]
