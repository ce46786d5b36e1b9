"""Dates that fio prints in text end the run, whether their time zone is given or assumed."""

from datetime import UTC, datetime

import pytest

from benchapp.accounts.write.tokens import issue_token
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.models import Run, Scope
from tests.envelopes import read_fio
from tests.factories import make_host
from tests.fio.text_report.texts import SUMMARY, make_text
from tests.intake.api.test_posts import post

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("query", [{}, {"time_zone": "UTC"}])
def test_run_ends_at_the_printed_date_and_began_its_run_time_before(query: dict[str, str]) -> None:
    token = issue_token(scope=Scope.INGEST, host=make_host("db-1"))[1]

    post(make_text(SUMMARY).encode(), token, "/api/v1/fio", query=query)
    normalize_batch()

    run = Run.objects.get()
    assert run.started_at == datetime(2022, 12, 21, 14, 55, 36, 999000, tzinfo=UTC)
    assert run.finished_at == datetime(2022, 12, 21, 14, 56, 37, tzinfo=UTC)


@pytest.mark.parametrize("is_appended", [True, False])
def test_terse_lines_have_the_date_of_the_text_of_their_run(is_appended: bool) -> None:
    token = issue_token(scope=Scope.INGEST, host=make_host("db-1"))[1]
    text = read_fio("10_normal_json_terse.out")
    lines = (text[: text.index("{\n")] + text[text.index("\n}\n") + 3 :]).splitlines(keepends=True)
    lines.sort(key=lambda line: line.startswith("3;") == is_appended)

    post("".join(lines).encode(), token, "/api/v1/fio")
    normalize_batch()

    run = Run.objects.get()
    assert run.format == "terse"
    assert run.started_at == datetime(2026, 11, 21, 7, 37, 15, 999000, tzinfo=UTC)
    assert run.finished_at == datetime(2026, 11, 21, 7, 37, 18, tzinfo=UTC)
    assert run.started_at_is_known
