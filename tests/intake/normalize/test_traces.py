"""fio logs of a run: combined, reported if they cannot be, stored once."""

from typing import Any

import pytest

from benchapp.fio import read_output
from benchapp.intake.normalize import traces
from benchapp.intake.normalize import traces as log_budget
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import renormalize, select_submissions
from benchapp.intake.normalize.traces import RunTraces, parse_traces
from benchapp.models import Measurement, Run, Trace
from tests.envelopes import read_fio
from tests.intake.normalize.test_batch import submit

# Ten windows of one second: 100 IOPS, and one of 80.
STEADY = "".join(f"{second}000, {80 if second == 5 else 100}, 0, 0, 0\n" for second in range(1, 11))
FALLING = "".join(f"{second}000, {1000 - 90 * second}, 0, 0, 0\n" for second in range(1, 11))
EPOCH_MS = 1_795_268_792_000


def follow(logs: dict[str, str], output: str = "07_json.out") -> RunTraces:
    return parse_traces(logs, read_output(read_fio(output).encode()))


def values_of(course: RunTraces, kind: str) -> list[Any]:
    (trace,) = (trace for trace in course.traces if trace["kind"] == kind)
    return list(trace["buckets"]["mean"])


def test_logs_of_clones_are_added_up_second_by_second() -> None:
    course = follow({f"x_iops.{job}.log": STEADY for job in (1, 2, 3, 4)}, "11_numjobs4_json.out")

    (trace,) = course.traces
    assert (trace["kind"], trace["direction"], trace["jobs"], trace["entries"], trace["bucket_s"]) == (
        "iops",
        "read",
        4,
        40,
        1.0,
    )
    assert trace["buckets"]["at_s"] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]
    assert trace["buckets"]["mean"] == [400.0] * 4 + [320.0] + [400.0] * 5
    assert trace["buckets"]["count"] == [4] * 10
    assert course.warnings == ()


def test_bandwidth_is_bytes_and_latency_is_nanoseconds_with_its_band() -> None:
    course = follow(
        {"x_bw.1.log": "1000, 4, 0, 0, 0\n", "x_lat.1.log": "1000, 250, 0, 0, 0\n1000, 350, 0, 0, 0\n"}
    )

    assert values_of(course, "bw") == [4096.0]
    (latency,) = (trace for trace in course.traces if trace["kind"] == "lat")
    assert latency["buckets"]["mean"] == [300.0]
    assert (latency["buckets"]["minimum"], latency["buckets"]["maximum"]) == ([250.0], [350.0])


def test_groups_that_ran_after_each_other_keep_their_places_on_the_clock() -> None:
    first = "".join(f"{EPOCH_MS + second * 1000}, 100, 0, 0, 0\n" for second in range(1, 4))
    second = "".join(f"{EPOCH_MS + second * 1000}, 7, 1, 0, 0\n" for second in range(5, 8))

    course = follow({"x_iops.1.log": first, "x_iops.2.log": second}, "80_multi_job_json.out")

    assert [trace["direction"] for trace in course.traces] == ["read", "write"]
    assert [trace["buckets"]["at_s"] for trace in course.traces] == [[1.0, 2.0, 3.0], [5.0, 6.0, 7.0]]


def test_groups_without_a_clock_are_not_laid_over_each_other() -> None:
    course = follow({"x_iops.1.log": STEADY, "x_iops.2.log": STEADY}, "80_multi_job_json.out")

    assert course.traces == ()
    assert [note.code for note in course.warnings] == ["logs-without-clock"]
    assert "--log_unix_epoch=1" in course.warnings[0].message


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("x_clat_hist.1.log", "1000, 0, 4096, 1, 2\n", "log-kind-not-read"),
        ("x_bw.1.log", "this is no log\n", "unreadable-log"),
        ("x_bw.1.log", "1000, 1, 9, 0\n", "unreadable-log"),
    ],
)
def test_unreadable_log_is_reported_by_name(name: str, text: str, code: str) -> None:
    course = follow({name: text, "x_iops.1.log": STEADY})

    assert [(note.code, note.where) for note in course.warnings] == [(code, f"log {name}")]
    assert [trace["kind"] for trace in course.traces] == ["iops"]


def test_latency_log_of_an_unknown_fio_has_no_unit() -> None:
    report = read_output(read_fio("07_json.out").replace("fio-3.33", "fio-").encode())

    assert [note.code for note in parse_traces({"x_lat.1.log": "1, 2, 0, 0\n"}, report).warnings] == [
        "log-unit-unknown"
    ]


def test_truncated_line_is_skipped_and_reported() -> None:
    course = follow({"x_iops.1.log": STEADY + "11000, 1"})

    assert len(values_of(course, "iops")) == 10
    assert [note.code for note in course.warnings] == ["log-cut"]


def test_logs_with_two_reports_are_reported_and_not_read() -> None:
    output = read_fio("07_json.out") + "\n" + read_fio("16_randrw7030_json.out")
    course = parse_traces({"x_bw.1.log": STEADY}, read_output(output.encode()))

    assert course.traces == ()
    assert [note.code for note in course.warnings] == ["logs-of-several-reports"]
    assert course.warnings[0].message.startswith("1 logs came with 2 reports: ")


def test_each_group_is_judged_by_its_own_logs() -> None:
    """Three groups: one job, two clones in one entry, one job; fio numbers them from 1 to 4."""
    falling_writes = FALLING.replace(", 0, 0, 0", ", 1, 0, 0")
    logs = {
        "x_iops.1.log": STEADY,
        "x_iops.2.log": falling_writes,
        "x_iops.3.log": falling_writes,
        "x_iops.4.log": "",
    }

    steadiness = follow(logs, "80_multi_job_json.out").steadiness

    assert set(steadiness) == {((0,), "read"), ((1,), "write")}
    assert steadiness[(0,), "read"].slope_share == 0.0
    assert steadiness[(1,), "write"].slope_share < -0.5


def test_job_numbers_that_do_not_match_the_report_are_ignored() -> None:
    assert follow({"x_iops.7.log": STEADY}, "80_multi_job_json.out").steadiness == {}


def test_run_shorter_than_five_rounds_is_not_judged() -> None:
    assert follow({"x_iops.1.log": "1000, 100, 0, 0\n2000, 1, 0, 0\n"}).steadiness == {}


def test_logs_beyond_the_limit_are_skipped_by_kind_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum over one of two jobs would be wrong: of a kind all logs are read, or none."""
    monkeypatch.setattr(log_budget, "LOGS_LINES_MAXIMUM", 30)
    names = ("x_bw.1.log", "x_iops.1.log", "x_iops.2.log", "x_lat.1.log", "x_lat.2.log")

    course = follow(dict.fromkeys(names, STEADY), "11_numjobs4_json.out")

    assert [(trace["kind"], trace["jobs"]) for trace in course.traces] == [("iops", 2), ("bw", 1)]
    assert [note.code for note in course.warnings] == ["logs-too-big"]
    assert course.warnings[0].message.startswith(
        "not read: x_lat.1.log, x_lat.2.log. The logs of a run are read up to"
    )


def test_logs_over_the_byte_limit_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_budget, "LOGS_BYTES_MAXIMUM", 200)

    course = follow({f"x_iops.{job}.log": STEADY for job in range(1, 10)}, "11_numjobs4_json.out")

    assert course.traces == ()
    assert "x_iops.8.log and 1 others" in course.warnings[0].message


def test_trace_of_the_only_group_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    make = traces.make_trace

    def count(logs: Any, **options: Any) -> Any:
        made.extend(logs)
        return make(logs, **options)

    monkeypatch.setattr(traces, "make_trace", count)

    course = follow({"x_iops.1.log": STEADY, "x_iops.2.log": STEADY}, "11_numjobs4_json.out")

    assert len(made) == 2
    assert set(course.steadiness) == {((0, 1, 2, 3), "read")}


def test_empty_log_is_no_trace_and_no_fault() -> None:
    course = follow({"x_slat.1.log": "", "x_iops.1.log": STEADY})

    assert [trace["kind"] for trace in course.traces] == ["iops"]
    assert course.warnings == ()


@pytest.mark.django_db
def test_traces_are_rows_of_the_run_and_stay_the_same_when_read_again() -> None:
    submit(fio_output=read_fio("07_json.out"), logs={"x_iops.1.log": STEADY, "x_bw.1.log": "nonsense\n"})
    normalize_batch()
    before = list(Trace.objects.values_list("run_id", "kind", "direction", "jobs", "entries", "buckets"))

    list(renormalize(select_submissions(), is_dry_run=False))

    assert before == list(
        Trace.objects.values_list("run_id", "kind", "direction", "jobs", "entries", "buckets")
    )
    assert [(row[1], row[2], row[3], row[4]) for row in before] == [("iops", "read", 1, 10)]
    assert [warning["code"] for warning in Run.objects.get().warnings] == ["unreadable-log"]


@pytest.mark.django_db
def test_run_whose_logs_are_too_big_is_stored_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_budget, "LOGS_LINES_MAXIMUM", 9)
    submit(fio_output=read_fio("07_json.out"), logs={"x_iops.1.log": STEADY})
    normalize_batch()

    assert [warning["code"] for warning in Run.objects.get().warnings] == ["logs-too-big"]
    assert (Measurement.objects.count(), Trace.objects.count()) == (1, 0)


@pytest.mark.django_db
def test_log_that_shows_a_fall_earns_the_badge() -> None:
    submit(fio_output=read_fio("07_json.out"), logs={"x_iops.1.log": FALLING})
    normalize_batch()

    badges = {badge["code"]: badge for badge in Measurement.objects.get().badges}
    assert badges["not-steady"]["numbers"]["slope_share"] < -0.5
    assert "not-steady" in Run.objects.get().badges


@pytest.mark.parametrize(
    ("output", "names", "kind", "direction", "metric"),
    [
        ("C0_logs_normal.out", ("C0_log_iops.1.log",), "iops", "write", "iops"),
        ("C0_logs_normal.out", ("C0_log_bw.1.log",), "bw", "read", "bandwidth_bytes_per_s"),
        (
            "C3_logs_numjobs.out",
            ("C3_log_bw.1.log", "C3_log_bw.2.log"),
            "bw",
            "read",
            "bandwidth_bytes_per_s",
        ),
    ],
)
def test_real_logs_agree_with_the_report_that_they_came_with(
    output: str, names: tuple[str, ...], kind: str, direction: str, metric: str
) -> None:
    report = read_output(read_fio(output).encode())
    course = parse_traces({name: read_fio(name) for name in names}, report)

    (trace,) = (trace for trace in course.traces if (trace["kind"], trace["direction"]) == (kind, direction))
    (reported,) = (one for one in report.documents[0].groups[0].directions if one.name == direction)
    mean = sum(trace["buckets"]["mean"]) / len(trace["buckets"]["mean"])
    assert trace["jobs"] == len(names)
    assert mean == pytest.approx(getattr(reported, metric), rel=0.05)


def test_trace_has_its_average_for_the_comparison_with_the_report() -> None:
    course = follow(
        {
            f"x_bw.{job}.log": "".join(f"{at}000, 400, 0, 0, 0\n" for at in range(1, 11))
            for job in (1, 2, 3, 4)
        },
        "11_numjobs4_json.out",
    )

    (steadiness,) = course.steadiness.values()
    assert (steadiness.average, steadiness.is_iops) == (4 * 400 * 1024, False)
