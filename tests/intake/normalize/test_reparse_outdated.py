"""What an older parser read is read again in the background, the oldest first, and never fresh results behind it."""

import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from benchapp import tasks
from benchapp.fio import PARSER_VERSION
from benchapp.intake.normalize import plan
from benchapp.intake.normalize import reparse as catch_up
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import count_outdated, reparse_outdated
from benchapp.management.commands import drain
from benchapp.models import Measurement, Run, State, Submission
from tests.intake.normalize.test_batch import import_elsewhere, submit

pytestmark = pytest.mark.django_db
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
