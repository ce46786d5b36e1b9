"""What is known of a measurement before it is judged, from fio's report and the host's words."""

from typing import Any

import msgspec
import pytest

from benchapp.analysis.evidence import Steadiness
from benchapp.fio.report import Direction, Document, Group, Job, Latency, SteadyState
from benchapp.fio.workload import read_workload
from benchapp.pipeline.evidence import collect_evidence, read_surroundings
from benchapp.pipeline.layout import read_environment, read_target
from benchapp.pipeline.measured import measure

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
    job: Job | None = None,
    environment: dict[str, Any] | None = None,
    target: dict[str, Any] | None = None,
    direction: Direction | None = None,
    steadiness: Steadiness | None = None,
):
    document = Document("json", "fio-3.36", None, None, (job or make_job(),), (group,))
    surroundings = read_surroundings(
        document, environment=read_environment(environment or {}), target=read_target(target or {})
    )
    chosen = direction or group.directions[0]
    return collect_evidence(
        surroundings,
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


@pytest.mark.parametrize(
    ("target", "environment", "storage"),
    [
        ({"filesystem": "nfs4"}, {}, "network"),
        ({"volume_type": "gp3"}, {}, "network"),
        ({"volume_type": "Premium_LRS"}, {}, "network"),
        ({}, {"device_model": "Amazon Elastic Block Store"}, "network"),
        ({"filesystem": "tmpfs"}, {}, "memory"),
        ({"filesystem": "xfs", "mount_options": "rw,dax,noatime"}, {}, "memory"),
        ({"filesystem": "xfs", "volume_type": "nvme"}, {"device_model": "Samsung 990"}, None),
    ],
)
def test_kind_of_storage_is_told_by_layout_and_device(
    target: dict[str, str], environment: dict[str, str], storage: str | None
) -> None:
    assert collect(make_group(), target=target, environment=environment).storage == storage


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({"md": {"degraded": "1", "sync_action": "recover"}}, (1, "recover", "")),
        ({"md": {"degraded": "0", "sync_action": "idle"}}, (0, "", "")),
        ({"raid_state": "Degraded"}, (None, "", "degraded")),
        ({"raid_state": "optimal"}, (None, "", "")),
        ({"md": "clean", "raid_state": None}, (None, "", "")),
        ({"md": {"degraded": "many"}}, (None, "", "")),
        ({}, (None, "", "")),
    ],
)
def test_state_of_the_array_is_read_from_the_facts(facts: dict[str, Any], found: tuple[Any, ...]) -> None:
    evidence = collect(make_group(), environment={"facts": facts})

    assert (evidence.members_missing, evidence.sync_action, evidence.raid_state) == found


def test_cpu_is_averaged_over_clones_and_unknown_where_one_does_not_say() -> None:
    busy = make_job(cpu_user_percent=20.0, cpu_system_percent=79.0)

    assert collect(make_group(), job=busy).cpu_percent == 99.0
    assert collect(make_group(), job=make_job(cpu_user_percent=20.0)).cpu_percent is None
    assert collect(make_group(hipri="1"), job=busy).is_polling


def test_steady_state_of_fio_and_of_a_log_are_evidence() -> None:
    state = SteadyState("iops_slope:0.3%", is_attained=False, deviation="2.54%")

    evidence = collect(make_group(), job=make_job(steady_state=state), steadiness=Steadiness(0.1, 0.0))

    assert (evidence.is_steady, evidence.steady_criterion) == (False, "iops_slope:0.3%")
    assert (evidence.steady_deviation, evidence.steadiness) == ("2.54%", Steadiness(0.1, 0.0))


def test_writes_that_are_flushed_do_not_stay_in_the_cache() -> None:
    writes = msgspec.structs.replace(READS, name="write")
    group = make_group(writes, direct="0", fsync="1")

    assert collect(group).waits_for_media
    assert not collect(make_group(writes, direct="0")).waits_for_media


def test_percentile_of_too_few_samples_is_hidden_and_kept_as_printed() -> None:
    latency = msgspec.structs.replace(LATENCY, count=9_999, percentiles=((99.0, 3e6), (99.9, 5e6)))
    group = make_group(msgspec.structs.replace(READS, total=latency))
    document = Document("json", "", None, None, (make_job(),), (group,))
    surroundings = read_surroundings(document, environment=read_environment({}), target=read_target({}))

    values = measure(surroundings, group, group.directions[0], spec=read_workload(group))

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
