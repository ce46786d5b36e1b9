"""Reading history again: the same rows, the same ids, and a report of what changes."""

import io
from typing import Any

import msgspec
import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from benchapp import tasks
from benchapp.catalog.grammar import Filter
from benchapp.fio import PARSER_VERSION
from benchapp.intake.normalize import plan
from benchapp.intake.normalize import reparse as catch_up
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import (
    count_outdated,
    renormalize,
    reparse_outdated,
    select_submissions,
)
from benchapp.intake.posts.submissions import retry_rejected, retry_submission
from benchapp.management.commands import drain
from benchapp.models import Host, Measurement, Run, Series, State, Submission, Trace
from benchapp.series.read.series import list_series
from tests.envelopes import read_fio
from tests.factories import NOON
from tests.intake.normalize.test_batch import import_elsewhere, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def better_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the reader find twice the IOPS that it found before."""
    read_output = plan.read_output

    def read_better(text: bytes, **_: object) -> Any:
        report = read_output(text.replace(b"UNREADABLE", b""))
        return msgspec.structs.replace(
            report,
            documents=tuple(
                msgspec.structs.replace(
                    document,
                    groups=tuple(
                        msgspec.structs.replace(
                            group,
                            directions=tuple(
                                msgspec.structs.replace(one, iops=one.iops * 2 if one.iops else one.iops)
                                for one in group.directions
                            ),
                        )
                        for group in document.groups
                    ),
                )
                for document in report.documents
            ),
        )

    monkeypatch.setattr(plan, "read_output", read_better)


def run_command(*arguments: str) -> str:
    out = io.StringIO()
    call_command("renormalize", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_same_reader_changes_nothing() -> None:
    submit()
    normalize_batch()

    assert "changed: 0 values; 1 of 1 submissions unchanged" in run_command()


def test_values_are_replaced_and_ids_stay(request: pytest.FixtureRequest) -> None:
    submit()
    normalize_batch()
    run_id, before = Run.objects.get().pk, Measurement.objects.first().iops  # type: ignore[union-attr]
    request.getfixturevalue("better_reader")

    report = run_command()

    assert Run.objects.get().pk == run_id
    assert Measurement.objects.first().iops == before * 2  # type: ignore[union-attr]
    assert "IOPS" in report
    assert set(Series.objects.values_list("measurement_count", flat=True)) == {1}
    assert Host.objects.get().run_count == 1


def test_dry_run_reports_and_changes_nothing(request: pytest.FixtureRequest) -> None:
    submit()
    normalize_batch()
    before = list(Measurement.objects.values_list("id", "iops"))
    request.getfixturevalue("better_reader")

    report = run_command("--dry-run")

    assert "would change" in report
    assert list(Measurement.objects.values_list("id", "iops")) == before


@pytest.mark.parametrize(
    ("model", "before", "words"),
    [
        (Measurement, {"latency_kind": "lat"}, "read: changed: latency_kind lat → clat"),
        (
            Measurement,
            {"missing": {"latency_p99_ns": "few-samples"}},
            "changed: missing latency_p99_ns: few-samples → ",
        ),
        (Measurement, {"total_ios": 7}, "read: changed: total_ios 7 → 55629"),
        (Measurement, {"io_bytes": 8}, "read: changed: io_bytes 8 → 227856384"),
        (Measurement, {"runtime_s": 0.5}, "read: changed: runtime_s 0.5 → "),
        (Measurement, {"latency_stddev_ns": None}, "read: changed: latency_stddev_ns none → "),
        (Measurement, {"error": 5}, "read: changed: error 5 → 0"),
        (Measurement, {"percentiles": {"50": 1}}, "read: changed: percentiles 1 percentile → 17 percentiles"),
        (Run, {"error": 5}, "document 0: changed: error 5 → 0"),
        (Run, {"warnings": [{"code": "odd-text"}]}, "document 0: changed: warnings odd-text → none"),
        (Run, {"format": "terse"}, "document 0: changed: format terse → json"),
        (Run, {"started_at": NOON}, "document 0: changed: started_at 2026-11-21T12:00:00+00:00 → 20"),
    ],
)
def test_dry_run_reports_every_kind_of_change(model: Any, before: dict[str, Any], words: str) -> None:
    submit()
    normalize_batch()
    model.objects.update(**before)

    report = run_command("--dry-run")

    assert words in report
    assert "would change: 1 values; 0 of 1 submissions unchanged" in report


def test_dry_run_reports_removed_traces() -> None:
    submit()
    normalize_batch()
    Trace.objects.create(
        run=Run.objects.get(), kind="iops", direction="read", jobs=1, entries=9, bucket_s=1.0, buckets={}
    )

    assert "document 0: changed: traces iops read of 9 → none" in run_command("--dry-run")


def test_different_values_with_equal_descriptions_are_distinguished() -> None:
    submit()
    normalize_batch()
    row = Measurement.objects.get()
    Measurement.objects.update(percentiles={**row.percentiles, "99": 1})

    assert "changed: percentiles 17 percentiles → 17 percentiles, others" in run_command("--dry-run")


@pytest.mark.parametrize(("arguments", "would"), [((), "have"), (("--dry-run",), "would have")])
def test_series_that_loses_all_its_points_is_counted_and_leaves_the_lists(
    arguments: tuple[str, ...], would: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchapp.intake.normalize.reparse._BATCH_SIZE", 1)
    submit()
    submit()
    normalize_batch()
    old = Series.objects.get()
    Series.objects.update(key=b"as an older reader identified it")

    report = run_command(*arguments)

    assert f"series that {would} no points left and are removed from lists: 1" in report
    assert f"changed: series {old.pk} → " in report
    assert (old.pk in [series.id for series in list_series(Filter()).items]) is bool(arguments)


def test_rejected_submission_that_can_be_read_now_becomes_stored(request: pytest.FixtureRequest) -> None:
    submission_id = submit(fio_output="UNREADABLE".join(read_fio("07_json.out")))
    normalize_batch()
    assert Submission.objects.get(pk=submission_id).state == State.REJECTED
    request.getfixturevalue("better_reader")

    report = run_command("--rejected")

    assert "1 rejected ones now readable" in report
    assert Submission.objects.get(pk=submission_id).state == State.STORED
    assert Run.objects.count() == 1


def test_stored_submission_that_can_no_longer_be_read_keeps_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    submit()
    normalize_batch()

    def fail(text: bytes, **_: object) -> Any:
        raise plan.UnreadableOutput("worse", "a worse reader")

    monkeypatch.setattr(plan, "read_output", fail)
    (outcome,) = renormalize(select_submissions(), is_dry_run=False)

    assert [rejection.code for rejection in outcome.rejected] == ["worse"]
    assert Run.objects.count() == 1
    assert Submission.objects.get().state == State.STORED


def test_only_older_leaves_out_what_this_version_read() -> None:
    submit()
    normalize_batch()

    assert select_submissions(only_older=True) == []
    Submission.objects.update(parser_version=0)
    assert len(select_submissions(only_older=True)) == 1


def test_id_that_is_none_is_refused() -> None:
    with pytest.raises(CommandError, match="UUID"):
        run_command("seven")


def test_retry_gives_a_rejected_submission_another_chance() -> None:
    submission_id = submit(fio_output="nothing of fio")
    normalize_batch()
    row = Submission.objects.get(pk=submission_id)
    assert row.state == State.REJECTED

    assert retry_rejected("no-such-reason") == 0
    assert retry_submission(submission_id) is True
    assert retry_submission(submission_id) is False

    row.refresh_from_db()
    assert (row.state, row.attempts, row.reason_code) == (State.RECEIVED, 0, "")


OLDER = PARSER_VERSION - 1


def submit_older(count: int = 1) -> list[Submission]:
    """Store submissions as an older parser read them, an hour apart: with 7 I/Os, which is wrong."""
    ids = [submit() for _ in range(count)]
    while normalize_batch().claimed:
        pass
    Submission.objects.update(parser_version=OLDER)
    Run.objects.update(parser_version=OLDER)
    Measurement.objects.update(total_ios=7)
    return [Submission.objects.get(pk=submission_id) for submission_id in ids]


def list_versions() -> list[int | None]:
    return list(Submission.objects.order_by("received_at", "pk").values_list("parser_version", flat=True))


def test_older_reading_is_replaced_and_counts_no_attempt() -> None:
    submit_older()

    taken = (reparse_outdated(), reparse_outdated())

    row = Submission.objects.get()
    assert taken == (1, 0)
    assert (row.parser_version, row.attempts) == (PARSER_VERSION, 1)
    assert Run.objects.get().parser_version == PARSER_VERSION
    assert Measurement.objects.get().total_ios == 55629


def test_oldest_are_read_first_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "_OUTDATED_BATCH_SIZE", 2)
    submit_older(3)

    assert reparse_outdated() == 2
    assert sorted(version or 0 for version in list_versions()) == [OLDER, PARSER_VERSION, PARSER_VERSION]
    assert (reparse_outdated(), reparse_outdated()) == (1, 0)


def test_older_ones_are_counted_up_to_a_bound() -> None:
    submit_older(3)
    Submission.objects.filter(pk=Submission.objects.first().pk).update(body=None)  # type: ignore[union-attr]

    assert (count_outdated(limit=1), count_outdated(limit=1000)) == (1, 2)


def test_what_can_no_longer_be_read_keeps_its_runs_and_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    submit_older()

    def fail(text: bytes, **_: object) -> Any:
        raise plan.UnreadableOutput("worse", "a worse reader")

    monkeypatch.setattr(plan, "read_output", fail)

    assert (reparse_outdated(), reparse_outdated()) == (1, 0)
    assert Submission.objects.get().state == State.STORED
    assert Run.objects.get().parser_version == OLDER


def test_submission_that_the_database_rejects_is_retried_alone_and_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, bad = submit_older(2)
    renormalize = catch_up.renormalize
    sizes: list[int] = []

    def refuse(ids: Any, *, is_dry_run: bool) -> Any:
        sizes.append(len(ids))
        if bad.pk in ids:
            raise ValueError("a value that PostgreSQL will not take")
        return renormalize(ids, is_dry_run=is_dry_run)

    monkeypatch.setattr(catch_up, "renormalize", refuse)
    while reparse_outdated():
        pass

    assert (sizes[0], set(sizes[1:])) == (2, {1})
    assert list_versions() == [PARSER_VERSION, PARSER_VERSION]
    assert dict(Run.objects.values_list("submission_id", "parser_version")) == {
        good.pk: PARSER_VERSION,
        bad.pk: OLDER,
    }


def test_database_that_is_away_counts_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    submit_older()

    def fail(ids: Any, *, is_dry_run: bool) -> Any:
        raise OperationalError("canceling statement due to lock timeout")

    monkeypatch.setattr(catch_up, "renormalize", fail)
    monkeypatch.setattr(catch_up.connection, "close", lambda: None)
    with pytest.raises(OperationalError):
        reparse_outdated()

    assert Submission.objects.get().attempts == 1


@pytest.mark.django_db(transaction=True)
def test_stored_results_wait_while_an_archive_is_imported() -> None:
    (stored,) = submit_older()

    with import_elsewhere():
        assert reparse_outdated() == 0
        with pytest.raises(CommandError, match="an archive is being imported"):
            call_command("renormalize", stdout=io.StringIO(), stderr=io.StringIO())

    row = Submission.objects.get()
    assert (row.attempts, row.parser_version) == (stored.attempts, OLDER)
    assert reparse_outdated() == 1
    assert list_versions() == [PARSER_VERSION]


def test_task_reads_until_nothing_is_older() -> None:
    submit_older(3)

    tasks.renormalize()

    assert list_versions() == [PARSER_VERSION] * 3


def test_task_gives_way_to_what_is_fresh() -> None:
    submit_older()
    submit()

    tasks.renormalize()

    assert OLDER in list_versions()


def test_task_does_nothing_where_it_is_turned_off(settings: Any) -> None:
    settings.AUTO_RENORMALIZE = False
    submit_older()

    tasks.renormalize()

    assert list_versions() == [OLDER]


@pytest.mark.parametrize(("is_automatic", "version"), [(True, PARSER_VERSION), (False, OLDER)])
def test_loop_without_a_broker_does_it_when_it_has_nothing_else(
    is_automatic: bool, version: int, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.AUTO_RENORMALIZE = is_automatic
    submit_older()

    def stop(pause_s: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(drain.time, "sleep", stop)
    monkeypatch.setattr(drain, "close_old_connections", lambda: None)
    call_command("drain", "--loop", stdout=io.StringIO())

    assert list_versions() == [version]
