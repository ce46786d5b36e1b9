"""Admins delete runs, and restore them for 30 days."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone

from benchapp import tasks
from benchapp.corrections.rename import rename
from benchapp.corrections.write import CORRECTIONS, advance_corrections, remove_deleted_runs
from benchapp.framework.write.conflicts import BadValue
from benchapp.framework.write.list_entries import NotInThisState
from benchapp.incidents.actions.triage import comment
from benchapp.intake.normalize import plan
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import renormalize
from benchapp.judge import detect_and_notify
from benchapp.models import (
    AuditRecord,
    Correction,
    DeletedRun,
    Host,
    Incident,
    Level,
    Measurement,
    Run,
    Series,
    Submission,
)
from benchapp.series.write import exclude_run
from benchapp.storage.write.hosts import retire_host
from tests.envelopes import read_fio
from tests.intake.normalize.test_batch import submit
from tests.pages import Page

pytestmark = pytest.mark.django_db

STORED = ("id", "submission_id", "document", "host_id", "started_at", "profile", "error", "excluded_reason")


def post(minutes: int = 0, factor: float = 1.0, **changes: Any) -> UUID:
    """Post the result of a run that began so many minutes after 10:00; factor: of its rates."""
    report = json.loads(read_fio("07_json.out"))
    began_at = datetime(2026, 11, 1, 10, tzinfo=UTC) + timedelta(minutes=minutes)
    report |= {"timestamp": int(began_at.timestamp()), "timestamp_ms": int(began_at.timestamp() * 1000)}
    for job in report["jobs"]:
        job["job_start"] = report["timestamp_ms"]
        for name in ("iops", "bw_bytes", "total_ios", "io_bytes"):
            job["read"][name] = round(job["read"][name] * factor)
    return submit(fio_output=json.dumps(report), started_at=began_at.isoformat(), **changes)


def store(count: int = 1) -> list[UUID]:
    """Store runs of one workload, a minute apart."""
    ids = [post(minute) for minute in range(count)]
    normalize_batch()
    judge()
    return ids


def judge() -> None:
    while detect_and_notify().series_ids:
        pass


def delete(**which: Any) -> Correction:
    """Delete runs as the worker does, and return the deletion."""
    entry = CORRECTIONS.create(Correction(kind="deletion", reason="trial", **which), by=None)
    finish()
    entry.refresh_from_db()
    return entry


def finish() -> None:
    assert not advance_corrections(budget_s=60)
    judge()


def list_stored() -> list[dict[str, Any]]:
    """Return runs and values as pages read them, and what is derived from them."""
    return [
        *Run.objects.order_by("pk").values(*STORED),
        *Measurement.objects.order_by("run", "position").values("run", "series", "iops", "is_excluded"),
        *Series.objects.order_by("pk").values("pk", "measurement_count", "first_at", "last_at", "badges"),
        *Host.objects.order_by("pk").values("name", "run_count"),
        *Level.objects.order_by("series", "metric", "from_at").values(
            "series", "metric", "n", "median", "from_at", "to_at"
        ),
    ]


def test_deleted_runs_are_in_no_value_and_restored_ones_in_all() -> None:
    store(6)
    first, second, *rest = Run.objects.order_by("started_at")
    exclude_run(second.pk, None, reason="a backup ran")
    judge()
    before = list_stored()

    deletion = delete(run_ids=[first.pk, second.pk])

    assert (deletion.state, deletion.done_count) == ("applied", 2)
    assert set(Run.objects.values_list("pk", flat=True)) == {run.pk for run in rest}
    assert set(Series.objects.values_list("measurement_count", "first_at")) == {(4, rest[0].started_at)}
    assert set(Level.objects.values_list("n", flat=True)) == {4}
    assert Host.objects.get().run_count == 4
    CORRECTIONS.cancel(deletion.pk, by=None)
    finish()
    deletion.refresh_from_db()
    assert (deletion.state, list_stored()) == ("undone", before)


def test_series_without_runs_leave_lists_and_pages(admin: Client) -> None:
    store(3)
    series = Series.objects.first()
    assert series is not None
    delete(filter="host:db-1")

    assert not Level.objects.exists()
    assert admin.get("/api/v1/series").json()["series"] == []
    for address in (
        "/",
        "/hosts/",
        "/hosts/db-1/",
        "/series/",
        "/scaling/",
        "/matrix/",
    ):
        assert admin.get(address).status_code == 200, address
    gone = admin.get(f"/series/{series.pk}/")
    assert (gone.status_code, "has no measurements" in gone.content.decode()) == (404, True)


def test_incident_is_resolved_with_the_runs_that_show_it_and_open_with_them() -> None:
    for number in range(42):
        post(60 * number, (1.0 if number < 30 else 0.7) * (1 + (7 * number % 5 - 2) / 200))
    normalize_batch()
    judge()
    incident = Incident.objects.get()
    assert (incident.title, incident.is_open) == ("db-1: IOPS −30 % in 1 series", True)
    comment(incident.pk, by=None, text="a loose cable")
    bad = list(Run.objects.order_by("-started_at").values_list("pk", flat=True)[:12])

    deletion = delete(run_ids=bad)

    incident.refresh_from_db()
    assert not incident.is_open
    CORRECTIONS.cancel(deletion.pk, by=None)
    finish()
    incident.refresh_from_db()
    assert incident.is_open
    assert incident.events.filter(text="a loose cable").exists()


def test_filter_and_time_range_name_the_runs_and_later_ones_stay() -> None:
    store(4)
    third = Run.objects.order_by("started_at")[2]
    entry = CORRECTIONS.create(
        Correction(kind="deletion", filter="host:db-1", to_at=third.started_at, reason="trial"), by=None
    )
    late = post(3)
    normalize_batch()

    finish()

    entry.refresh_from_db()
    assert (entry.run_count, entry.done_count, Run.objects.count()) == (2, 2, 3)
    assert Run.objects.filter(submission=late).exists()


def test_reading_history_again_leaves_deleted_runs_out() -> None:
    ids = store(2)
    delete(run_ids=[Run.objects.earliest("started_at").pk])

    list(renormalize(ids, is_dry_run=False))

    assert (Run.objects.count(), Host.objects.get().run_count) == (1, 1)


def test_same_result_posted_again_stays_deleted() -> None:
    (one,) = store()
    body = bytes(Submission.objects.get(pk=one).digest)
    delete(filter="host:db-1")

    post(id=str(one))
    normalize_batch()

    assert bytes(Submission.objects.get(pk=one).digest) == body
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("which", "text"),
    [
        ({}, "say which runs: a filter, a time range, or ids of runs"),
        ({"filter": "host:db-9"}, "no run matches"),
        ({"filter": "rw:"}, "rw: has no value"),
        ({"run_ids": [1], "filter": "host:db-1"}, "give either ids of runs, or a filter and a time range"),
        ({"run_ids": [2**62]}, f"run {2**62} does not exist"),
    ],
)
def test_selection_without_a_meaning_is_refused(which: dict[str, Any], text: str) -> None:
    store()
    with pytest.raises(BadValue) as refused:
        CORRECTIONS.create(Correction(kind="deletion", reason="trial", **which), by=None)

    assert text in str(refused.value)
    assert (Run.objects.count(), Correction.objects.count()) == (1, 0)


def test_after_thirty_days_runs_and_raw_output_are_gone_for_good() -> None:
    store(2)
    first, second = Run.objects.order_by("started_at")
    old, young = delete(run_ids=[first.pk]), delete(run_ids=[second.pk])
    Correction.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=31))

    assert remove_deleted_runs() == 1
    assert remove_deleted_runs() == 0

    old.refresh_from_db()
    assert (old.state, young.state) == ("final", "applied")
    assert list(Submission.objects.values_list("pk", flat=True)) == [second.submission_id]
    with pytest.raises(NotInThisState, match="deleted for good"):
        CORRECTIONS.cancel(old.pk, by=None)


def test_retired_host_is_removed_with_its_last_run() -> None:
    store(2)
    submit(fio_output="no report")
    normalize_batch()
    first, second = Run.objects.order_by("started_at").values_list("pk", flat=True)
    deletions = [delete(run_ids=[first]), delete(run_ids=[second])]

    for deletion in deletions:
        retire_host("db-1")
        assert Host.objects.exists()
        Correction.objects.filter(pk=deletion.pk).update(created_at=timezone.now() - timedelta(days=31))
        remove_deleted_runs()

    assert not Host.objects.exists()
    assert not Series.objects.exists()
    assert not Submission.objects.exists()
    assert AuditRecord.objects.latest("pk").action == "removed"


def test_raw_output_stays_with_the_last_run_that_it_has() -> None:
    (one,) = store()
    run = Run.objects.get()
    second = Run.objects.get()
    second.pk, second.document = None, 1
    second.save()
    deletion = delete(run_ids=[run.pk])
    Correction.objects.filter(pk=deletion.pk).update(created_at=timezone.now() - timedelta(days=31))

    remove_deleted_runs()

    assert Submission.objects.filter(pk=one).exists()
    assert DeletedRun.objects.get().row == {}
    second.refresh_from_db()


def test_runs_whose_results_are_rejected_today_stay_deleted_and_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store(2)
    deletion = delete(filter="host:db-1")
    read_output = plan.read_output

    def read(text: bytes, **options: Any) -> Any:
        if b'"timestamp": 1793527200' in text:
            raise plan.UnreadableOutput("worse", "a worse reader")
        return read_output(text, **options)

    monkeypatch.setattr(plan, "read_output", read)
    CORRECTIONS.cancel(deletion.pk, by=None)
    finish()

    deletion.refresh_from_db()
    assert (deletion.unreadable_count, Run.objects.count(), DeletedRun.objects.count()) == (1, 1, 1)


def test_worker_deletes_and_the_sweep_finds_what_lost_its_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    store()
    CORRECTIONS.create(Correction(kind="deletion", filter="host:db-1", reason="trial"), by=None)
    hints: list[str] = []
    monkeypatch.setattr(tasks.correct_runs, "delay_on_commit", lambda: hints.append("correct"))

    tasks.sweep()
    tasks.correct_runs()

    assert (hints, Run.objects.exists()) == (["correct"], False)


def test_page_shows_the_effect_before_it_deletes(admin: Client) -> None:
    store(3)
    runs = list(Run.objects.order_by("started_at").values_list("pk", flat=True))

    answer = admin.get("/corrections/delete", {"selected": runs[:2]})
    preview = Page(answer)

    assert "Delete 2 runs?" in preview.words
    assert "Affects 1 series on 1 host." in preview.words
    given = {"run_ids": f"{runs[0]},{runs[1]}", "zone": "UTC", "reason": "trial", "apply": "yes"}
    assert (
        "Runs or values differ from the preview"
        in Page(admin.post("/corrections/delete", {**given, "seen": "3"})).words
    )
    assert not Correction.objects.exists()
    done = admin.post("/corrections/delete", {**given, "seen": answer.context["seen"]})
    deletion = Correction.objects.get()
    assert done["Location"] == f"/corrections/{deletion.pk}/"
    assert "0 of 2 runs deleted" in Page(admin.get(done["Location"])).words
    finish()
    assert "2 runs deleted" in Page(admin.get("/corrections/")).words
    missing = admin.get(f"/runs/{runs[0]}/")
    assert (missing.status_code, "was deleted: trial." in missing.content.decode()) == (404, True)
    assert "was deleted: trial" in admin.get(f"/api/v1/runs/{runs[0]}").json()["detail"]
    admin.post(f"/corrections/{deletion.pk}/cancel")
    finish()
    assert "2 runs restored" in Page(admin.get(f"/corrections/{deletion.pk}/")).words
    assert admin.get(f"/runs/{runs[0]}/").status_code == 200


def test_page_of_runs_leads_admins_to_the_preview(admin: Client, viewer: Client) -> None:
    store()

    page = admin.get("/runs/", {"q": "host:db-1", "from": "2026-10-01"}).content.decode()

    assert "/corrections/delete?q=host%3Adb-1&amp;from=2026-10-01" in page
    assert "/corrections/delete" not in viewer.get("/runs/").content.decode()
    preview = Page(admin.get("/corrections/delete", {"q": "host:db-1", "from": "2026-11-02"}))
    assert "No run matches." in preview.words


def test_api_previews_deletes_and_restores(admin: Client) -> None:
    store(2)
    body = {"kind": "deletion", "filter": "host:db-1", "reason": "trial"}

    effect = admin.post("/api/v1/corrections", {**body, "dry_run": True}, content_type="application/json")
    made = admin.post("/api/v1/corrections", body, content_type="application/json")
    finish()

    assert (effect.status_code, effect.json()["runs"], effect.json()["emptied"]) == (200, 2, 1)
    address = made.json()["url"]
    assert (made.status_code, made.json()["state"]) == (201, "applying")
    assert admin.get(address).json()["state"] == "applied"
    assert admin.delete(address).status_code == 204
    finish()
    answer = admin.get(address).json()
    assert (answer["state"], [each["action"] for each in answer["activity"]]) == (
        "undone",
        ["created", "canceled"],
    )
    assert [record.action for record in AuditRecord.objects.filter(kind="correction").order_by("pk")] == [
        "created",
        "canceled",
    ]


def test_values_of_deleted_or_excluded_runs_alone_leave_filters(admin: Client) -> None:
    for number, rack in enumerate(("r1", "r2", "r3")):
        post(number, labels={"rack": rack})
    normalize_batch()

    def list_values(name: str) -> list[Any]:
        return [row["value"] for row in admin.get(f"/api/v1/dimensions/{name}/values").json()["values"]]

    first, second, _ = Run.objects.order_by("started_at")
    assert set(list_values("label.rack")) == {"r1", "r2", "r3"}
    delete(run_ids=[first.pk])
    exclude_run(second.pk, None, reason="a backup ran")

    assert list_values("label.rack") == ["r3"]
    delete(filter="host:db-1")
    assert (list_values("host"), list_values("label.rack"), list_values("kernel")) == ([], [], [])


def test_batches_of_a_deletion_do_not_select_again() -> None:
    store(3)
    entry = CORRECTIONS.create(Correction(kind="deletion", filter="host:db-1", reason="trial"), by=None)
    rename("host:db-1", "web-1")

    finish()

    entry.refresh_from_db()
    assert (entry.done_count, Run.objects.count()) == (3, 0)


def test_forget_removes_what_is_over() -> None:
    store()
    deletion = delete(filter="host:db-1")
    Correction.objects.filter(pk=deletion.pk).update(created_at=timezone.now() - timedelta(days=31))

    tasks.forget()

    assert not Submission.objects.exists()
    assert Correction.objects.get().run_count == 1
