"""From received to stored or rejected: each result once, and the reason where there is none."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import IntegrityError, OperationalError, connection

from benchapp.fio import PARSER_VERSION
from benchapp.intake.normalize import batch as normalize
from benchapp.intake.normalize import plan
from benchapp.intake.normalize.batch import (
    ATTEMPTS_MAXIMUM,
    IMPORT_LOCK,
    claim_fresh,
    claim_retried,
    has_waiting,
    normalize_batch,
)
from benchapp.intake.normalize.reparse import renormalize, select_submissions
from benchapp.intake.posts.submissions import IncomingSubmission, accept_submission
from benchapp.models import (
    Environment,
    Host,
    Kind,
    Measurement,
    Run,
    Series,
    State,
    Submission,
    Target,
    Workload,
)
from benchapp.storage.actions import set_pool
from tests.envelopes import make_envelope, read_fio
from tests.factories import NOON, make_host
from tests.pages import Page
from tests.visitors import sign_in

pytestmark = pytest.mark.django_db

RECEIVED_AT = datetime(2026, 11, 22, 12, tzinfo=UTC)


def submit(host: Host | None = None, **changes: Any) -> UUID:
    """Accept one envelope and return its id."""
    host = host or Host.objects.get_or_create(name="db-1")[0]
    envelope = make_envelope(**changes)
    body = json.dumps(envelope).encode()
    return accept_submission(
        IncomingSubmission(host.pk, Kind.ENVELOPE, body, UUID(envelope["id"])), now=RECEIVED_AT
    ).id


def settled(submission_id: UUID) -> Submission:
    normalize_batch()
    return Submission.objects.get(pk=submission_id)


def test_received_becomes_a_run_with_a_measurement_a_direction() -> None:
    row = settled(submit(fio_output=read_fio("16_randrw7030_json.out")))

    run = Run.objects.get()
    printed = json.loads(read_fio("16_randrw7030_json.out"))["jobs"][0]
    measured = {row.series.direction: row for row in Measurement.objects.select_related("series")}
    assert (row.state, row.attempts, row.parser_version) == (State.STORED, 1, PARSER_VERSION)
    assert row.settled_at is not None
    assert run.submission_id == row.id
    assert run.profile == "quick"
    assert set(measured) == {"read", "write", "mixed"}
    for direction in ("read", "write"):
        assert measured[direction].iops == printed[direction]["iops"]
        assert measured[direction].bandwidth_bytes_per_s == printed[direction]["bw_bytes"]
        assert measured[direction].latency_mean_ns == printed[direction]["lat_ns"]["mean"]
        assert measured[direction].latency_p99_ns == printed[direction]["clat_ns"]["percentile"]["99.000000"]
        assert measured[direction].latency_max_ns == printed[direction]["lat_ns"]["max"]
        assert measured[direction].latency_kind == "clat"
        assert (
            measured[direction].percentiles["99.99"]
            == printed[direction]["clat_ns"]["percentile"]["99.990000"]
        )


def test_total_of_a_mix_is_a_measurement_of_its_own() -> None:
    submit(fio_output=read_fio("16_randrw7030_json.out"))

    normalize_batch()

    measured = {row.series.direction: row for row in Measurement.objects.select_related("series")}
    read, write, mixed = (measured[name] for name in ("read", "write", "mixed"))
    assert mixed.iops == read.iops + write.iops
    assert mixed.total_ios == read.total_ios + write.total_ios
    assert mixed.latency_max_ns == max(read.latency_max_ns, write.latency_max_ns)
    assert (mixed.latency_p99_ns, mixed.missing["percentiles"]) == (None, "groups-without-bins")
    assert (mixed.series.rw, mixed.series.read_share_percent) == ("randrw", 70)


def test_layout_environment_and_workload_are_typed_columns() -> None:
    submit(
        fio_output=read_fio("16_randrw7030_json.out"),
        target={"volume_type": "gp3", "volume_count": "4", "chunk_size_bytes": "64k"},
        environment={"kernel": "6.1.0", "queue_depth": 64},
    )

    normalize_batch()

    series = Series.objects.filter(direction="read").get()
    environment = Environment.objects.get()
    assert (series.volume_type, series.volume_count, series.chunk_size_bytes) == ("gp3", 4, 65536)
    assert (series.rw, series.iodepth, series.numjobs) == ("randrw", series.workload.iodepth, 1)
    assert series.scope == "host:db-1"
    assert environment.kernel == "6.1.0"
    assert environment.facts == {"queue_depth": "64"}
    assert environment.fio_version == "fio-3.33"


def test_version_of_the_agent_and_driver_are_facts_of_the_environment() -> None:
    submit(environment={"kernel": "6.1.0", "device_driver": "nvme 1.0"}, agent={"version": "0.2.0"})

    normalize_batch()

    environment = Environment.objects.get()
    assert (environment.agent_version, environment.device_driver) == ("0.2.0", "nvme 1.0")


def test_same_layout_and_workload_is_one_series_whatever_the_environment() -> None:
    for kernel in ("6.1.0", "6.6.0"):
        submit(environment={"kernel": kernel})

    normalize_batch()

    assert Environment.objects.count() == 2
    assert Target.objects.count() == 1
    assert Workload.objects.count() == Series.objects.values("workload").distinct().count()
    assert set(Series.objects.values_list("measurement_count", flat=True)) == {2}


def test_another_layout_is_another_series() -> None:
    submit(target={"volume_count": 4})
    submit(target={"volume_count": 8})

    normalize_batch()

    assert set(Series.objects.values_list("measurement_count", flat=True)) == {1}
    assert Target.objects.count() == 2


def test_hosts_of_one_pool_share_their_series() -> None:
    for name in ("db-1", "db-2"):
        submit(Host.objects.create(name=name, pool="db"))

    normalize_batch()

    assert set(Series.objects.values_list("scope", "measurement_count", "host_id")) == {("pool:db", 2, None)}


def test_batch_of_many_costs_a_bounded_number_of_queries(django_assert_max_num_queries: Any) -> None:
    for _ in range(10):
        submit()

    with django_assert_max_num_queries(51):
        batch = normalize_batch()

    assert len(batch.stored) == 10


def test_running_twice_leaves_the_same_rows() -> None:
    submission_id = submit()
    normalize_batch()
    before = list(Measurement.objects.values_list("run_id", "series_id", "iops"))
    run_id = Run.objects.get().pk

    Submission.objects.filter(pk=submission_id).update(state=State.RECEIVED, attempts=0)
    normalize_batch()

    assert Run.objects.get().pk == run_id
    assert list(Measurement.objects.values_list("run_id", "series_id", "iops")) == before
    assert set(Series.objects.values_list("measurement_count", flat=True)) == {1}


def test_nothing_waiting_costs_nothing_and_changes_nothing() -> None:
    assert normalize_batch().claimed == 0
    assert has_waiting() is False


@pytest.mark.parametrize("output", ["", "fio: engine libaio not loadable", "{}"])
def test_unreadable_output_is_rejected_with_reason_and_error_output(output: str) -> None:
    row = settled(submit(fio_output=output, command={"exit_status": 1, "stderr": "fio: failed to open /x\n"}))

    assert row.state == State.REJECTED
    assert row.reason_code
    assert "fio exited with status 1" in row.reason
    assert "failed to open /x" in row.reason
    assert row.body is not None
    assert Run.objects.count() == 0


def test_fault_of_the_reader_rejects_one_and_stores_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    read_output = plan.read_output

    def fail_on_poison(text: bytes, **_: object) -> Any:
        if b"poison" in text:
            raise RuntimeError("a fault of ours")
        return read_output(text)

    monkeypatch.setattr(plan, "read_output", fail_on_poison)
    healthy = [submit() for _ in range(3)]
    poisoned = submit(fio_output="poison")

    row = settled(poisoned)

    assert (row.state, row.reason_code) == (State.REJECTED, "reader-fault")
    assert "RuntimeError: a fault of ours" in row.reason
    assert Submission.objects.filter(pk__in=healthy, state=State.STORED).count() == 3


@pytest.mark.django_db(transaction=True)
def test_what_the_database_refuses_is_isolated_from_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    store_plans = normalize.store_plans

    def refuse_poison(plans: Any) -> Any:
        if any(b"poison" in one.source.body for one in plans):
            raise IntegrityError("the database would not have it")
        return store_plans(plans)

    monkeypatch.setattr(normalize, "store_plans", refuse_poison)
    healthy = [submit() for _ in range(3)]
    poisoned = submit(labels={"poison": "yes"})

    for _ in range(6):
        normalize_batch()

    row = Submission.objects.get(pk=poisoned)
    assert (row.state, row.reason_code) == (State.REJECTED, "database-refused")
    assert Submission.objects.filter(pk__in=healthy, state=State.STORED).count() == 3


def test_fresh_come_together_and_failed_ones_alone() -> None:
    first, second, third, fourth = (submit() for _ in range(4))
    # All four have the time of the transaction.
    Submission.objects.filter(pk__in=[first, second]).update(attempts=1, received_at=NOON)

    assert set(claim_fresh(50)) == {third, fourth}
    assert claim_retried() in ([first], [second])


def test_results_wait_while_an_archive_is_imported() -> None:
    fresh, failed = submit(), submit()
    Submission.objects.filter(pk=failed).update(attempts=1)

    with import_elsewhere():
        assert normalize_batch().claimed == 0
    # No attempt is counted.
    assert dict(Submission.objects.values_list("pk", "attempts")) == {fresh: 0, failed: 1}

    assert set(normalize_batch().stored) == {fresh, failed}


@contextmanager
def import_elsewhere() -> Iterator[None]:
    """Hold the lock of an import in another connection."""
    with psycopg.connect(
        **connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}
    ) as importing:
        importing.execute("SELECT pg_advisory_xact_lock(%s)", [IMPORT_LOCK])
        yield


def test_results_claimed_before_an_import_wait_too_and_lose_no_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = submit(), submit()
    Submission.objects.update(attempts=1)

    with import_elsewhere(), monkeypatch.context() as patched:
        patched.setattr(normalize, "claim_fresh", lambda limit: [first, second])
        assert normalize_batch().claimed == 0
    assert set(Submission.objects.values_list("state", "attempts")) == {(State.RECEIVED, 0)}

    assert set(normalize_batch().stored) == {first, second}


def test_submission_that_used_up_its_attempts_is_rejected() -> None:
    submission_id = submit()
    Submission.objects.update(attempts=ATTEMPTS_MAXIMUM)

    row = settled(submission_id)

    assert (row.state, row.reason_code) == (State.REJECTED, "attempts-exhausted")


def test_batch_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalize, "BATCH_BYTES", 10_000)
    for _ in range(4):
        submit()

    claimed = claim_fresh(50)

    sizes = Submission.objects.filter(pk__in=claimed).values_list("body_bytes", flat=True)
    assert 1 <= len(claimed) < 4
    assert sum(sizes) <= 10_000 or len(claimed) == 1


def test_start_comes_from_fio_before_the_sender() -> None:
    submit(started_at="2026-11-19T00:00:00Z")

    normalize_batch()

    run = Run.objects.get()
    assert run.started_at_is_known
    assert run.started_at != datetime(2026, 11, 19, tzinfo=UTC)


def test_clock_that_is_days_ahead_does_not_order_history() -> None:
    report = json.loads(read_fio("07_json.out"))
    ahead = RECEIVED_AT + timedelta(days=400)
    report |= {"timestamp": int(ahead.timestamp()), "timestamp_ms": int(ahead.timestamp() * 1000)}
    submit(fio_output=json.dumps(report), started_at=ahead.isoformat(), finished_at=ahead.isoformat())

    normalize_batch()

    run = Run.objects.get()
    assert (run.started_at, run.finished_at) == (RECEIVED_AT, None)
    assert run.started_at_is_known is False
    (warning,) = [each for each in run.warnings if each["code"] == "clock-not-used"]
    assert "more than a day after the server received the result" in warning["message"]
    page = Page(sign_in().get(f"/runs/{run.pk}/")).words
    assert "time received; no usable timestamp from the host" in page
    assert warning["message"] in page


def test_failed_job_is_stored_and_marked() -> None:
    row = settled(submit(fio_output=read_fio("40_err_enospc_tmpfs_json.out")))

    assert row.state == State.STORED
    assert Run.objects.get().error == 28
    assert Run.objects.get().has_failed
    assert set(Measurement.objects.values_list("error", flat=True)) == {28}


def test_clones_without_bins_have_sums_and_no_percentiles() -> None:
    submit(fio_output=read_fio("11_numjobs4_json.out"))

    normalize_batch()

    printed = [job["read"] for job in json.loads(read_fio("11_numjobs4_json.out"))["jobs"]]
    printed = [entry for entry in printed if entry["total_ios"]] or [
        job["write"] for job in json.loads(read_fio("11_numjobs4_json.out"))["jobs"]
    ]
    row = Measurement.objects.get()
    assert row.clones == 4
    assert row.total_ios == sum(entry["total_ios"] for entry in printed)
    assert row.iops == pytest.approx(sum(entry["iops"] for entry in printed))
    assert row.latency_p99_ns is None
    assert row.missing


def test_html_in_a_job_name_is_stored_as_text() -> None:
    report = json.loads(read_fio("07_json.out"))
    report["jobs"][0]["jobname"] = "<img src=x onerror=alert(1)>"
    submit(fio_output=json.dumps(report))

    normalize_batch()

    assert Measurement.objects.first().job_name == "<img src=x onerror=alert(1)>"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "name", ["nul\x00name", "lone\ud800surrogate", "x" * 100_000, "\u202ereversed", "tab\tnew\nline"]
)
def test_odd_job_name_is_stored_as_far_as_text_can_be(name: str) -> None:
    report = json.loads(read_fio("07_json.out"))
    report["jobs"][0]["jobname"] = name
    row = settled(submit(fio_output=json.dumps(report)))

    assert row.state == State.STORED
    assert len(Measurement.objects.first().job_name) <= 200  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [2**63, 2**64, 10**30, -(2**70), 1e308])
def test_huge_number_is_rejected_or_withheld_and_does_not_fail_the_batch(value: float) -> None:
    report = json.loads(read_fio("07_json.out"))
    for direction in ("read", "write"):
        report["jobs"][0][direction]["total_ios"] = value
        report["jobs"][0][direction]["io_bytes"] = value
    row = settled(submit(fio_output=json.dumps(report)))

    assert row.state in (State.STORED, State.REJECTED)
    assert row.reason_code != "reader-fault"


def test_result_updates_the_host_but_not_when_it_was_seen() -> None:
    submit(agent={"version": "0.9.9"})

    normalize_batch()

    host = Host.objects.get()
    # By its token only: the result may have been imported.
    assert host.last_seen_at is None
    assert host.agent_version == "0.9.9"
    assert host.run_count == 1


def test_host_has_the_installation_of_the_agent_that_sent_its_newest_result() -> None:
    host = make_host("db-1")

    found = []
    for agent in (
        {"version": "0.2.0", "installation": "deb"},
        {},
        {"version": "0.3.0", "installation": "container"},
        {"version": "0.1.0"},
    ):
        submit(host, agent=agent)
        normalize_batch()
        host.refresh_from_db()
        found.append((host.agent_version, host.agent_installation))

    assert found == [("0.2.0", "deb"), ("0.2.0", "deb"), ("0.3.0", "container"), ("0.1.0", "")]


def test_host_has_the_largest_count_of_dropped_results_that_was_reported() -> None:
    host = make_host("db-1")
    late, early = "2026-11-20T10:00:00Z", "2026-11-19T10:00:00Z"

    found = []
    for agent in (
        {"version": "0.2.0"},
        {"version": "0.2.0", "dropped_results": 3, "last_dropped_at": late},
        # It waited in the spool.
        {"version": "0.2.0", "dropped_results": 1, "last_dropped_at": early},
    ):
        submit(host, agent=agent)
        normalize_batch()
        host.refresh_from_db()
        found.append((host.dropped_count, host.dropped_at and f"{host.dropped_at:%Y-%m-%dT%H:%M:%SZ}"))

    assert found == [(0, None), (3, late), (3, late)]


def test_hosts_whose_results_are_stored_together_are_all_updated() -> None:
    for name, version, runs in (("db-1", "0.9.9", 2), ("db-2", "0.8.0", 1), ("db-3", "", 1)):
        host = make_host(name, agent_version="0.7.0")
        for _ in range(runs):
            submit(host, agent={"version": version} if version else {})

    normalize_batch()

    assert list(Host.objects.order_by("name").values_list("name", "agent_version", "run_count")) == [
        ("db-1", "0.9.9", 2),
        ("db-2", "0.8.0", 1),
        ("db-3", "0.7.0", 1),
    ]


def test_unknown_sweep_id_is_stored_with_the_run() -> None:
    sweep_id = uuid4()
    submit(sweep=str(sweep_id))

    normalize_batch()

    assert Run.objects.get().sweep_id == sweep_id


def with_options(*jobs: dict[str, str]) -> str:
    """Return a report whose jobs ran together, each with these options."""
    report = json.loads(read_fio("07_json.out"))
    entry, common = report["jobs"][0], report.get("global options", {})
    report["jobs"] = [
        entry | {"jobname": f"job{number}", "job options": common | entry["job options"] | options}
        for number, options in enumerate(jobs)
    ]
    return json.dumps(report)


def test_what_ran_beside_is_identity_however_it_was_typed() -> None:
    for neighbor in ({"bs": "64k"}, {"bs": "65536"}, {"bs": "128k"}):
        submit(fio_output=with_options({"bs": "4k"}, neighbor))

    normalize_batch()

    beside = Series.objects.filter(block_size_bytes=4096)
    assert sorted(beside.values_list("measurement_count", flat=True)) == [1, 2]


def test_many_concurrent_workloads_have_a_short_description() -> None:
    submit(fio_output=with_options(*({"bs": str(512 * (number + 1))} for number in range(40))))

    normalize_batch()

    texts = {row.options["beside"] for row in Series.objects.all()}
    assert len(texts) == 1
    assert texts.pop().startswith("39 others of ")


def test_time_based_is_identity() -> None:
    for asked in ({"runtime": "60"}, {"runtime": "60", "time_based": "1"}):
        submit(fio_output=with_options(asked | {"time_based": asked.get("time_based", "0")}))

    normalize_batch()

    assert Series.objects.count() == 2


def test_results_before_and_after_a_move_to_a_pool_are_one_series() -> None:
    host = Host.objects.create(name="db-1")
    submit(host)
    normalize_batch()
    ids = set(Series.objects.values_list("pk", flat=True))
    # It waits while the host moves.
    submit(host)
    set_pool("db-1", "db")

    normalize_batch()
    list(renormalize(select_submissions(), is_dry_run=False))

    assert set(Series.objects.values_list("pk", flat=True)) == ids
    assert set(Series.objects.values_list("scope", "measurement_count")) == {("pool:db", 2)}


def test_document_that_is_no_longer_found_goes() -> None:
    submission_id = submit()
    normalize_batch()
    run = Run.objects.get()
    Run.objects.filter(pk=run.pk).update(document=1)

    Submission.objects.filter(pk=submission_id).update(state=State.RECEIVED, attempts=0)
    normalize_batch()

    assert list(Run.objects.values_list("document", flat=True)) == [0]
    assert set(Series.objects.values_list("measurement_count", flat=True)) == {1}


@pytest.mark.django_db(transaction=True)
def test_database_that_is_away_costs_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    submission_id = submit()

    def time_out(plans: Any) -> Any:
        raise OperationalError("canceling statement due to lock timeout")

    with monkeypatch.context() as patched:
        patched.setattr(normalize, "store_plans", time_out)
        for _ in range(ATTEMPTS_MAXIMUM + 1):
            with pytest.raises(OperationalError):
                normalize_batch()

    assert settled(submission_id).state == State.STORED


def test_runs_under_other_loads_share_their_environment() -> None:
    host = make_host()
    for load in (0.4, 7.5):
        submit(host, environment={"kernel": "6.1.0"}, conditions={"load_before": load})

    normalize_batch()

    assert Environment.objects.get().kernel == "6.1.0"
    assert sorted(run.command["conditions"]["load_before"] for run in Run.objects.all()) == ["0.4", "7.5"]
