"""Dates that fio prints in text end the run, whether their time zone is given or assumed."""

from datetime import UTC, datetime

import pytest

from benchapp.models import Run, Scope
from benchapp.pipeline.access.tokens import issue_token
from benchapp.pipeline.normalize.batch import normalize_batch
from tests.api.ingest.test_posts import post
from tests.factories import make_host
from tests.fio.text_report.texts import SUMMARY, make_text

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("query", [{}, {"time_zone": "UTC"}])
def test_run_ends_at_the_printed_date_and_began_its_run_time_before(query: dict[str, str]) -> None:
    token = issue_token(scope=Scope.INGEST, host=make_host("db-1"))[1]

    post(make_text(SUMMARY).encode(), token, "/api/v1/fio", query=query)
    normalize_batch()

    run = Run.objects.get()
    assert run.started_at == datetime(2022, 12, 21, 14, 55, 36, 999000, tzinfo=UTC)
    assert run.finished_at == datetime(2022, 12, 21, 14, 56, 37, tzinfo=UTC)
