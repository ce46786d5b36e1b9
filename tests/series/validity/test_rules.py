"""Every badge: where its rule begins, where it ends, and what it never judges."""

import dataclasses

import pytest

from benchapp.series.validity.rules import (
    CODES,
    Steadiness,
    SustainedRate,
    ValidityInputs,
    count_beyond,
    format_count,
    format_size,
    format_time,
    is_doubtful,
    is_too_few,
    judge_validity,
)

GIB = 2**30
# 12 800 IOPS at 2.5 ms are 32 in flight: a minute of direct random reads with a full queue.
GOOD = ValidityInputs(
    error=0,
    runtime_s=60.0,
    engine="libaio",
    is_direct=True,
    is_random=True,
    file_bytes=4 * GIB,
    memory_bytes=8 * GIB,
    read_mean_ns=2_500_000.0,
    read_p50_ns=2_400_000.0,
    in_flight=32.0,
    slots=32,
    ios_per_slot=24_000.0,
    is_throttled=False,
    cpu_percent=40.0,
    samples=768_000,
    percents=(50.0, 95.0, 99.0, 99.9),
    maximum_ns=40_000_000.0,
    p99_99_ns=9_000_000.0,
    bandwidth_variation=0.03,
    bandwidth_samples=120,
    ios_per_sample=6400.0,
    members_missing=0,
)
ZFS = {"cached_by": "ZFS (before 2.3)", "file_bytes": 20 * GIB, "memory_bytes": 64 * GIB}
GP2 = {"sustained": (SustainedRate("gp2 of 100 GiB", 300.0, None),)}
SLOW = {"percentiles": ((50.0, 1e6), (99.0, 2e6)), "minimum_ns": 0.8e6, "p99_99_ns": None}


def codes_of(**changes) -> list[str]:
    return [badge.code for badge in judge_validity(dataclasses.replace(GOOD, **changes))]


def sentence_of(**changes) -> str:
    (badge,) = judge_validity(dataclasses.replace(GOOD, **changes))
    return badge.sentence


def test_good_measurement_has_no_badge() -> None:
    assert judge_validity(GOOD) == ()


def test_nothing_is_judged_from_what_is_not_known() -> None:
    assert judge_validity(ValidityInputs()) == ()


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"error": 28}, ["failed-job"]),
        ({"runtime_s": 29.9}, ["too-short"]),
        ({"runtime_s": 30.0}, []),
        ({"runtime_s": None}, []),
        ({"is_direct": False}, ["cached"]),
        ({"is_direct": False, "file_bytes": 16 * GIB}, []),
        ({"is_direct": False, "file_bytes": 16 * GIB - 1}, ["cached"]),
        ({"is_direct": False, "memory_bytes": None}, []),
        ({"is_direct": False, "file_bytes": None}, []),
        ({"is_direct": None}, []),
        ({"is_direct": False, "waits_for_media": True}, []),
        ({"is_direct": False, "engine": "sg"}, []),
        ({"read_mean_ns": 4_999.0}, ["cached"]),
        ({"read_mean_ns": 5_000.0}, []),
        ({"read_mean_ns": 4_500.0, "engine": "io_uring", "is_polling": True}, []),
        ({"read_mean_ns": 2_000.0, "engine": "io_uring", "is_polling": True}, []),
        ({"read_mean_ns": 1_999.0, "engine": "io_uring", "is_polling": True}, ["cached"]),
        ({"read_mean_ns": 4_500.0, "engine": "io_uring", "is_polling": None}, []),
        (
            {"read_mean_ns": 4_500.0, "engine": "io_uring", "is_polling": True, "is_direct": False}
            | {"file_bytes": 16 * GIB},
            ["cached"],
        ),
        ({"read_mean_ns": 4_999.0, "storage": "memory"}, []),
        ({"read_mean_ns": 4_999.0, "engine": "null"}, []),
        ({"read_mean_ns": 4_999.0, "engine": ""}, []),
        ({"cpu_percent": 99.0, "bandwidth_variation": 0.5, "engine": "null"}, []),
        ({"runtime_s": 5.0, "engine": "null"}, ["too-short"]),
        ({"read_mean_ns": 4_999.0, "is_direct": None, "is_random": True}, ["cached"]),
        ({"read_mean_ns": 4_999.0, "is_direct": None, "is_random": False}, []),
        ({"read_p50_ns": 9_999.0}, []),
        ({"read_p50_ns": 9_999.0, "storage": "network"}, ["cached"]),
        ({"read_p50_ns": 10_000.0, "storage": "network"}, []),
        ({"read_p50_ns": 9_999.0, "engine": "rbd"}, ["cached"]),
        ({"in_flight": 27.2}, []),
        ({"in_flight": 27.1}, ["littles-law"]),
        ({"in_flight": 32.64}, []),
        ({"in_flight": 32.7}, ["littles-law"]),
        ({"in_flight": 5.0, "engine": "psync"}, []),
        ({"in_flight": 5.0, "is_throttled": True}, []),
        ({"in_flight": 5.0, "is_throttled": None}, []),
        ({"in_flight": 40.0, "is_throttled": None}, ["littles-law"]),
        ({"in_flight": 40.0, "is_throttled": True}, ["littles-law"]),
        ({"in_flight": 5.0, "ios_per_slot": 99.0}, []),
        ({"in_flight": 5.0, "ios_per_slot": None}, []),
        ({"in_flight": None}, []),
        ({"slots": None}, []),
        ({"is_steady": False}, ["not-steady"]),
        ({"is_steady": True}, []),
        ({"steadiness": Steadiness(0.20, 0.10)}, []),
        ({"steadiness": Steadiness(0.21, 0.00)}, ["not-steady"]),
        ({"steadiness": Steadiness(0.15, -0.11)}, ["not-steady"]),
        ({"cpu_percent": 94.9}, []),
        ({"cpu_percent": 95.0}, ["cpu-bound"]),
        ({"cpu_percent": 99.0, "is_polling": True}, []),
        ({"cpu_percent": 99.0, "is_polling": None}, []),
        ({"samples": 10_000, "maximum_ns": 10e9}, []),
        # Eight jobs of 2.5 GiB with 64 GiB of memory.
        (ZFS | {"is_direct": True}, ["cached"]),
        (ZFS | {"is_direct": None}, ["cached"]),
        (ZFS | {"file_bytes": 128 * GIB}, []),
        (ZFS | {"waits_for_media": True}, []),
        (ZFS | {"engine": "rbd"}, []),
        ({"load": 8.1, "cpu_count": 8}, ["busy"]),
        ({"load": 8.0, "cpu_count": 8}, []),
        ({"load": 8.1}, []),
        ({"other_io_percent": 20.0}, ["busy"]),
        ({"other_io_percent": 19.9}, []),
        # Four logs of 400 IOPS, 1 000 IOPS in the report.
        ({"steadiness": Steadiness(0.0, 0.0, 1600.0), "iops": 1000.0}, ["inconsistent"]),
        ({"steadiness": Steadiness(0.0, 0.0, 1200.0), "iops": 1000.0}, []),
        # Logs of other jobs may be missing.
        ({"steadiness": Steadiness(0.0, 0.0, 400.0), "iops": 1000.0}, []),
        ({"steadiness": Steadiness(0.0, 0.0, 400.0, logs=4), "iops": 1000.0, "numjobs": 4}, ["inconsistent"]),
        ({"steadiness": Steadiness(0.0, 0.0, 840.0, logs=4), "iops": 1000.0, "numjobs": 4}, []),
        ({"steadiness": Steadiness(0.0, 0.0, 400.0, logs=3), "iops": 1000.0, "numjobs": 4}, []),
        (
            {"steadiness": Steadiness(0.0, 0.0, 2e6, is_iops=False), "bandwidth_bytes_per_s": 1e6},
            ["inconsistent"],
        ),
        (GP2 | {"all_iops": 3010.0}, ["above-baseline"]),
        (GP2 | {"all_iops": 330.0}, []),
        (GP2 | {"all_iops": 3010.0, "is_random": False}, []),
        (GP2 | {"all_iops": 3010.0, "is_direct": None}, []),
        (
            {"sustained": (SustainedRate("st1 of 1 TiB", None, 40e6),), "all_bytes_per_s": 250e6},
            ["above-baseline"],
        ),
        # p99 below the mean: a hundredth of all I/Os took up to 1 s.
        (SLOW | {"maximum_ns": 1e9, "mean_ns": 10e6}, []),
        (SLOW | {"maximum_ns": 3e6, "mean_ns": 5e6}, ["inconsistent"]),
        # Half of 1 ms, 49 % of 2 ms and 1 % of 3 ms are 1.51 ms; 2 % more is within the precision of fio.
        (SLOW | {"maximum_ns": 3e6, "mean_ns": 1.54e6}, []),
        (SLOW | {"maximum_ns": 3e6, "mean_ns": 1.56e6}, ["inconsistent"]),
        # Half of at least 0.8 ms, 49 % of 1 ms and 1 % of 2 ms are 0.91 ms.
        (SLOW | {"maximum_ns": 3e6, "mean_ns": 0.90e6}, []),
        (SLOW | {"maximum_ns": 3e6, "mean_ns": 0.88e6}, ["inconsistent"]),
        ({"minimum_ns": 10e6, "maximum_ns": 20e6, "mean_ns": 25e6}, ["inconsistent"]),
        ({"minimum_ns": None, "maximum_ns": None, "mean_ns": 25e6}, []),
        ({"saturated": (10.0, 17_112_760_320.0), "mean_ns": 41.2e9}, ["inconsistent"]),
        ({"targets": ("sda", "sdb")}, ["several-targets"]),
        ({"targets": ("sda",)}, []),
        ({"samples": 9_999}, ["few-samples"]),
        ({"samples": 9_999, "percents": (50.0, 95.0, 99.0)}, []),
        ({"samples": None}, []),
        ({"samples": 9_999, "is_sample_limit": True}, ["few-samples"]),
        ({"maximum_ns": 900_000_000.0}, ["stalls"]),
        ({"maximum_ns": 899_999_999.0}, []),
        ({"maximum_ns": 900_000_000.0, "samples": 100_000}, ["stalls"]),
        ({"maximum_ns": 900_000_000.0, "samples": 99_999}, []),
        ({"maximum_ns": 900_000_000.0, "samples": None}, []),
        ({"maximum_ns": 900_000_000.0, "samples": 100_000, "is_sample_limit": True}, ["stalls"]),
        ({"bandwidth_variation": 0.2}, []),
        ({"bandwidth_variation": 0.21}, ["stalls"]),
        ({"bandwidth_variation": 0.21, "bandwidth_samples": 19}, []),
        ({"bandwidth_variation": 0.21, "ios_per_sample": 99.0}, []),
        ({"members_missing": 1}, ["degraded-raid"]),
        ({"sync_action": "recover"}, ["degraded-raid"]),
        ({"raid_state": "rebuilding"}, ["degraded-raid"]),
    ],
)
def test_each_rule_has_its_edges(changes: dict, codes: list[str]) -> None:
    assert codes_of(**changes) == codes


def test_array_state_is_reported_without_its_source() -> None:
    (badge,) = judge_validity(dataclasses.replace(GOOD, members_missing=1, raid_state="degraded"))

    assert badge.sentence == "RAID array degraded during the run (missing members: 1, state “degraded”)."


def test_failed_job_is_not_judged_by_its_course() -> None:
    codes = codes_of(error=5, runtime_s=0.1, cpu_percent=100.0, samples=100, members_missing=1)

    assert codes == ["failed-job", "degraded-raid", "few-samples"]


def test_direction_without_io_is_not_judged_by_its_course() -> None:
    assert codes_of(did_io=False, runtime_s=0.1, cpu_percent=100.0) == ["no-io"]
    assert sentence_of(did_io=False, runtime_s=60.0).startswith("No I/O completed in 60 s")


def test_every_badge_is_in_the_list_and_has_a_sentence_and_numbers_that_are_numbers() -> None:
    badges = [
        *judge_validity(dataclasses.replace(GOOD, error=5)),
        *judge_validity(dataclasses.replace(GOOD, did_io=False, targets=("sda", "sdb"))),
        *judge_validity(dataclasses.replace(GOOD, **GP2, all_iops=3010.0)),
        *judge_validity(
            ValidityInputs(
                runtime_s=3.0,
                engine="libaio",
                is_direct=False,
                file_bytes=GIB,
                memory_bytes=GIB,
                in_flight=1.0,
                slots=8,
                ios_per_slot=1000.0,
                is_throttled=False,
                is_steady=False,
                cpu_percent=100.0,
                bandwidth_variation=1.0,
                bandwidth_samples=100,
                ios_per_sample=100.0,
                samples=10,
                percents=(99.0,),
                mean_ns=2e6,
                load=9.0,
                cpu_count=8,
                maximum_ns=1e6,
                members_missing=2,
                memory_filesystem="tmpfs",
            )
        ),
    ]

    # What is reported was not measured here, so that there is nothing to judge.
    assert {badge.code for badge in badges} == set(CODES) - {"reported"}
    assert all(badge.sentence.endswith(".") for badge in badges)
    assert all(isinstance(number, int | float) for badge in badges for number in badge.numbers.values())


def test_sentences_include_the_values() -> None:
    assert sentence_of(error=28).startswith("fio ended the job with error 28 (No space left on device)")
    assert "Runtime 3.12 s; below 30 s" in sentence_of(runtime_s=3.118)
    assert "files (4 GiB) are smaller than twice the host's memory (8 GiB)" in sentence_of(is_direct=False)
    assert "Direct I/O is cached by ZFS (before 2.3): the files (20 GiB)" in sentence_of(**ZFS)
    assert "the load was 9.5 on 8 CPUs and other I/O kept the storage 40 % busy" in sentence_of(
        load=9.5, cpu_count=8, other_io_percent=40.0
    )
    assert "The trace has 160 % of the IOPS in the report" in sentence_of(
        steadiness=Steadiness(0.0, 0.0, 1600.0), iops=1000.0
    )
    assert "3\u202f010 IOPS exceed the 300 IOPS that gp2 of 100 GiB sustains" in sentence_of(
        **GP2, all_iops=3010.0
    )
    assert "Mean read latency 2.5 µs" in sentence_of(read_mean_ns=2_500.0)
    assert "5.2 I/Os in flight, 16.2 % of iodepth × numjobs (32): fio, the CPU" in sentence_of(in_flight=5.2)
    assert "40 I/Os in flight, more than iodepth × numjobs (32)" in sentence_of(in_flight=40.0)
    assert "(iops_slope:0.3%) was not attained; deviation 2.54%" in sentence_of(
        is_steady=False, steady_criterion="iops_slope:0.3%", steady_deviation="2.54%"
    )
    assert "25 % of its average and drifts by 12 %" in sentence_of(steadiness=Steadiness(0.25, -0.12))
    assert "took 1.2 s, 133 times p99.99 (9 ms)" in sentence_of(maximum_ns=1.2e9)
    assert "Fewer than 10 of 9\u202f999 samples are above p99.9: hidden" in sentence_of(samples=9_999)
    assert "Fewer than 10 of at most 9\u202f999 samples" in sentence_of(samples=9_999, is_sample_limit=True)
    assert "(missing members: 1, recover in progress)" in sentence_of(
        members_missing=1, sync_action="recover"
    )


def test_buffered_asynchronous_engine_gets_the_cause_of_its_empty_queue() -> None:
    buffered = {"is_direct": False, "file_bytes": 100 * GIB, "in_flight": 1.0}

    assert "with buffered I/O libaio waits" in sentence_of(**buffered)
    assert "was the limit, not the storage" in sentence_of(**buffered, engine="io_uring")


def test_numbers_of_a_badge_are_in_base_units() -> None:
    (badge,) = judge_validity(dataclasses.replace(GOOD, in_flight=16.0))

    assert badge.numbers == {"in_flight": 16.0, "slots": 32, "share": 0.5}


@pytest.mark.parametrize(
    ("samples", "percent", "beyond", "is_few"),
    [
        (10_000, 99.9, 10.0, False),
        (9_999, 99.9, 9.999, True),
        (1_000, 99.0, 10.0, False),
        (200, 95.0, 10.0, False),
        (20, 50.0, 10.0, False),
        (19, 50.0, 9.5, True),
        (100_000, 99.99, 10.0, False),
        (0, 50.0, 0.0, True),
    ],
)
def test_ten_samples_beyond_a_percentile_are_enough(
    samples: int, percent: float, beyond: float, is_few: bool
) -> None:
    assert count_beyond(samples, percent) == beyond
    assert is_too_few(samples, percent) is is_few


def test_few_samples_and_a_short_run_are_not_doubtful() -> None:
    assert not is_doubtful([])
    assert not is_doubtful(["few-samples", "too-short"])
    assert is_doubtful(["few-samples", "cached"])


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0 ns"), (999.7, "1 µs"), (2_500, "2.5 µs"), (999_600_000, "1 s"), (123_400_000_000, "123 s")],
)
def test_times_step_up_where_they_round_to_the_next_unit(value: float, words: str) -> None:
    assert format_time(value) == words


def test_sizes_are_binary_and_counts_have_thin_spaces() -> None:
    assert format_size(64 * 2**20) == "64 MiB"
    assert format_count(33_415.2) == "33\u202f415"


def test_files_in_memory_are_named_also_for_a_failed_job() -> None:
    (badge,) = judge_validity(dataclasses.replace(GOOD, memory_filesystem="tmpfs"))
    assert (badge.code, "(tmpfs)" in badge.sentence) == ("memory-filesystem", True)
    assert codes_of(memory_filesystem="zram0", error=28)[:2] == ["failed-job", "memory-filesystem"]
