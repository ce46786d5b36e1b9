"""Badges on measurement, run and series, from fio output and context."""

import io
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command
from django.test import Client

from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.plan import plan_submission
from benchapp.intake.normalize.sender_context import SubmissionSource
from benchapp.intake.posts.submissions import pack, unpack
from benchapp.models import Measurement, Run, Series, Submission
from benchapp.series.read.points import read_points, read_rolling, summarize_series
from tests.envelopes import make_envelope, read_fio
from tests.factories import make_user
from tests.intake.normalize.test_batch import submit
from tests.pages import Page

SMALL_FILES = (
    b"$ time for i in {0..1000}; do echo 'test' > \"test${i}.txt\"; done\n\n"
    b"real    0m0.116s\nuser    0m0.025s\nsys     0m0.091s\n"
)


def make_source(text: bytes, *, kind: str = "envelope", **parameters: Any) -> SubmissionSource:
    return SubmissionSource(uuid4(), 1, "host:a", kind, text, parameters, datetime(2026, 11, 21, tzinfo=UTC))


def badges_of(text: bytes, *, kind: str = "fio", **parameters: Any) -> list[list[dict[str, Any]]]:
    (run,) = plan_submission(make_source(text, kind=kind, **parameters)).runs
    return [row.values["badges"] for row in run.measurements]


def codes_of(text: bytes, *, kind: str = "fio", **parameters: Any) -> list[list[str]]:
    return [[badge["code"] for badge in of_row] for of_row in badges_of(text, kind=kind, **parameters)]


def longer(name: str, *, runtime_ms: int = 60_000) -> str:
    """Return a recorded output as if it had run longer and counted more."""
    report = json.loads(read_fio(name))
    for job in report["jobs"]:
        for direction in ("read", "write"):
            if job[direction]["runtime"]:
                job[direction]["runtime"] = runtime_ms
            for latency in ("clat_ns", "lat_ns"):
                job[direction][latency]["N"] *= 1000
    return json.dumps(report)


def test_seconds_of_a_shell_are_not_judged_as_fio_is() -> None:
    assert codes_of(SMALL_FILES) == [[]]


def test_recipe_of_small_files_names_its_profile() -> None:
    def profile_of(text: bytes, **parameters: str) -> str:
        return plan_submission(make_source(text, kind="fio", **parameters)).runs[0].values["profile"]

    assert profile_of(SMALL_FILES) == "gitlab-smallfiles"
    assert profile_of(SMALL_FILES.replace(b"1000", b"50000")) == ""
    assert profile_of(SMALL_FILES, profile="mine") == "mine"


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("40_err_enospc_tmpfs_json.out", [["failed-job", "few-samples"]]),
        ("94_rate_iops_json.out", [["too-short", "few-samples"]]),
        ("60_client_json.out", [["too-short"], ["too-short"], ["too-short"]]),
    ],
)
def test_real_outputs_get_their_badges(name: str, codes: list[list[str]]) -> None:
    assert codes_of(read_fio(name).encode()) == codes


def test_flush_is_not_called_cached_and_neither_are_the_writes_before_it() -> None:
    body = json.dumps(
        make_envelope(fio_output=read_fio("25_fsync_json.out"), environment={"memory_bytes": "8GiB"})
    )

    assert codes_of(body.encode(), kind="envelope") == [["too-short", "few-samples"], ["few-samples"]]


def test_terse_hides_percentiles_of_fewer_samples_than_its_rate_allows() -> None:
    badges = badges_of(read_fio("82_multi_job_terse.out").encode())

    sentences = [badge["sentence"] for of_row in badges for badge in of_row if badge["code"] == "few-samples"]
    assert [sentence[: sentence.index(":")] for sentence in sentences] == [
        "Fewer than 10 of at most 7\u202f205 samples are above p99.9",
        "Fewer than 10 of at most 8\u202f492 samples are above p99.9",
    ]


@pytest.mark.django_db
def test_badges_are_stored_on_measurement_run_and_series() -> None:
    submit(environment={"memory_bytes": "8GiB", "facts": {"md": {"degraded": "1"}}})

    normalize_batch()

    measurement, run = Measurement.objects.get(), Run.objects.get()
    assert [badge["code"] for badge in measurement.badges] == ["too-short", "degraded-raid"]
    assert measurement.badges[1]["sentence"].endswith("(missing members: 1).")
    assert measurement.badges[1]["numbers"] == {"members_missing": 1}
    assert run.badges == ["degraded-raid", "too-short"]
    assert Series.objects.get().badges == ["degraded-raid", "too-short"]


@pytest.mark.django_db
def test_failed_job_marks_all_measurements_of_its_run() -> None:
    report = json.loads(read_fio("80_multi_job_json.out"))
    report["jobs"][0]["error"] = 5
    submit(fio_output=json.dumps(report))

    normalize_batch()

    failed = [row.error for row in Measurement.objects.all() if "failed-job" in str(row.badges)]
    assert "failed-job" in Run.objects.get().badges
    assert failed == [5] * Measurement.objects.count() != [5]


@pytest.mark.django_db
def test_older_measurement_that_comes_late_leaves_the_badges_of_the_newest() -> None:
    submit(fio_output=move_in_time(longer("07_json.out"), hours=5))
    normalize_batch()
    assert Series.objects.get().badges == []

    submit(fio_output=move_in_time(read_fio("07_json.out"), hours=0))
    normalize_batch()

    series = Series.objects.get()
    assert (series.measurement_count, series.badges) == (2, [])


@pytest.mark.django_db
@pytest.mark.parametrize("hours", [0, 5], ids=["of the same time", "of a later time"])
@pytest.mark.parametrize("is_short_newest", [False, True])
def test_of_results_stored_together_the_newest_decides(hours: int, is_short_newest: bool) -> None:
    texts = [longer("07_json.out"), read_fio("07_json.out")]
    first, last = texts if is_short_newest else texts[::-1]
    # Results that were received together are stored by their ids.
    submit(id=str(UUID(int=1)), fio_output=move_in_time(first, hours=0))
    submit(id=str(UUID(int=2)), fio_output=move_in_time(last, hours=hours))

    normalize_batch()

    assert Series.objects.get().badges == (["too-short"] if is_short_newest else [])


@pytest.mark.django_db
def test_series_has_the_badges_of_its_newest_measurement() -> None:
    submit(fio_output=move_in_time(longer("07_json.out"), hours=0))
    newest = submit(fio_output=move_in_time(read_fio("07_json.out"), hours=5))
    normalize_batch()
    assert Series.objects.get().badges == ["too-short"]

    body = Submission.objects.get(pk=newest)
    better = json.loads(body_of(body))
    better["fio_output"] = move_in_time(longer("07_json.out"), hours=5)
    store_body(body, better)
    call_command("renormalize", stdout=io.StringIO(), stderr=io.StringIO())

    assert Series.objects.get().badges == []


@pytest.mark.django_db
def test_dry_run_of_renormalize_reports_changed_badges_and_stores_none() -> None:
    submit()
    normalize_batch()
    Measurement.objects.update(badges=[])
    out = io.StringIO()

    call_command("renormalize", "--dry-run", stdout=out, stderr=io.StringIO())

    assert "badges none → too-short" in out.getvalue()
    assert Measurement.objects.get().badges == []


@pytest.mark.django_db
def test_run_that_failed_never_moves_a_baseline() -> None:
    for hours in range(3):
        submit(fio_output=move_in_time(read_fio("07_json.out"), hours=hours))
    failing = json.loads(move_in_time(read_fio("07_json.out"), hours=3))
    failing["jobs"][0]["error"] = 5
    failing["jobs"][0]["read"]["iops"] = 1.0
    submit(fio_output=json.dumps(failing))
    normalize_batch()

    series_id = Series.objects.get().pk
    points = read_points(series_id, metrics=["iops"]).items
    levels = read_rolling(series_id, points, metrics=["iops"])
    summary = summarize_series(series_id, metric="iops")

    assert [point.badges for point in points] == [("too-short",)] * 3 + [("failed-job",)]
    assert (summary["n"], summary["minimum"], summary["last"]) == (3, *[points[0].values[0]] * 2)
    assert levels[3][0] == levels[2][0]


def move_in_time(text: str, *, hours: int) -> str:
    """Return a report of fio as if it had been printed so much later."""
    report = json.loads(text)
    for name, factor in (("timestamp", 1), ("timestamp_ms", 1000)):
        report[name] += hours * 3600 * factor
    for job in report["jobs"]:
        if "job_start" in job:
            job["job_start"] += hours * 3_600_000
    report.pop("time", None)
    return json.dumps(report)


def body_of(submission: Submission) -> bytes:
    return unpack(bytes(submission.body or b""))


def store_body(submission: Submission, envelope: dict[str, Any]) -> None:
    submission.body = pack(json.dumps(envelope).encode())
    submission.save(update_fields=["body"])


def test_options_of_the_global_section_alone_are_all_options() -> None:
    report = json.loads(read_fio("07_json.out"))
    own = report["jobs"][0].pop("job options")
    name, options = own.pop("name"), own | {"direct": "0"}
    of_global = report | {"global options": options}
    of_job = report | {"jobs": [report["jobs"][0] | {"job options": options | {"name": name}}]}
    bodies = [
        json.dumps(make_envelope(fio_output=json.dumps(each), environment={"memory_bytes": "24GiB"})).encode()
        for each in (of_global, of_job)
    ]

    plans = [plan_submission(make_source(body)) for body in bodies]

    (one,), (other,) = ([row for run in plan.runs for row in run.measurements] for plan in plans)
    assert one.workload == other.workload
    assert one.workload["is_direct"] is False
    assert [badge["code"] for badge in one.values["badges"]] == ["cached", "too-short"]


def test_percentiles_beyond_the_histogram_are_withheld() -> None:
    report = json.loads(longer("07_json.out"))
    latency = report["jobs"][0]["read"]["clat_ns"] | {"mean": 41.2e9, "max": 94_400_000_000}
    latency["percentile"] = {"5.000000": 16_978_542_592} | dict.fromkeys(
        ["10.000000", "50.000000", "95.000000", "99.000000", "99.900000"], 17_112_760_320
    )
    report["jobs"][0]["read"]["clat_ns"] = latency

    (run,) = plan_submission(make_source(json.dumps(report).encode(), kind="fio")).runs

    (row,) = run.measurements
    assert [row.values[f"latency_{name}_ns"] for name in ("p50", "p95", "p99", "p99_9")] == [None] * 4
    assert row.values["missing"]["latency_p99_ns"] == "saturated"
    badge = next(badge for badge in row.values["badges"] if badge["code"] == "inconsistent")
    assert badge["sentence"].startswith("fio's histogram ends at 17.1 s: percentiles from p10 on are longer")


def make_logged(iops: float, logs: int) -> dict[str, Any]:
    """Return the changes of an envelope: four jobs with this sum in the report, and logs of 400 IOPS."""
    report = json.loads(longer("11_numjobs4_json.out"))
    for job in report["jobs"]:
        job["write"] |= {"iops": iops / 4, "bw_bytes": int(iops * 1024), "bw": int(iops)}
    text = "".join(f"{second * 1000}, 400, 1, 0, 0\n" for second in range(1, 61))
    return {
        "fio_output": json.dumps(report),
        "logs": {f"rw_iops.{number}.log": text for number in range(1, logs + 1)},
    }


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (make_logged(1600, 4), ""),
        (make_logged(1000, 4), "The trace has 160 % of the IOPS in the report"),
        (make_logged(4000, 4), "The trace has 40 % of the IOPS in the report"),
        (make_logged(4000, 3), ""),
        (
            {"fio_output": read_fio("71_steadystate_not_attained_json.out")},
            "The configured steady state (iops_slope:0.000100%) was not attained; deviation -15.707072%",
        ),
        (
            {"environment": {"cpu_count": 8}, "conditions": {"load_before": 9.5}},
            "Before the run, the load was 9.5 on 8 CPUs",
        ),
        (
            {
                "target": {"volume_type": "gp2", "volume_size_bytes": "100GiB"},
                "fio_output": read_fio("71_steadystate_not_attained_json.out"),
            },
            "29\u202f031 IOPS exceed the 300 IOPS that gp2 of 100 GiB sustains",
        ),
    ],
)
def test_page_and_api_say_what_is_wrong_with_a_run(
    changes: dict[str, Any], sentence: str, client: Client
) -> None:
    client.force_login(make_user())
    submit(**changes)
    normalize_batch()

    run = Run.objects.get()
    page = Page(client.get(f"/runs/{run.pk}/")).words
    answer = client.get(f"/api/v1/runs/{run.pk}").json()
    sentences = [badge["sentence"] for row in answer["measurements"] for badge in row["badges"]]
    if sentence:
        assert sentence in page
        assert any(each.startswith(sentence) for each in sentences)
    else:
        assert "of the trace is" not in page
