"""The environments of series are those of their runs, also after submissions are parsed again."""

import json
from datetime import UTC, datetime

import msgspec
import pytest

from benchapp.intake.normalize import plan
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import renormalize
from benchapp.intake.normalize.series_lookup import recalculate_environments
from benchapp.models import Series, SeriesEnvironment, Submission
from tests.envelopes import read_fio
from tests.intake.normalize.test_batch import submit

pytestmark = pytest.mark.django_db


def read_stored() -> list[tuple[str | None, datetime, datetime]]:
    rows = SeriesEnvironment.objects.order_by("first_at", "environment__kernel").distinct()
    return list(rows.values_list("environment__kernel", "first_at", "last_at").distinct())


def at(day: int) -> datetime:
    return datetime(2026, 11, day, 10, tzinfo=UTC)


def submit_in(kernel: str, *, day: int) -> None:
    output = json.loads(read_fio("07_json.out"))
    moment = int(at(day).timestamp())
    output |= {"timestamp": moment, "timestamp_ms": moment * 1000}
    for job in output["jobs"]:
        job["job_start"] = moment * 1000
    submit(environment={"kernel": kernel}, fio_output=json.dumps(output))


def test_environments_of_a_series_are_kept_with_their_first_and_last_run() -> None:
    submit_in("5.15.0", day=12)
    submit_in("5.15.0", day=11)
    normalize_batch()
    submit_in("6.1.0", day=14)
    submit_in("5.15.0", day=10)
    normalize_batch()

    assert read_stored() == [("5.15.0", at(10), at(12)), ("6.1.0", at(14), at(14))]


def test_recalculated_environments_are_the_same() -> None:
    submit_in("5.15.0", day=11)
    submit_in("6.1.0", day=14)
    normalize_batch()
    before = read_stored()

    recalculate_environments(Series.objects.values_list("pk", flat=True))

    assert read_stored() == before


def test_environment_that_no_run_has_after_parsing_again_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    submit_in("6.1.0", day=14)
    normalize_batch()
    read_output = plan.read_output

    def read_newer(text: bytes, **_: object) -> object:
        report = read_output(text)
        documents = tuple(
            msgspec.structs.replace(document, fio_version="fio-9.9") for document in report.documents
        )
        return msgspec.structs.replace(report, documents=documents)

    monkeypatch.setattr(plan, "read_output", read_newer)
    list(renormalize(list(Submission.objects.values_list("pk", flat=True)), is_dry_run=False))

    stored = SeriesEnvironment.objects.values_list("environment__fio_version", flat=True)
    assert set(stored) == {"fio-9.9"}
    assert stored.count() == Series.objects.count()
