"""What is known of a measurement before it is judged, from fio's report and the host's words."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from benchapp.fio.merging.jobs import roll_up
from benchapp.fio.report import Direction, Document, Group, Job, Latency, Notes, SteadyState
from benchapp.fio.workload import read_workload
from benchapp.intake.normalize.measurement import measurement_columns
from benchapp.intake.normalize.validity_inputs import collect_validity_inputs, read_run_context
from benchapp.series.validity.rules import Steadiness

GIB = 2**30
LATENCY = Latency(1_000.0, 9e6, 2_500_000.0, 1e5, 768_000, percentiles=((50.0, 2.4e6), (99.99, 8e6)))
READS = Direction("read", 3 * GIB, 768_000, 12_800.0, 52_428_800.0, 60.0, total=LATENCY)
OPTIONS = {"rw": "randread", "ioengine": "libaio", "direct": "1", "iodepth": "32", "size": "1g", "bs": "4k"}


def make_group(*directions: Direction, error: int = 0, numjobs: int = 1, **options: str) -> Group:
    given = {**OPTIONS, **options}
    return Group("job", 0, None, numjobs, error, given, directions or (READS,), (0,))


def make_job(**fields: Any) -> Job:
    return msgspec.structs.replace(Job(0, "job", 0, None, 0, 1, OPTIONS, (READS,)), **fields)


def collect(
    group: Group,
    *,
    jobs: Sequence[Job] = (),
    has_precise_values: bool = True,
    direction: Direction | None = None,
    steadiness: Steadiness | None = None,
):
    entries = jobs or (make_job(directions=group.directions),)
    document = Document("json", "fio-3.36", None, None, tuple(entries), (group,))
    document = msgspec.structs.replace(document, has_precise_values=has_precise_values)
    context = read_run_context(document, environment={}, target={})
    chosen = direction or group.directions[0]
    return collect_validity_inputs(
        context,
        group,
        chosen,
        spec=read_workload(group),
        latency=chosen.completion or chosen.total,
        steadiness=steadiness,
    )


def test_queue_is_counted_over_all_directions() -> None:
    writes = msgspec.structs.replace(READS, name="write", iops=6_400.0)

    evidence = collect(make_group(READS, writes, numjobs=2))

    assert evidence.in_flight == pytest.approx(48.0)
    assert (evidence.slots, evidence.ios_per_slot) == (64, 24_000.0)


def make_clones(*clones: tuple[float, float, float], **options: str) -> tuple[Group, list[Job]]:
    """Make entries of one group, each of 1 000 000 reads, by IOPS, mean (ns) and seconds, and roll them up."""
    given = {**OPTIONS, "iodepth": "16", "numjobs": str(len(clones)), **options}
    jobs = [
        make_job(
            index=index,
            options=given,
            directions=(
                Direction(
                    "read",
                    4_096_000_000,
                    1_000_000,
                    iops,
                    iops * 4096,
                    runtime_s,
                    total=Latency(1_000.0, 9e6, mean_ns, 1e5, 1_000_000),
                ),
            ),
        )
        for index, (iops, mean_ns, runtime_s) in enumerate(clones)
    ]
    (group,) = roll_up(jobs, where="", is_partial=False, notes=Notes())
    return group, jobs


def test_clones_that_end_at_different_times_fill_their_own_slots_alone() -> None:
    group, jobs = make_clones((16_000.0, 1_000_000.0, 62.5), (10_666.667, 1_500_000.0, 93.75))

    evidence = collect(group, jobs=jobs)

    assert evidence.in_flight == pytest.approx(32.0)
    assert evidence.slots == 32


def test_clone_that_is_missing_leaves_the_queue_unknown() -> None:
    group, jobs = make_clones((16_000.0, 1_000_000.0, 62.5), (16_000.0, 1_000_000.0, 62.5))

    assert collect(group, jobs=jobs[:1]).in_flight is None


@pytest.mark.parametrize(
    ("clones", "options", "is_throttled"),
    [(1, {}, False), (2, {}, None), (2, {"runtime": "60"}, False), (2, {"rate": "1m"}, True)],
)
def test_clones_summed_by_fio_may_have_ended_one_after_the_other(
    clones: int, options: dict[str, str], is_throttled: bool | None
) -> None:
    job = make_job(clones=clones)

    assert collect(make_group(numjobs=clones, **options), jobs=[job]).is_throttled is is_throttled


def test_slots_and_files_of_an_entry_that_may_hide_jobs_are_unknown() -> None:
    job = make_job(cpu_user_percent=20.0, cpu_system_percent=79.0, may_hide_jobs=True)

    evidence = collect(make_group(direct="0"), jobs=[job])

    assert (evidence.slots, evidence.ios_per_slot, evidence.file_bytes) == (None, None, None)
    # fio divides by the run time of all that it summed, however many.
    assert evidence.cpu_percent == 99.0


def test_cpu_of_several_entries_is_unknown_where_one_may_hide_jobs() -> None:
    group, jobs = make_clones((16_000.0, 1e6, 62.5), (16_000.0, 1e6, 62.5))
    busy = [
        msgspec.structs.replace(job, cpu_user_percent=90.0, cpu_system_percent=9.0, may_hide_jobs=hides)
        for job, hides in zip(jobs, (False, True), strict=True)
    ]

    assert collect(group, jobs=busy).cpu_percent is None


def test_mixed_reads_and_writes_are_not_counted_twice() -> None:
    mixed = msgspec.structs.replace(READS, name="mixed")

    assert collect(make_group(READS, mixed)).in_flight == pytest.approx(32.0)


def test_latency_to_the_queue_counts_from_submission() -> None:
    completion = msgspec.structs.replace(LATENCY, mean_ns=1_000_000.0)
    submission = Latency(None, None, 250_000.0, None, None)
    parts = {"total": None, "completion": completion, "submission": submission}

    evidence = collect(make_group(msgspec.structs.replace(READS, **parts)))

    assert (evidence.read_mean_ns, evidence.read_p50_ns) == (1_250_000.0, 2_650_000.0)
    assert evidence.in_flight == pytest.approx(16.0)


def test_direction_without_latency_leaves_the_queue_unknown() -> None:
    assert collect(make_group(msgspec.structs.replace(READS, total=None))).in_flight is None


@pytest.mark.parametrize(
    "options",
    [
        {"rate_iops": "1000"},
        {"rate": "10m"},
        {"thinktime": "100"},
        {"iodepth_batch_submit": "8"},
        {"iodepth_batch_complete_max": "8"},
        {"latency_target": "10ms"},
        {"fsync": "1"},
    ],
)
def test_options_that_empty_the_queue_excuse_it(options: dict[str, str]) -> None:
    assert collect(make_group(**options)).is_throttled is True


def test_options_without_effect_are_no_excuse() -> None:
    assert collect(make_group(rate_iops="0", thinktime="0", iodepth_batch="1")).is_throttled is False


def test_text_that_lists_some_options_leaves_the_others_unknown() -> None:
    group = msgspec.structs.replace(
        make_group(), has_all_options=False, options={"rw": "randread", "ioengine": "libaio"}
    )

    evidence = collect(group)

    assert (evidence.is_throttled, evidence.is_direct, evidence.slots) == (None, None, None)


@pytest.mark.parametrize(
    ("options", "numjobs", "file_bytes"),
    [
        ({}, 1, GIB),
        ({}, 4, 4 * GIB),
        ({"filename": "/dev/sdb"}, 4, GIB),
        ({"size": "100g", "filesize": "1g", "nrfiles": "2"}, 1, 2 * GIB),
        ({"size": "100%"}, 1, None),
    ],
)
def test_files_of_all_clones_count(options: dict[str, str], numjobs: int, file_bytes: int | None) -> None:
    assert collect(make_group(numjobs=numjobs, **options)).file_bytes == file_bytes


def test_cpu_is_averaged_over_clones_and_unknown_where_one_does_not_say() -> None:
    busy = make_job(cpu_user_percent=20.0, cpu_system_percent=79.0)

    assert collect(make_group(), jobs=[busy]).cpu_percent == 99.0
    assert collect(make_group(), jobs=[make_job(cpu_user_percent=20.0)]).cpu_percent is None
    assert collect(make_group(hipri="1"), jobs=[busy]).is_polling


def test_steady_state_of_fio_and_of_a_log_are_evidence() -> None:
    state = SteadyState("iops_slope:0.3%", is_attained=False, deviation="2.54%")

    evidence = collect(make_group(), jobs=[make_job(steady_state=state)], steadiness=Steadiness(0.1, 0.0))

    assert (evidence.is_steady, evidence.steady_criterion) == (False, "iops_slope:0.3%")
    assert (evidence.steady_deviation, evidence.steadiness) == ("2.54%", Steadiness(0.1, 0.0))


def test_writes_that_are_flushed_do_not_stay_in_the_cache() -> None:
    writes = msgspec.structs.replace(READS, name="write")
    group = make_group(writes, direct="0", fsync="1")

    assert collect(group).waits_for_media
    assert not collect(make_group(writes, direct="0")).waits_for_media


@pytest.mark.parametrize(
    ("name", "options", "waits"),
    [
        ("sync", {"fsync": "1"}, True),
        ("sync", {"rw": "randread"}, True),
        ("trim", {}, True),
        ("mixed", {"fsync": "1"}, True),
        ("mixed", {}, False),
        ("read", {"fsync": "1"}, False),
    ],
)
def test_only_reads_and_writes_can_be_answered_by_the_page_cache(
    name: Any, options: dict[str, str], waits: bool
) -> None:
    direction = msgspec.structs.replace(READS, name=name)

    assert collect(make_group(direction, direct="0", **options)).waits_for_media is waits


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({"total_ios": None, "iops": 100.0, "runtime_s": 60.0}, 6_060),
        ({"total_ios": None, "iops": None, "runtime_s": 60.0, "missing": {"iops": "not-in-format"}}, 60),
        ({"total_ios": None, "iops": None, "runtime_s": 0.0, "missing": {"iops": "zero-runtime"}}, None),
        ({"total_ios": None, "runtime_s": None}, None),
    ],
)
def test_samples_that_are_not_counted_are_at_most_those_of_the_next_whole_iops(
    fields: dict[str, Any], most: int | None
) -> None:
    latency = msgspec.structs.replace(LATENCY, count=None)

    evidence = collect(make_group(msgspec.structs.replace(READS, total=latency, **fields)))

    assert (evidence.samples, evidence.is_sample_limit) == (most, most is not None)


def test_rounded_iops_of_a_text_bound_no_samples() -> None:
    latency = msgspec.structs.replace(LATENCY, count=None)
    reads = msgspec.structs.replace(READS, total=latency, total_ios=None)

    assert collect(make_group(reads), has_precise_values=False).samples is None


@pytest.mark.parametrize(
    ("options", "has_all_options", "is_polling"),
    [
        ({"ioengine": "io_uring", "hipri": "1"}, True, True),
        ({"ioengine": "io_uring"}, True, False),
        ({"ioengine": "io_uring"}, False, None),
        ({"ioengine": "libaio"}, False, False),
    ],
)
def test_text_that_leaves_polling_out_leaves_it_open(
    options: dict[str, str], has_all_options: bool, is_polling: bool | None
) -> None:
    group = msgspec.structs.replace(make_group(**options), has_all_options=has_all_options)

    assert collect(group).is_polling is is_polling


def test_percentile_of_too_few_samples_is_withheld_and_stored_as_printed() -> None:
    latency = msgspec.structs.replace(LATENCY, count=9_999, percentiles=((99.0, 3e6), (99.9, 5e6)))
    group = make_group(msgspec.structs.replace(READS, total=latency))
    document = Document("json", "", None, None, (make_job(),), (group,))
    context = read_run_context(document, environment={}, target={})

    values = measurement_columns(context, group, group.directions[0], spec=read_workload(group))

    assert (values["latency_p99_ns"], values["latency_p99_9_ns"]) == (3e6, None)
    assert values["missing"]["latency_p99_9_ns"] == "few-samples"
    assert values["percentiles"] == {"99": 3e6, "99.9": 5e6}
    assert [badge["code"] for badge in values["badges"]] == ["few-samples"]


@pytest.mark.parametrize(
    ("options", "is_once"),
    [
        ({"rw": "read", "size": "1m"}, True),
        ({"rw": "read", "size": "512k"}, False),
        ({"rw": "read", "size": "1m", "invalidate": "0"}, False),
        ({"rw": "read", "size": "1m", "time_based": "1"}, False),
        ({"rw": "randread", "size": "1m"}, False),
    ],
)
def test_file_that_was_read_through_once_did_not_come_from_the_cache(
    options: dict[str, str], is_once: bool
) -> None:
    read = msgspec.structs.replace(READS, io_bytes=2**20)

    assert collect(make_group(read, **options)).reads_each_byte_once is is_once
