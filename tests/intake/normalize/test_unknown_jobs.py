"""A result that does not tell the number of jobs: it is unknown everywhere, never 1."""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from django.db import connection
from django.test import Client

from benchapp import tasks
from benchapp.fio.report import Group
from benchapp.fio.workload import WorkloadSpec, read_workload
from benchapp.intake.normalize import plan
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import reparse_outdated
from benchapp.models import Change, Incident, Role, Run, Series
from tests.factories import NOON, calculate_levels
from tests.pages import Page
from tests.stories import at_time, silence_queue
from tests.test_targets_story import STEP, UNNAMED, make_outdated, make_report, submit
from tests.visitors import sign_in

pytestmark = pytest.mark.django_db
SDA, SDB = ({"filename": f"/dev/{name}"} for name in ("sda", "sdb"))


def post_runs(*iops: int, version: str = "fio-3.1", start: int = 0, **changes: Any) -> None:
    """Store a run for each IOPS; before 3.4 fio does not print numjobs of a job file's global section."""
    for run, each in enumerate(iops, start):
        submit(run, make_report(run, [(SDA, each)]).replace("fio-3.36", version), **changes)
    while normalize_batch().claimed:
        pass


@contextmanager
def counting_the_seen() -> Iterator[None]:
    """Store as before: the number of jobs seen for one that is unknown."""

    def read(group: Group) -> WorkloadSpec:
        spec = read_workload(group)
        return replace(spec, numjobs=spec.numjobs or 1)

    with mock.patch.object(plan, "read_workload", read), mock.patch.object(plan, "PARSER_VERSION", 9):
        yield


def read_again() -> None:
    make_outdated()
    while reparse_outdated():
        pass


def count_points() -> dict[int | None, int]:
    """Return the number of points by the number of jobs."""
    rows = Series.objects.filter(measurement_count__gt=0)
    return dict(rows.values_list("numjobs", "measurement_count"))


@pytest.fixture
def viewer() -> Client:
    return sign_in(Role.VIEWER)


def test_filter_and_api_have_it_as_unknown(viewer: Client) -> None:
    post_runs(100)
    post_runs(200, version="fio-3.36", start=1)

    def find(term: str) -> list[int | None]:
        rows = viewer.get("/api/v1/series", {"q": term}).json()["series"]
        return [row["numjobs"] for row in rows]

    assert (find("jobs:1"), find("jobs:unknown"), find("-jobs:1")) == ([1], [None], [None])
    assert (find("jobs:>=1"), find("-jobs:unknown")) == ([1], [1])


def test_exports_and_view_have_it_as_absent(viewer: Client) -> None:
    post_runs(100)

    points = viewer.get("/api/v1/points", {"fields": "numjobs,iodepth", "metrics": "iops", "format": "csv"})
    with connection.cursor() as cursor:
        cursor.execute("SELECT numjobs, iodepth FROM benchapp_v_series")
        rows = cursor.fetchall()

    text = b"".join(points.streaming_content).decode() if points.streaming else points.content.decode()
    assert list(csv.DictReader(io.StringIO(text))) == [{"numjobs": "", "iodepth": "4", "iops": "100"}]
    assert rows == [(None, 4)]


def test_no_page_says_one_job(viewer: Client) -> None:
    post_runs(100, 100, 100)
    calculate_levels()
    series = Series.objects.get()
    run = Run.objects.first()
    assert run is not None

    paths = {
        "/series/": "",
        f"/series/{series.pk}/": "QD 4",
        f"/runs/{run.pk}/": "iodepth × jobs4 × – unknown",
        f"/runs/{run.pk}/report/": "not reported: fio may have summed several jobs",
        "/runs/?from=-90d": "4 × –",
        "/matrix/": "",
        "/scaling/?x=numjobs": "unknown",
        "/history/": "",
        "/layouts/?iops=1&pattern=randread": "",
    }
    for path, words in paths.items():
        page = Page(viewer.get(path)).words
        assert words in page, path
        assert "1 job" not in page and "4 × 1" not in page, path


def test_title_and_neighbors_leave_it_out(viewer: Client) -> None:
    report = make_report(0, [(SDA, 100), (SDB, 100)], concurrent=True).replace("fio-3.36", "fio-3.1")
    submit(0, report)
    normalize_batch()

    series = Series.objects.first()
    assert series is not None
    assert series.options["beside"] == "randread 4096 iodepth 4 numjobs None × 1"
    page = Page(viewer.get(f"/series/{series.pk}/")).words
    assert "beside random read 4k, QD 4 (unknown number of jobs)" in page


def test_series_of_before_go_on_with_changes_and_triage(monkeypatch: pytest.MonkeyPatch) -> None:
    silence_queue(monkeypatch)
    with counting_the_seen():
        post_runs(*[500, 501, 499] * 10, *[200, 201, 199] * 4)
    with at_time(NOON + 43 * STEP):
        tasks.judge()
        before = Series.objects.get()
        assert before.numjobs == 1
        Incident.objects.update(verdict="real")
        changes = list(Change.objects.values_list("pk", "series", "state", "incident"))
        assert changes

        post_runs(200, start=42)
        read_again()
        tasks.judge()

    after = Series.objects.get()
    assert (after.pk, after.numjobs, after.measurement_count) == (before.pk, None, 43)
    assert list(Change.objects.values_list("pk", "series", "state", "incident")) == changes
    assert list(Incident.objects.values_list("verdict", flat=True)) == ["real"]


@pytest.mark.parametrize("first", ["fio-3.1", "fio-3.36"])
def test_series_that_mixed_both_keeps_what_is_known(first: str) -> None:
    second = "fio-3.36" if first == "fio-3.1" else "fio-3.1"
    with counting_the_seen():
        post_runs(100, 100, version=first)
        post_runs(100, 100, 100, version=second, start=2)
    mixed = Series.objects.get()

    read_again()

    hidden = 2 if first == "fio-3.1" else 3
    assert count_points() == {None: hidden, 1: 5 - hidden}
    assert Series.objects.get(numjobs=1).pk == mixed.pk


@pytest.mark.parametrize("version", ["fio-3.36", "fio-3.1"])
def test_result_without_it_does_not_take_a_series_of_one_job(version: str) -> None:
    def post_one_job(run: int) -> None:
        report = make_report(run, [(SDA | {"numjobs": "1"}, 100)]).replace("fio-3.36", version)
        submit(run, report)
        normalize_batch()

    post_one_job(0)
    known = Series.objects.get()

    post_runs(100, start=1)
    post_one_job(2)

    assert count_points() == {1: 2, None: 1}
    assert Series.objects.get(numjobs=1).pk == known.pk


def test_series_goes_on_with_name_and_number_at_once_and_under_former_names() -> None:
    with counting_the_seen():
        post_runs(100, target=UNNAMED | {"name": "scratch"})
    series = Series.objects.get()
    target = {"path": "/dev/sda", "device": {"kernel_name": "sda", "identifier": "wwn-1"}}
    with counting_the_seen():
        post_runs(100, start=1)
        unnamed = Series.objects.exclude(pk=series.pk).get()
        post_runs(100, start=2, targets=[target])
    assert (unnamed.target_name, Series.objects.get(pk=unnamed.pk).target_name) == ("sda", "wwn-1")

    # Sent by the older agent: the series has the newer name already.
    post_runs(100, start=3)
    post_runs(100, start=4, targets=[target])
    read_again()

    rows = Series.objects.order_by("pk").values_list("pk", "target_name", "numjobs", "measurement_count")
    assert list(rows) == [(series.pk, "scratch", None, 1), (unnamed.pk, "wwn-1", None, 4)]
