"""Editors correct what senders stated: series are joined again, changes and triage stay, undo brings all back."""

import gzip
import json
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client

from benchapp import tasks
from benchapp.corrections import write
from benchapp.corrections.write import CORRECTIONS, advance_corrections, preview_correction
from benchapp.framework.write.conflicts import BadValue
from benchapp.incidents.actions.triage import acknowledge
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import renormalize, select_submissions
from benchapp.intake.posts.envelope import read_parameters
from benchapp.intake.posts.submissions import IncomingSubmission, accept_submission
from benchapp.models import (
    AuditRecord,
    Change,
    Correction,
    Host,
    Incident,
    Kind,
    Notice,
    RelabeledRun,
    Role,
    Run,
    Series,
    Submission,
    Subscription,
)
from benchapp.models.measurement import describe_branch
from tests.corrections.test_corrections import list_stored
from tests.envelopes import make_envelope
from tests.factories import NOON, make_user
from tests.pages import Page
from tests.reported import ID, make_reported_run, pack_reported
from tests.stories import at_time, silence_queue
from tests.test_targets_story import STEP, make_report, submit

pytestmark = pytest.mark.django_db

GP2, GP3 = ({"volume_type": name, "volume_count": 4} for name in ("gp2", "gp3"))
# What is stored beside the measurements, computed again from them.
FAULTS = {
    "count of a series": (
        "SELECT s.id FROM benchapp_series s LEFT JOIN benchapp_measurement m ON m.series_id = s.id GROUP BY s.id"
        " HAVING count(m.id) <> s.measurement_count OR min(m.started_at) IS DISTINCT FROM s.first_at"
        " OR max(m.started_at) IS DISTINCT FROM s.last_at"
    ),
    "layout of a series": (
        "SELECT m.id FROM benchapp_measurement m JOIN benchapp_series s ON s.id = m.series_id"
        " JOIN benchapp_run r ON r.id = m.run_id JOIN benchapp_target t ON t.id = r.target_id"
        " WHERE (s.volume_type, s.volume_count, s.target_name) IS DISTINCT FROM"
        " (t.volume_type, t.volume_count, t.target_name)"
    ),
    "count of a host": (
        "SELECT h.id FROM benchapp_host h LEFT JOIN benchapp_run r ON r.host_id = h.id GROUP BY h.id"
        " HAVING count(r.id) <> h.run_count"
    ),
    "median of a level": (
        "SELECT l.id FROM benchapp_level l JOIN LATERAL ("
        "  SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY m.iops) AS median, count(*) FROM benchapp_measurement m"
        "  WHERE m.series_id = l.series_id AND m.error = 0 AND m.started_at BETWEEN l.from_at AND l.to_at) own ON TRUE"
        " WHERE l.metric = 'iops' AND (abs(l.median - own.median) > 0.001 OR l.n <> own.count)"
    ),
    "change without its run": (
        "SELECT c.id FROM benchapp_change c WHERE c.state <> 'withdrawn' AND NOT EXISTS ("
        " SELECT FROM benchapp_measurement m WHERE m.series_id = c.series_id AND m.run_id = c.run_id)"
    ),
    "due series": "SELECT id FROM benchapp_series WHERE judging_is_due",
    "result to read again": "SELECT id FROM benchapp_submission WHERE parser_version = 0",
}


def find_faults() -> dict[str, list[Any]]:
    """Return what does not agree with the measurements, by plain SQL."""
    faults = {}
    with connection.cursor() as cursor:
        for name, query in FAULTS.items():
            cursor.execute(query)
            faults[name] = [row[0] for row in cursor.fetchall()]
    return {name: rows for name, rows in faults.items() if rows}


def list_filled() -> list[dict[str, Any]]:
    """Return what is stored; a series that was made and emptied again keeps its row."""
    return [row for row in list_stored() if row.get("measurement_count") != 0]


def post_runs(runs: range, *, iops: int = 500, host: str = "db-1", **changes: Any) -> None:
    for run in runs:
        submit(run, make_report(run, [({"filename": "/dev/sda"}, iops + run % 5 - 2)]), host, **changes)
    while normalize_batch().claimed:
        pass


def relabel(changes: dict[str, Any], **which: Any) -> Correction:
    """Relabel runs as the worker does, and return the correction."""
    entry = CORRECTIONS.create(
        Correction(kind="relabeling", changes=changes, reason="typing error", **which), by=None
    )
    finish()
    entry.refresh_from_db()
    return entry


def finish() -> None:
    assert not advance_corrections(budget_s=60)
    tasks.judge()


def undo(entry: Correction) -> None:
    CORRECTIONS.cancel(entry.pk, by=None)
    finish()
    entry.refresh_from_db()


def count_types() -> dict[tuple[str, str | None], int]:
    """Return the measurements of each host and volume type, by its series."""
    rows = Series.objects.filter(measurement_count__gt=0)
    return {
        (scope, kind): count
        for scope, kind, count in rows.values_list("scope", "volume_type", "measurement_count")
    }


def list_changes() -> set[tuple[int, str, int | None]]:
    return set(Change.objects.exclude(state="withdrawn").values_list("pk", "state", "incident"))


def plant_fleet() -> None:
    """Store runs of three hosts; a cron job of db-1 stated gp2 instead of gp3 from run 16 on; it drops at run 36."""
    post_runs(range(16), target=GP3)
    post_runs(range(16, 36), target=GP2)
    post_runs(range(36, 48), iops=250, target=GP2)
    post_runs(range(12), host="db-2", target=GP2)
    post_runs(range(12), host="db-3", target=GP3)


def test_series_is_joined_with_its_changes_and_triage_and_undo_brings_all_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silence_queue(monkeypatch)
    Subscription.objects.create(owner=make_user(), channel="webhook", address="http://127.0.0.1:9/")
    plant_fleet()
    with at_time(NOON + 48 * STEP):
        tasks.judge()
        incident = Incident.objects.get()
        acknowledge(incident.pk, by=make_user(Role.EDITOR))
        before, changes, notices = list_filled(), list_changes(), Notice.objects.count()
        assert changes and not find_faults()
        typo = {"filter": "host:db-1 volume_type:gp2"}

        effect = preview_correction(Correction(kind="relabeling", changes={"volume_type": "gp3"}, **typo))
        assert (effect.runs, effect.hosts, effect.series, effect.emptied) == (32, 1, 1, 1)
        assert effect.incidents == ((incident.pk, incident.title),)
        assert effect.values["volume_type"] == {"gp2": 32}
        assert effect.reread is not None
        assert (effect.reread.series_before, effect.reread.series_after, effect.reread.joined) == (2, 1, 2)
        assert [(each.before, each.after, each.measurements) for each in effect.reread.targets] == [
            ("sda: 4 × gp2", "sda: 4 × gp3", 32)
        ]
        assert (list_filled(), Correction.objects.count(), find_faults()) == (before, 0, {})

        correction = relabel({"volume_type": "gp3"}, **typo)
        assert (correction.state, correction.done_count, correction.unreadable_count) == ("applied", 32, 0)
        assert count_types() == {
            ("host:db-1", "gp3"): 48,
            ("host:db-2", "gp2"): 12,
            ("host:db-3", "gp3"): 12,
        }
        assert (list_changes(), find_faults()) == (changes, {})
        incident.refresh_from_db()
        assert (Incident.objects.count(), incident.state) == (1, "acknowledged")

        # Results that are posted and history that is read again later.
        list(renormalize(select_submissions(), is_dry_run=False))
        tasks.judge()
        assert count_types()["host:db-1", "gp3"] == 48
        assert (list_changes(), find_faults()) == (changes, {})

        undo(correction)
        incident.refresh_from_db()

    assert (correction.state, correction.done_count) == ("undone", 32)
    assert list_filled() == before
    assert (list_changes(), find_faults(), Notice.objects.count()) == (changes, {}, notices)
    assert (Incident.objects.count(), incident.state) == (1, "acknowledged")
    assert not Run.objects.filter(stated__isnull=False).exists()


def test_part_of_a_series_is_split_with_the_change_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    silence_queue(monkeypatch)
    post_runs(range(20), target=GP3)
    post_runs(range(20, 32), iops=250, target=GP3)
    with at_time(NOON + 32 * STEP):
        tasks.judge()
        changed = Change.objects.filter(metric="iops").get()
        last = list(Run.objects.order_by("-started_at").values_list("pk", flat=True)[:20])

        effect = preview_correction(
            Correction(kind="relabeling", changes={"volume_type": "io2"}, run_ids=last)
        )
        correction = relabel({"volume_type": "io2"}, run_ids=last)
        split, moved = count_types(), Change.objects.get(pk=changed.pk).series.volume_type
        undo(correction)

    assert effect.reread is not None
    assert (effect.reread.series_before, effect.reread.series_after, effect.reread.split) == (1, 2, 1)
    assert split == {("host:db-1", "gp3"): 12, ("host:db-1", "io2"): 20}
    assert moved == "io2"
    assert count_types() == {("host:db-1", "gp3"): 32}
    assert (Change.objects.get(pk=changed.pk).series.volume_type, find_faults()) == ("gp3", {})


def test_every_field_of_a_post_can_be_corrected_or_unknown() -> None:
    post_runs(range(3), target={**GP2, "name": "data"}, labels={"rack": "r1", "shelf": "3"}, profile="quick")

    relabel(
        {
            "name": "scratch",
            "volume_count": "8",
            "volume_size_bytes": "500GiB",
            "provisioned_iops": "16k",
            "raid_level": "RAID0",
            "volume_type": None,
            "profile": "nightly",
            "kernel": "6.8",
            "label.rack": "r2",
            "label.shelf": None,
            "label.owner": "anna",
        },
        filter="host:db-1",
    )

    run = Run.objects.select_related("target", "environment").latest("started_at")
    assert (run.target.target_name, run.target.volume_count, run.target.volume_type) == ("scratch", 8, None)
    assert (run.target.volume_size_bytes, run.target.provisioned_iops) == (500 * 2**30, 16_000)
    assert (run.target.raid_level, run.profile, run.environment.kernel) == ("raid0", "nightly", "6.8")
    assert run.labels == {"rack": "r2", "owner": "anna"}
    assert Series.objects.get(measurement_count=3).target_name == "scratch"
    assert {name: run.stated[name] for name in ("name", "volume_type", "label.rack", "label.owner")} == {
        "name": "data",
        "volume_type": "gp2",
        "label.rack": "r1",
        "label.owner": None,
    }


def test_later_correction_wins_and_the_earlier_one_comes_back() -> None:
    post_runs(range(3), target=GP2)
    first = relabel({"volume_type": "gp3", "volume_count": 8}, filter="host:db-1")
    second = relabel({"volume_type": "io2"}, filter="host:db-1")

    assert count_types() == {("host:db-1", "io2"): 3}
    undo(second)
    assert count_types() == {("host:db-1", "gp3"): 3}
    CORRECTIONS.restore(second.pk, by=None)
    finish()
    undo(first)
    assert count_types() == {("host:db-1", "io2"): 3}
    assert set(Run.objects.values_list("target__volume_count", flat=True)) == {4}


def test_what_the_agent_found_gives_way_to_the_correction() -> None:
    entries = [
        {
            "path": f"/dev/{name}",
            "device": {"kernel_name": name, "identifier": f"nvme-{name}"},
            "layout": {"volume_type": "nvme", "volume_count": 1},
        }
        for name in ("sda", "sdb")
    ]
    jobs = [({"filename": "/dev/sda"}, 500), ({"filename": "/dev/sda:/dev/sdb"}, 900)]
    submit(0, make_report(0, jobs), target={"volume_type": "nvme", "volume_count": 1}, targets=entries)
    normalize_batch()
    assert set(Series.objects.values_list("volume_type", "volume_count")) == {("nvme", 1), ("nvme", 2)}

    relabel({"volume_type": "io2"}, filter="host:db-1")

    stored = Series.objects.filter(measurement_count__gt=0)
    assert set(stored.values_list("volume_type", "volume_count")) == {("io2", 1), ("io2", 2)}


def test_plain_outputs_and_published_runs_are_corrected_one_by_one() -> None:
    host = Host.objects.create(name="db-1")
    runs = [make_reported_run(), make_reported_run(started_at="2013-04-02T00:00:00Z")]
    accept_submission(IncomingSubmission(host.pk, Kind.REPORTED, pack_reported(runs=runs), UUID(ID)))
    parameters = read_parameters([("volume_type", "standart"), ("label.rack", "r1")])
    report = make_report(0, [({"filename": "/dev/sda"}, 500)]).encode()
    accept_submission(IncomingSubmission(host.pk, Kind.FIO, report, parameters=parameters))
    normalize_batch()
    published = Run.objects.filter(format="reported").order_by("started_at")

    relabel({"volume_type": "standard", "label.rack": "r2"}, filter="volume_type:standart")
    relabel({"volume_count": 2, "label.study": "2"}, run_ids=[published[1].pk])

    assert Run.objects.get(labels__rack="r2").target.volume_type == "standard"
    assert list(published.values_list("target__volume_count", "labels__study")) == [(4, "1"), (2, "2")]
    assert (published[0].stated, published[1].stated) == (None, {"volume_count": 4, "label.study": "1"})
    assert not find_faults()


def test_deleted_run_is_restored_with_its_correction() -> None:
    post_runs(range(4), target=GP2)
    first = Run.objects.earliest("started_at")
    relabeling = relabel({"volume_type": "gp3"}, filter="host:db-1")
    deletion = CORRECTIONS.create(Correction(kind="deletion", run_ids=[first.pk], reason="trial"), by=None)
    finish()
    undo(relabeling)
    assert count_types() == {("host:db-1", "gp2"): 3}
    CORRECTIONS.restore(relabeling.pk, by=None)
    finish()

    undo(deletion)

    assert count_types() == {("host:db-1", "gp3"): 4}
    assert (Run.objects.get(pk=first.pk).stated, find_faults()) == ({"volume_type": "gp2"}, {})


def test_results_that_cannot_be_read_today_are_counted_and_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    post_runs(range(4), target=GP2)
    first, second, *_ = Submission.objects.order_by("received_at").values_list("pk", flat=True)
    Submission.objects.filter(pk=first).update(body=None)
    Submission.objects.filter(pk=second).update(body=gzip.compress(b"not a result any more", mtime=0))

    effect = preview_correction(
        Correction(kind="relabeling", changes={"volume_type": "gp3"}, filter="host:db-1")
    )
    correction = relabel({"volume_type": "gp3"}, filter="host:db-1")

    assert effect.reread is not None
    assert (effect.reread.looked_at, effect.reread.unreadable) == (2, 2)
    assert (correction.state, correction.done_count, correction.unreadable_count) == ("applied", 4, 2)
    assert count_types() == {("host:db-1", "gp2"): 2, ("host:db-1", "gp3"): 2}
    assert not find_faults()


def test_detection_waits_and_later_results_keep_what_their_sender_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silence_queue(monkeypatch)
    monkeypatch.setattr(write, "_RUNS_AT_ONCE", 2)
    post_runs(range(5), target=GP2)
    entry = Correction(
        kind="relabeling", changes={"volume_type": "gp3"}, filter="host:db-1", reason="typing error"
    )
    CORRECTIONS.create(entry, by=None)

    write._advance_oldest()
    post_runs(range(5, 6), target=GP2)
    tasks.judge()
    tasks.renormalize()

    entry.refresh_from_db()
    assert (entry.state, entry.done_count) == ("applying", 2)
    assert count_types() == {("host:db-1", "gp2"): 4, ("host:db-1", "gp3"): 2}
    assert Series.objects.filter(judging_is_due=True).count() == 2
    finish()
    assert count_types() == {("host:db-1", "gp2"): 1, ("host:db-1", "gp3"): 5}
    assert not find_faults()


def test_correction_is_undone_while_it_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "_RUNS_AT_ONCE", 2)
    post_runs(range(5), target=GP2)
    tasks.judge()
    before = list_filled()
    entry = Correction(
        kind="relabeling", changes={"volume_type": "gp3"}, filter="host:db-1", reason="typing error"
    )
    CORRECTIONS.create(entry, by=None)
    write._advance_oldest()

    undo(entry)

    assert (entry.state, list_filled(), find_faults()) == ("undone", before, {})


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        ({}, "changes", "name at least one value to change"),
        ({"rw": "read"}, "changes/rw", "parameter 'rw' is unknown. Available: "),
        ({"started_at": "2026-11-01T00:00:00Z"}, "changes/started_at", "parameter 'started_at' is unknown"),
        (
            {"volume_count": "four"},
            "changes/volume_count",
            "volume_count: expected a whole number, not 'four'",
        ),
        ({"volume_size_bytes": "5 apples"}, "changes/volume_size_bytes", "'5 apples' is not a valid size"),
        ({"profile": "a b"}, "changes/profile", "'a b' is not a valid profile name"),
        ({"label.": "x"}, "changes/label.", "a label name must have 1 to 100 characters"),
        ({"label.rack": {"a": 1}}, "changes/label.rack", "label.rack: expected text, not an object"),
    ],
)
def test_invalid_value_is_refused_with_its_field(changes: dict[str, Any], field: str, text: str) -> None:
    post_runs(range(1), target=GP2)
    with pytest.raises(BadValue) as refused:
        relabel(changes, filter="host:db-1")

    assert (refused.value.field, text in str(refused.value)) == (field, True)
    assert (Correction.objects.count(), RelabeledRun.objects.count()) == (0, 0)


def test_editor_relabels_on_the_page_and_the_run_names_the_correction(client: Client) -> None:
    post_runs(range(3), target=GP2, labels={"rack": "r1"})
    client.force_login(make_user(Role.EDITOR, username="erik"))
    run = Run.objects.latest("started_at")
    assert f"/corrections/relabel?selected={run.pk}" in Page(client.get(f"/runs/{run.pk}/")).links

    form = Page(client.get("/corrections/relabel", {"q": "host:db-1"}))
    assert "Relabel runs" in form.words
    assert "Volume typegp2" in form.words
    assert "Label rackr1 (3 runs)" in form.words
    given = {"filter": "host:db-1", "zone": "UTC", "new.volume_type": "gp3", "new.volume_count": "unknown"}
    preview = client.post("/corrections/relabel", {**given, "label": "owner=anna", "preview": "yes"})
    page = Page(preview)
    assert "Relabel 3 runs?" in page.words
    assert "Volume type: gp3, Volumes: unknown, Label owner: anna" in page.words
    assert "1 now, 1 then" in page.words
    assert not Correction.objects.exists()
    seen = next(named["value"] for tag, named in page.tags if named.get("name") == "seen")
    apply = {**given, "label": "owner=anna", "reason": "typing error", "apply": "yes", "seen": seen}
    other = Page(client.post("/corrections/relabel", {**apply, "new.volume_type": "io2"}))
    assert "Runs or values differ from the preview" in other.words
    bad = client.post("/corrections/relabel", {**apply, "new.volume_count": "four"})
    assert bad.status_code == 400
    assert "volume_count: expected a whole number, not 'four'." in Page(bad).words

    done = client.post("/corrections/relabel", apply)
    correction = Correction.objects.get()
    assert done["Location"] == f"/corrections/{correction.pk}/"
    assert "0 of 3 runs relabeled" in Page(client.get(done["Location"])).words
    finish()
    assert "3 runs relabeled" in Page(client.get("/corrections/")).words
    words = Page(client.get(f"/runs/{run.pk}/")).words
    assert "Volume type gp3: corrected by erik on " in words
    assert "the sender stated gp2." in words
    relabeled = client.get(f"/api/v1/runs/{run.pk}").json()["relabeled"]
    assert {(each["name"], each["value"], each["stated"], each["by"]) for each in relabeled} == {
        ("volume_type", "gp3", "gp2", "erik"),
        ("volume_count", None, 4, "erik"),
        ("label.owner", "anna", None, "erik"),
    }

    client.post(f"/corrections/{correction.pk}/cancel")
    finish()
    assert "3 runs restored" in Page(client.get(f"/corrections/{correction.pk}/")).words
    assert "corrected by" not in Page(client.get(f"/runs/{run.pk}/")).words


def test_program_previews_relabels_and_undoes(client: Client) -> None:
    post_runs(range(3), target=GP2)
    client.force_login(make_user(Role.EDITOR, username="erik"))
    body = {
        "kind": "relabeling",
        "filter": "host:db-1",
        "changes": {"volume_type": "gp3", "volume_count": None},
        "reason": "trial",
    }

    def post(**more: Any) -> Any:
        return client.post("/api/v1/corrections", {**body, **more}, content_type="application/json")

    effect = post(dry_run=True)
    bad = post(changes={"volume_count": "four"})
    made = post()
    finish()

    assert (effect.status_code, effect.json()["runs"], effect.json()["reread"]["series_after"]) == (200, 3, 1)
    assert effect.json()["values"] == [
        {"name": "volume_type", "before": "gp2", "after": "gp3", "runs": 3},
        {"name": "volume_count", "before": 4, "after": None, "runs": 3},
    ]
    assert (bad.status_code, bad.json()["pointer"]) == (400, "/changes/volume_count")
    address = made.json()["url"]
    assert (made.status_code, made.json()["state"], made.json()["kept_until"]) == (201, "applying", None)
    assert client.get(address).json()["changes"] == {"volume_type": "gp3", "volume_count": None}
    assert client.delete(address).status_code == 204
    finish()
    assert client.get(address).json()["state"] == "undone"
    assert [record.action for record in AuditRecord.objects.filter(kind="correction").order_by("pk")] == [
        "created",
        "canceled",
    ]


def test_editor_deletes_and_restores_nothing(client: Client) -> None:
    post_runs(range(1))
    client.force_login(make_user(Role.EDITOR))
    body = {"kind": "deletion", "filter": "host:db-1", "reason": "trial"}
    assert client.post("/api/v1/corrections", body, content_type="application/json").status_code == 403
    deletion = CORRECTIONS.create(Correction(**body), by=None)

    answers = [
        client.delete(f"/api/v1/corrections/{deletion.pk}"),
        client.patch(
            f"/api/v1/corrections/{deletion.pk}", {"is_canceled": True}, content_type="application/json"
        ),
        client.post(f"/corrections/{deletion.pk}/cancel"),
        client.get("/corrections/delete"),
    ]

    assert [answer.status_code for answer in answers] == [403] * 4
    assert "Restore" not in Page(client.get(f"/corrections/{deletion.pk}/")).words
    deletion.refresh_from_db()
    assert deletion.canceled_at is None


@pytest.mark.parametrize(("before", "after"), [("pr-17", "main"), ("main", "pr-17"), ("pr-17", "pr-18")])
def test_corrected_branch_decides_again_about_levels(before: str, after: str) -> None:
    body = make_envelope(labels={"branch": before})
    host = Host.objects.create(name="db-1")
    accept_submission(IncomingSubmission(host.pk, Kind.ENVELOPE, json.dumps(body).encode(), UUID(body["id"])))
    normalize_batch()

    relabel({"label.branch": after}, filter="host:db-1")

    run = Run.objects.get()
    assert run.excluded_reason == describe_branch({"branch": after})
    assert (run.excluded_at is not None) == (after != "main")
    assert set(run.measurements.values_list("is_excluded", flat=True)) == {after != "main"}
