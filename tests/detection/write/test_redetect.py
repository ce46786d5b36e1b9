"""The command redetect and its report."""

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from benchapp.models import Change, Incident, IncidentEvent, Notice
from tests.detection.write.judging import judge_all, make_cells, make_level
from tests.factories import NOON, make_host

pytestmark = pytest.mark.django_db


def redetect(*arguments: str) -> list[str]:
    output = io.StringIO()
    call_command("redetect", *arguments, stdout=output, stderr=io.StringIO())
    return output.getvalue().splitlines()


def make_two_hosts() -> None:
    for name in ("db-1", "web-1"):
        make_cells(make_host(name), [make_level(1000.0, 24) + make_level(800.0, 8)])


def test_dry_run_reports_and_changes_nothing() -> None:
    make_two_hosts()

    lines = redetect("--dry-run")

    assert len(lines) == 3
    assert lines[0].endswith("IOPS -20.0% from 22 Nov 2026 12:00 UTC: new → confirmed")
    assert lines[2].startswith(
        "would change: 2 new; 0 changes before, 2 after, 2 incidents changed; 2 series"
    )
    assert not Change.objects.exists()
    assert not Incident.objects.exists()


def test_only_filtered_series_are_evaluated_without_notices() -> None:
    make_two_hosts()

    lines = redetect("host:db-*")

    assert lines[-1].startswith("changed: 1 new; 0 changes before, 1 after")
    assert Change.objects.get().series.scope == "host:db-1"
    assert IncidentEvent.objects.filter(kind="opened").count() == 1
    assert not Notice.objects.exists()


def test_second_redetection_reports_nothing() -> None:
    make_two_hosts()
    judge_all()

    assert redetect() == [
        "changed: nothing; 2 changes before, 2 after, 0 incidents changed; 2 series checked with changepoints-v2"
    ]


def test_change_that_is_not_detected_any_more_is_reported_as_withdrawn() -> None:
    make_two_hosts()
    judge_all()
    Change.objects.filter(series__scope="host:db-1").update(started_at=NOON + timedelta(hours=9), run=None)

    lines = redetect("host:db-1")

    assert [line.partition("UTC: ")[2] for line in lines[:2]] == ["confirmed → withdrawn", "new → confirmed"]


def test_invalid_filter_is_reported() -> None:
    with pytest.raises(CommandError, match="is not a valid size"):
        redetect("bs:nonsense")
