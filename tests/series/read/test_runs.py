from datetime import timedelta

import pytest

from benchapp.catalog.grammar import parse_filter
from benchapp.intake.read import read_raw_body
from benchapp.series.read.runs import RunFilter, list_profiles, list_runs, read_run
from tests.factories import (
    NOON,
    make_environment,
    make_host,
    make_measurement,
    make_run,
    make_series,
    make_submission,
    make_target,
    make_workload,
)

pytestmark = pytest.mark.django_db


def ids(page):
    return [run.id for run in page.items]


def test_runs_are_listed_newest_first():
    old = make_run(started_at=NOON)
    new = make_run(started_at=NOON + timedelta(hours=1))

    assert ids(list_runs(RunFilter())) == [new.id, old.id]
    assert ids(list_runs(RunFilter(), oldest_first=True)) == [old.id, new.id]


def test_line_shows_host_target_and_measurements():
    host = make_host("db-7", pool="db")
    target = make_target(filesystem="ext4", volume_count=4, volume_type="gp3")
    run = make_run(host, target=target, error=5, is_partial=True)
    series = make_series(host=host, target=target)
    make_measurement(
        run,
        series,
        iops=33415.1,
        latency_p99_ns=8_500_000.0,
        job_name="a",
        missing={"elapsed_s": "not-measured"},
    )

    (line,) = list_runs(RunFilter()).items

    assert (line.host_name, line.pool, line.profile, line.error, line.has_failed) == (
        "db-7",
        "db",
        "quick",
        5,
        True,
    )
    assert line.target_title == "ext4 on 4 × gp3"
    assert line.target.known() == {"volume_type": "gp3", "volume_count": 4, "filesystem": "ext4"}
    (measurement,) = line.measurements
    assert (measurement.job_name, measurement.iops, measurement.iodepth) == ("a", 33415.1, 8)
    assert measurement.latency_p99_ns == 8_500_000.0
    assert measurement.missing == {"elapsed_s": "not-measured"}


def test_run_of_many_jobs_shows_the_first_four_and_counts_all():
    run = make_run()
    series = make_series(host=run.host)
    for number in range(12):
        make_measurement(run, series, ordinal=number, job_name=f"job-{number:02}")

    (line,) = list_runs(RunFilter()).items

    assert [measurement.job_name for measurement in line.measurements] == [f"job-{n:02}" for n in range(4)]
    assert line.measurement_count == 12


@pytest.mark.parametrize(
    "filters",
    [
        RunFilter(parse_filter("blue")),
        RunFilter(parse_filter("XFS rack-9")),
        RunFilter(parse_filter("wanted fio-3.36")),
        RunFilter(parse_filter("host:a pool:blue rw:randwrite xfs"), profile="wanted", has_failed=True),
    ],
)
def test_filter_leaves_the_wanted_run_only(filters):
    make_measurement(make_run(make_host("b", pool="red"), labels={"rack": "r1"}))
    wanted = make_run(
        make_host("a", pool="blue"),
        started_at=NOON + timedelta(hours=1),
        profile="wanted",
        error=5,
        fio_version="fio-3.36",
        labels={"rack": "rack-9"},
        target=make_target(filesystem="xfs"),
    )
    series = make_series(host=wanted.host, workload=make_workload(rw="randwrite"), direction="write")
    make_measurement(wanted, series)

    assert ids(list_runs(filters)) == [wanted.id]


def test_end_of_a_span_is_exclusive_and_its_start_inclusive():
    run = make_run(started_at=NOON)

    assert ids(list_runs(RunFilter(from_at=NOON))) == [run.id]
    assert ids(list_runs(RunFilter(to_at=NOON))) == []


def test_run_that_arrives_meanwhile_shifts_no_page():
    host = make_host()
    runs = [make_run(host, started_at=NOON + timedelta(minutes=n)).id for n in range(4)]
    first = list_runs(RunFilter(), limit=2)

    make_run(host, started_at=NOON + timedelta(hours=9))

    assert ids(list_runs(RunFilter(), after=first.next_cursor, limit=2)) == [runs[1], runs[0]]


def test_profiles_are_what_there_is(django_assert_num_queries):
    for profile in ("quick", "", "ebs-series", "quick"):
        make_run(profile=profile)

    with django_assert_num_queries(1):
        assert list_profiles() == ("ebs-series", "quick")


def test_run_is_read_whole_with_four_queries(django_assert_num_queries):
    host = make_host("db-7", pool="db")
    run = make_run(
        host,
        target=make_target(filesystem="xfs"),
        environment=make_environment(kernel="6.1.0", cpu_count=2),
        labels={"rack": "r1"},
        warnings=[{"code": "x", "where": "document 0", "message": "m"}],
        command={"argv": ["fio"], "exit_status": 0},
    )
    series = make_series(host=host, target=run.target)
    make_measurement(
        run, series, position=1, job_name="second", ordinal=1, percentiles={"99.9": 3.0, "5": 1.0, "50": 2.0}
    )
    make_measurement(
        run, series, position=0, job_name="first", missing={"percentiles": "clones-without-bins"}
    )

    with django_assert_num_queries(4):
        detail = read_run(run.id)

    assert (detail.row.host.name, detail.row.host.pool, detail.target_title) == ("db-7", "db", "xfs")
    assert (detail.row.environment.kernel, detail.row.environment.cpu_count) == ("6.1.0", 2)
    assert detail.row.labels == {"rack": "r1"}
    assert detail.row.warnings[0]["code"] == "x"
    assert detail.row.command["argv"] == ["fio"]
    assert (detail.row.submission_id, detail.row.has_body) == (run.submission_id, True)
    first, second = detail.measurements
    assert (first.job_name, first.missing) == ("first", {"percentiles": "clones-without-bins"})
    assert list(second.percentile_values.items()) == [(5.0, 1.0), (50.0, 2.0), (99.9, 3.0)]
    assert (first.series.block_size_bytes, first.series.rw) == (4096, "randread")


def test_neighbours_are_of_the_same_host_and_profile():
    host = make_host()
    before = make_run(host, started_at=NOON)
    same_time = make_run(host, started_at=NOON + timedelta(hours=1))
    run = make_run(host, started_at=NOON + timedelta(hours=1))
    make_run(host, started_at=NOON + timedelta(hours=2), profile="other")
    make_run(started_at=NOON + timedelta(hours=2))
    after = make_run(host, started_at=NOON + timedelta(hours=3))

    detail = read_run(run.id)

    assert (detail.previous_run_id, detail.next_run_id) == (same_time.id, after.id)
    assert read_run(same_time.id).previous_run_id == before.id
    assert read_run(after.id).next_run_id is None


def test_raw_body_is_that_of_the_run():
    run = make_run(submission=make_submission(body=b"as fio printed it"))
    gone = make_run(submission=make_submission(body=None))

    body = read_raw_body(run_id=run.id)

    assert body.submission_id == run.submission_id
    assert read_raw_body(run_id=gone.id) is None
    assert read_run(gone.id).row.has_body is False
