"""How each number of a run was computed, held against what fio printed."""

import pytest

from benchapp.fio import read_output
from benchapp.fio.report import Direction, Document, Group, Job, Latency, Report, SteadyState
from benchapp.intake.provenance.report import ProvenanceUnavailable, derive_body, derive_document
from benchapp.intake.provenance.values import DerivedValue, MeasurementProvenance, ReportProvenance
from tests.envelopes import pack_envelope, read_fio


def explain(name: str, number: int = 0) -> ReportProvenance:
    return derive_document(read_output(read_fio(name).encode(errors="surrogateescape")), number)


def value_of(measurement: MeasurementProvenance, name: str) -> DerivedValue:
    (found,) = (value for value in measurement.values if value.name == name)
    return found


def source_of(measurement: MeasurementProvenance, name: str) -> tuple[str | None, str]:
    (found,) = (part for part in measurement.workload if part.name == name)
    return found.value, found.source


def make_direction(**changes: object) -> Direction:
    values: dict[str, object] = {
        "io_bytes": 4096_000,
        "total_ios": 1000,
        "iops": 500.0,
        "bandwidth_bytes_per_s": 2_048_000.0,
        "runtime_s": 2.0,
        "completion": Latency(1_000.0, 9_000.0, 3_000.0, 500.0, 1000, ((50.0, 2_900.0),)),
        "sources": {"iops": "iops=", "completion": "clat_ns"},
        **changes,
    }
    return Direction("read", **values)  # type: ignore[arg-type]


def make_report(jobs: tuple[Job, ...], group: Group, **changes: object) -> Report:
    document = Document("json", "fio-3.33", None, None, jobs, (group,), **changes)  # type: ignore[arg-type]
    return Report((document,), (), (), 2)


def make_job(index: int, direction: Direction, **changes: object) -> Job:
    values: dict[str, object] = {"error": 0, "clones": 1, "options": {"rw": "read", "bs": "4k"}, **changes}
    return Job(index, "reads", 0, None, directions=(direction,), **values)  # type: ignore[arg-type]


def make_group(direction: Direction, jobs: tuple[int, ...]) -> Group:
    return Group("reads", 0, None, len(jobs), 0, {"rw": "read", "bs": "4k"}, (direction,), jobs)


def test_value_of_one_job_is_as_printed() -> None:
    direction = make_direction()
    report = make_report((make_job(0, direction),), make_group(direction, (0,)))

    (measurement,) = derive_document(report, 0).measurements

    assert value_of(measurement, "iops") == DerivedValue(
        "iops", "IOPS", "operations/s", 500.0, "iops=", "as printed by fio", None, None
    )
    mean = value_of(measurement, "latency_mean_ns")
    assert (mean.value, mean.unit, mean.printed_as) == (3_000.0, "ns", "clat_ns")
    assert measurement.percentiles.how == "as printed by fio for one job"


def test_value_summed_by_fio_over_clones_is_described() -> None:
    direction = make_direction()
    report = make_report((make_job(0, direction, clones=4),), make_group(direction, (0,)))

    (measurement,) = derive_document(report, 0).measurements

    assert value_of(measurement, "iops").how == "as printed by fio, sum of 4 jobs"
    assert measurement.percentiles.how == "as printed by fio for one group of 4 jobs"
    assert [(job.index, job.clones) for job in measurement.jobs] == [(0, 4)]


def test_values_of_clones_have_their_merge_rule() -> None:
    (measurement,) = explain("11_numjobs4_json.out").measurements

    assert [job.index for job in measurement.jobs] == [0, 1, 2, 3]
    assert value_of(measurement, "iops").value == 21610.408973999998
    assert {value.name: value.how for value in measurement.values if value.value is not None} == {
        "iops": "sum of 4 entries",
        "bandwidth_bytes_per_s": "sum of 4 entries",
        "io_bytes": "sum of 4 entries",
        "total_ios": "sum of 4 entries",
        "runtime_s": "maximum of 4 entries",
        "latency_mean_ns": "mean of 4 entries, weighted by their samples",
        "latency_stddev_ns": "pooled over 4 entries: within them and between their means",
        "latency_min_ns": "minimum of 4 entries",
        "latency_max_ns": "maximum of 4 entries",
        "submission_mean_ns": "mean of 4 entries, weighted by their samples",
        "completion_mean_ns": "mean of 4 entries, weighted by their samples",
        "total_mean_ns": "mean of 4 entries, weighted by their samples",
    }


def test_percentiles_of_clones_are_withheld_with_the_reason() -> None:
    (measurement,) = explain("11_numjobs4_json.out").measurements

    p99 = value_of(measurement, "latency_p99_ns")
    assert (p99.value, p99.code) == (None, "clones-without-bins")
    assert p99.reason is not None
    assert p99.reason.startswith("several concurrent jobs without histograms")
    assert measurement.percentiles.how.startswith("withheld: several concurrent jobs")
    assert measurement.percentiles.values == ()


def test_percentiles_of_clones_with_histograms_are_merged_from_bins() -> None:
    direction = make_direction()
    jobs = (make_job(0, direction), make_job(1, direction))
    report = make_report(jobs, make_group(direction, (0, 1)))

    (measurement,) = derive_document(report, 0).measurements

    assert measurement.percentiles.how == "merged from the histogram bins of 2 entries"
    assert value_of(measurement, "latency_p50_ns").how == "merged from the histogram bins of 2 entries"


def test_percentile_of_too_few_samples_is_hidden_with_the_reason() -> None:
    direction = make_direction(
        completion=Latency(1.0, 9.0, 3.0, 1.0, 100, ((50.0, 2.0), (99.0, 8.0))), total_ios=100
    )
    report = make_report((make_job(0, direction),), make_group(direction, (0,)))

    (measurement,) = derive_document(report, 0).measurements

    assert value_of(measurement, "latency_p50_ns").value == 2.0
    assert value_of(measurement, "latency_p99_ns").code == "few-samples"
    assert [(each.percent, each.ns) for each in measurement.percentiles.values] == [(50.0, 2.0), (99.0, 8.0)]


def test_workload_has_the_source_of_each_part() -> None:
    (measurement,) = explain("07_json.out").measurements

    assert source_of(measurement, "rw") == ("randread", "rw=randread, from the report's options")
    assert source_of(measurement, "read_share_percent") == ("100", "follows from rw")
    assert source_of(measurement, "numjobs") == ("1", "not set: fio's default")


def test_workload_of_a_text_comes_from_its_header_or_is_not_reported() -> None:
    (measurement,) = explain("01_normal.out").measurements

    assert source_of(measurement, "iodepth") == ("4", "iodepth=4, from the text's header")
    assert source_of(measurement, "is_direct") == (None, "not reported: the header has only some options")


def test_place_of_a_measurement_is_that_of_the_table() -> None:
    measurements = explain("80_multi_job_json.out").measurements

    assert [(each.position, each.job_name, each.direction) for each in measurements] == [
        (0, "seqread", "read"),
        (1, "randwrite", "write"),
        (2, "randrw", "read"),
        (3, "randrw", "write"),
        (4, "randrw", "mixed"),
    ]


def test_total_of_several_jobs_is_explained_and_of_one_is_not_repeated() -> None:
    direction = make_direction()
    groups = (make_group(direction, (0,)), make_group(direction, (1,)))
    jobs = (make_job(0, direction), make_job(1, direction))
    document = Document("json", "fio-3.33", None, None, jobs, groups)

    (total,) = derive_document(Report((document,), (), (), 2), 0).totals

    assert (total.groupid, total.job_names, total.direction) == (0, ("reads", "reads"), "read")
    (iops,) = (value for value in total.values if value.name == "iops")
    assert (iops.value, iops.how) == (1000.0, "sum of 2 jobs")


def test_merged_value_has_the_source_of_its_parts() -> None:
    merged = make_direction(sources={"iops": "sum of 2 clones", "completion": "weighted"})
    jobs = (make_job(0, make_direction()), make_job(1, make_direction()))
    report = make_report(jobs, make_group(merged, (0, 1)))

    (measurement,) = derive_document(report, 0).measurements

    iops = value_of(measurement, "iops")
    assert (iops.printed_as, iops.how) == ("iops=", "sum of 2 entries")


def test_mean_names_its_weights() -> None:
    latency = Latency(1.0, 9.0, 5.0, 1.0, None)
    source = {"completion": "mean weighted by bytes (io_bytes) of 2 jobs"}
    merged = make_direction(completion=latency, total=None, sources=source)
    jobs = (make_job(0, make_direction()), make_job(1, make_direction()))

    (measurement,) = derive_document(make_report(jobs, make_group(merged, (0, 1))), 0).measurements

    how = value_of(measurement, "completion_mean_ns").how
    assert how == "mean of 2 entries, weighted by their bytes (io_bytes)"


def test_job_keeps_what_fio_printed_besides() -> None:
    direction = make_direction()
    state = SteadyState("iops_slope:0.3%", True, duration_s=10.0, deviation="0.2%")
    job = make_job(
        0, direction, steady_state=state, latency_shares=((2_000, 10.0), (None, 90.0)), depth={"4": 100.0}
    )

    (explained,) = derive_document(make_report((job,), make_group(direction, (0,))), 0).jobs

    assert explained.steady_state is not None
    assert (explained.steady_state.criterion, explained.steady_state.is_attained) == ("iops_slope:0.3%", True)
    assert [(share.below_ns, share.percent) for share in explained.latency_shares] == [
        (2_000, 10.0),
        (None, 90.0),
    ]
    assert explained.depth == {"4": 100.0}


def test_aggregate_of_all_clients_is_shown_and_counts_nowhere() -> None:
    explanation = explain("62_client_two_json.out")

    assert [job.name for job in explanation.jobs if job.is_aggregate] == ["All clients"]
    assert {job.name for each in explanation.measurements for job in each.jobs} == {"csjob"}


def test_ignored_text_and_warnings_come_along() -> None:
    body = b"note: both iodepth >= 1 and synchronous I/O engine\n" + read_fio("07_json.out").encode()

    explanation = derive_body(body, 0, has_envelope=False)

    assert explanation.messages == ("note: both iodepth >= 1 and synchronous I/O engine",)
    assert (explanation.documents, explanation.document, explanation.fio_version) == (1, 0, "fio-3.33")


def test_output_is_read_from_an_envelope() -> None:
    body = pack_envelope(fio_output=read_fio("16_randrw7030_json.out"))

    measurements = derive_body(body, 0, has_envelope=True).measurements

    assert [each.direction for each in measurements] == ["read", "write", "mixed"]
    iops = next(value for value in measurements[2].values if value.name == "iops")
    assert iops.how == "sum of 2 directions"


@pytest.mark.parametrize(
    ("body", "number", "has_envelope", "words"),
    [
        (b"nothing of fio", 0, False, "finds no report in the upload"),
        (b"{}", 0, True, "finds no report in the upload"),
        (
            read_fio("07_json.out").encode(),
            3,
            False,
            "finds 1 reports in the upload, and this run is number 4",
        ),
    ],
)
def test_missing_report_is_named(body: bytes, number: int, has_envelope: bool, words: str) -> None:
    with pytest.raises(ProvenanceUnavailable, match=words):
        derive_body(body, number, has_envelope=has_envelope)


@pytest.mark.parametrize("name", ["02_terse_v3.out", "18_unified_mixed_json.out", "25_fsync_json.out"])
def test_value_is_present_or_has_a_reason(name: str) -> None:
    for measurement in explain(name).measurements:
        for value in measurement.values:
            assert (value.value is None) == (value.reason is not None), value.name
