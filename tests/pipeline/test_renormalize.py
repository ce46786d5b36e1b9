"""Reading history again: the same rows, the same ids, and a report of what changes."""

import io
from typing import Any

import msgspec
import pytest
from django.core.management import CommandError, call_command

from benchapp.models import Measurement, Run, Series, State, Submission
from benchapp.pipeline import plan
from benchapp.pipeline.normalize import normalize_batch
from benchapp.pipeline.renormalize import renormalize, select_submissions
from benchapp.pipeline.retry import retry_rejected, retry_submission
from tests.envelopes import read_fio
from tests.pipeline.test_normalize import submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def better_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the reader find twice the IOPS that it found before."""
    read_output = plan.read_output

    def read_better(text: bytes) -> Any:
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


def test_dry_run_reports_and_changes_nothing(request: pytest.FixtureRequest) -> None:
    submit()
    normalize_batch()
    before = list(Measurement.objects.values_list("id", "iops"))
    request.getfixturevalue("better_reader")

    report = run_command("--dry-run")

    assert "would change" in report
    assert list(Measurement.objects.values_list("id", "iops")) == before


def test_rejected_submission_that_can_be_read_now_becomes_stored(request: pytest.FixtureRequest) -> None:
    submission_id = submit(fio_output="UNREADABLE".join(read_fio("07_json.out")))
    normalize_batch()
    assert Submission.objects.get(pk=submission_id).state == State.REJECTED
    request.getfixturevalue("better_reader")

    report = run_command("--rejected")

    assert "1 rejected ones readable now" in report
    assert Submission.objects.get(pk=submission_id).state == State.STORED
    assert Run.objects.count() == 1


def test_stored_submission_that_can_no_longer_be_read_keeps_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    submit()
    normalize_batch()

    def fail(text: bytes) -> Any:
        raise plan.UnreadableOutput("worse", "a worse reader")

    monkeypatch.setattr(plan, "read_output", fail)
    (outcome,) = renormalize(select_submissions(), is_dry_run=False)

    assert [refusal.code for refusal in outcome.refused] == ["worse"]
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
