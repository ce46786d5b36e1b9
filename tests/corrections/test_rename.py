"""Admins rename hosts and pools: history, triage and what is saved follow, and the former name stays an alias."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client

from benchapp.corrections import rename as rename_module
from benchapp.corrections.rename import preview_rename, rename
from benchapp.framework.write.conflicts import BadValue
from benchapp.incidents.actions.triage import comment
from benchapp.intake.importing.files import find_host
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.judge import judge_due
from benchapp.models import (
    AuditRecord,
    Change,
    DetectionPolicy,
    FormerName,
    Host,
    Incident,
    IncidentEvent,
    Level,
    Measurement,
    PinnedChart,
    PlannedEvent,
    Run,
    SavedView,
    Scope,
    Series,
    Study,
    Subscription,
    User,
    read_present_scopes,
)
from benchapp.notices.write.subscriptions import create_subscription
from benchapp.storage.actions import set_pool
from benchapp.storage.write.hosts import EnrollmentRefused, enroll_host, issue_host_token
from tests.detection.write.judging import make_level
from tests.factories import (
    make_detection_policy,
    make_host,
    make_planned_event,
    make_series,
    make_target,
    make_target_mapping,
    make_token,
    make_user,
    make_wanted_schedule,
)
from tests.intake.normalize.test_batch import submit
from tests.pages import Page

pytestmark = pytest.mark.django_db

# Independent of the models: what belongs together by names and keys.
_KEY = """sha256(convert_to('{"direction":"' || direction || '","scope":"' || scope || '","target":"'
 || encode(t.key, 'hex') || '","version":1,"workload":"' || encode(w.key, 'hex') || '"}', 'UTF8'))
"""
_INCONSISTENT = f"""
SELECT 'series of a host', id FROM benchapp_series WHERE scope LIKE 'host:%'
 AND scope <> 'host:' || (SELECT name FROM benchapp_host WHERE id = host_id)
UNION SELECT 'series of nobody', id FROM benchapp_series WHERE measurement_count > 0
 AND scope NOT IN (SELECT CASE pool WHEN '' THEN 'host:' || name ELSE 'pool:' || pool END FROM benchapp_host)
UNION SELECT 'run elsewhere', run.id FROM benchapp_run run JOIN benchapp_measurement m ON m.run_id = run.id
 JOIN benchapp_series series ON series.id = m.series_id JOIN benchapp_host host ON host.id = run.host_id
 WHERE series.scope <> CASE host.pool WHEN '' THEN 'host:' || host.name ELSE 'pool:' || host.pool END
UNION SELECT 'key', series.id FROM benchapp_series series JOIN benchapp_target t ON t.id = target_id
 JOIN benchapp_workload w ON w.id = workload_id
 WHERE series.key <> {_KEY}
UNION SELECT 'incident', incident.id FROM benchapp_incident incident
 JOIN benchapp_change c ON c.incident_id = incident.id
 JOIN benchapp_series series ON series.id = c.series_id
 WHERE incident.scope NOT IN ('', series.scope)
  OR incident.scope <> '' AND incident.title NOT LIKE split_part(series.scope, ':', 2) || ':%'
UNION SELECT 'runs of a host', id FROM benchapp_host host
 WHERE run_count <> (SELECT count(*) FROM benchapp_run WHERE host_id = host.id)
UNION SELECT 'run of another host', run.id FROM benchapp_run run JOIN benchapp_submission s ON s.id = submission_id
 WHERE run.host_id <> s.host_id
UNION SELECT 'points', id FROM benchapp_series
 WHERE measurement_count <> (SELECT count(*) FROM benchapp_measurement WHERE series_id = benchapp_series.id)
UNION SELECT 'alias taken', id FROM benchapp_formername WHERE scope NOT LIKE 'series:%' AND (
 scope IN (SELECT 'host:' || name FROM benchapp_host UNION SELECT 'pool:' || pool FROM benchapp_host)
  OR present NOT IN (SELECT 'host:' || name FROM benchapp_host UNION SELECT 'pool:' || pool FROM benchapp_host))
"""


def assert_consistent() -> None:
    with connection.cursor() as cursor:
        cursor.execute(_INCONSISTENT)
        assert cursor.fetchall() == []


def plant_fleet() -> None:
    """Plant a host with an open regression, two hosts of a pool with one, and another host."""
    for name, pool in (("db-1", ""), ("db-2", "blue")):
        make_series(make_level(1000.0, 30) + make_level(780.0, 10), host=make_host(name, pool=pool))
    make_series([1000.0] * 4, host=make_host("db-3", pool="blue"), target=make_target(target_name="b"))
    make_series([1000.0] * 4, host=make_host("db-4"))
    judge_due()
    set_keys()


def set_keys() -> None:
    """Give series of factories the keys of their identity, and hosts their number of runs."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE benchapp_series series SET key = {_KEY} FROM benchapp_target t, benchapp_workload w"
            " WHERE t.id = target_id AND w.id = workload_id"
        )
    for host in Host.objects.all():
        Host.objects.filter(pk=host.pk).update(run_count=Run.objects.filter(host=host).count())


def list_history() -> list[dict[str, Any]]:
    """Return ids and numbers of all history, without names."""
    return [
        *Run.objects.order_by("pk").values("pk", "host_id", "started_at"),
        *Measurement.objects.order_by("pk").values("pk", "run_id", "series_id", "iops"),
        *Series.objects.order_by("pk").values(
            "pk", "host_id", "measurement_count", "target_id", "workload_id"
        ),
        *Level.objects.order_by("series", "metric").values("series", "metric", "n", "median", "change"),
        *Change.objects.order_by("pk").values("pk", "series_id", "incident_id", "state"),
        *Incident.objects.order_by("pk").values("pk", "state", "severity", "metric_sizes", "change_count"),
        *IncidentEvent.objects.order_by("pk").values("pk", "incident_id", "kind", "text"),
    ]


@pytest.mark.parametrize(
    ("scope", "name", "hosts", "runs"), [("host:db-1", "web-1", 1, 40), ("pool:blue", "green", 2, 44)]
)
def test_history_and_triage_follow_and_renaming_back_undoes_it(
    scope: str, name: str, hosts: int, runs: int
) -> None:
    plant_fleet()
    incident = Incident.objects.get(scope=scope)
    comment(incident.pk, text="a disk", by=make_user())
    assert_consistent()
    before, title = list_history(), incident.title
    keys = list(Series.objects.order_by("pk").values_list("pk", "key"))

    effect = rename(scope, name)

    kind, _, old = scope.partition(":")
    assert (effect.hosts, effect.runs, effect.incidents) == (hosts, runs, ((incident.pk, title),))
    assert_consistent()
    assert list_history() == before
    incident.refresh_from_db()
    assert (incident.scope, incident.title) == (f"{kind}:{name}", title.replace(old, name, 1))
    judge_due()
    assert list_history() == before
    rename(f"{kind}:{name}", old)
    assert_consistent()
    assert list_history() == before
    assert list(Series.objects.order_by("pk").values_list("pk", "key")) == keys
    assert FormerName.objects.get().scope == f"{kind}:{name}"


def test_host_of_a_pool_gets_a_name_and_the_pool_keeps_its_series() -> None:
    plant_fleet()
    before = list_history()

    effect = rename("host:db-2", "db-5")

    assert (effect.series, effect.runs, effect.incidents) == (0, 40, ())
    assert_consistent()
    assert list_history() == before


def test_what_is_saved_gets_the_new_name() -> None:
    plant_fleet()
    user = make_user()
    make_detection_policy(filter="host:db-1,db-4 rw:randread")
    make_planned_event(filter="pool:blue")
    create_subscription(user, {"channel": "email", "address": "a@example.org", "filter": "-host:db-1"})
    SavedView.objects.create(
        owner=user, name="mine", kind="scaling", query="q=host%3Adb-1+rw%3Aread&x=iodepth"
    )
    PinnedChart.objects.create(owner=user, position=1, kind="compare", query="a=host:db-1&b=host:db-10")
    groups = "q=&group=old+%3D+host%3Adb-1&group=all+%3D+pool%3Ablue"
    Study.objects.create(title="t", panels=[{"kind": "scaling", "query": groups, "title": "", "text": ""}])
    User.objects.filter(pk=user.pk).update(default_filter="host:db-1*")
    make_target_mapping(scope="host:db-1")
    make_wanted_schedule(pool="blue")

    assert preview_rename("host:db-1", "web-1").saved == (
        ("detection policy", 1),
        ("pinned chart", 1),
        ("report", 1),
        ("saved view", 1),
        ("subscription", 1),
        ("target name", 1),
    )
    rename("host:db-1", "web-1")
    effect = rename("pool:blue", "sky blue")

    assert effect.saved == (("planned event", 1), ("report", 1), ("wanted schedule", 1))
    assert DetectionPolicy.objects.get().filter == "host:web-1,db-4 rw:randread"
    assert PlannedEvent.objects.get().filter == 'pool:"sky blue"'
    assert Subscription.objects.get().filter == "-host:web-1"
    assert SavedView.objects.get().query == "q=host%3Aweb-1+rw%3Aread&x=iodepth"
    assert PinnedChart.objects.get().query == "a=host%3Aweb-1&b=host%3Adb-10"
    expected = "q=&group=old+%3D+host%3Aweb-1&group=all+%3D+pool%3A%22sky+blue%22"
    assert Study.objects.get().panels[0]["query"] == expected
    # A pattern is no name.
    assert User.objects.get().default_filter == "host:db-1*"
    assert_consistent()


def test_former_name_is_an_alias_of_pages_and_api(admin: Client) -> None:
    plant_fleet()
    rename("host:db-1", "web-1")
    rename("pool:blue", "green")
    rename("host:web-1", "web-2")

    assert admin.get("/hosts/db-1/settings/?a=1")["Location"] == "/hosts/web-2/settings/?a=1"
    moved = admin.get("/scaling/", {"q": "host:db-1 rw:randread", "x": "iodepth"})
    assert moved["Location"] == "/scaling/?q=host%3Aweb-2+rw%3Arandread&x=iodepth"
    shown = Page(admin.get("/runs/", {"q": "pool:blue"}, follow=True)).words
    assert "A host or pool of the filter was renamed. Present names: pool:green" in shown
    assert admin.get("/api/v1/hosts/DB-1").json()["name"] == "web-2"
    changed = admin.patch("/api/v1/hosts/web-1", {"is_retired": True}, content_type="application/json")
    assert (changed.status_code, changed.json()["name"]) == (200, "web-2")
    assert [row["name"] for row in admin.get("/api/v1/hosts", {"q": "host:db-1"}).json()["hosts"]] == [
        "web-2"
    ]
    assert len(admin.get("/api/v1/runs", {"q": "host:db-1"}).json()["runs"]) == 40
    assert len(admin.get("/api/v1/runs", {"pool": "blue"}).json()["runs"]) == 44
    assert admin.get("/api/v1/charts/host.svg", {"host": "db-1"}).status_code == 200
    found = Page(admin.get("/search/results", {"text": "db-1"}))
    assert "db-1" in found.words
    assert "now web-2" in found.words
    assert admin.get("/hosts/nobody/").status_code == 404
    assert admin.get("/api/v1/hosts/nobody").status_code == 404


def test_agents_and_imports_with_the_former_name_reach_the_host() -> None:
    submit()
    normalize_batch()
    rename("host:db-1", "web-1")
    submit(Host.objects.get())
    normalize_batch()

    assert set(Measurement.objects.values_list("series__scope", flat=True)) == {"host:web-1"}
    assert find_host("db-1", may_create=True).name == "web-1"
    host, _ = enroll_host("db-1", enrollment=make_token(Scope.ENROLL)[0])
    assert (host.name, Host.objects.count()) == ("web-1", 1)
    with pytest.raises(EnrollmentRefused, match="host web-1 is enrolled with a valid token"):
        enroll_host("db-1", enrollment=make_token(Scope.ENROLL)[0])
    with pytest.raises(EnrollmentRefused, match="db-1 is a former name of host web-1"):
        issue_host_token("db-1")
    assert_consistent()


def test_host_that_joins_the_former_name_of_a_pool_joins_the_pool() -> None:
    plant_fleet()
    rename("pool:blue", "green")

    set_pool("db-4", "blue")

    assert Host.objects.get(name="db-4").pool == "green"
    assert_consistent()


def test_pool_in_another_case_is_no_former_name() -> None:
    plant_fleet()
    rename("pool:blue", "green")
    assert read_present_scopes(["pool:Blue"]) == {"pool:blue": "pool:green"}

    make_host("db-8", pool="Blue")

    assert read_present_scopes(["pool:Blue"]) == {}


def test_what_is_edited_at_the_same_time_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_fleet()
    policy = make_detection_policy(filter="host:db-1")
    listed = rename_module._list_stored

    def list_and_edit(*scopes: str) -> Any:
        for each in listed(*scopes):
            DetectionPolicy.objects.filter(pk=policy.pk).update(filter="host:db-1,db-4")
            yield each

    monkeypatch.setattr(rename_module, "_list_stored", list_and_edit)
    with pytest.raises(BadValue, match=f"detection policy {policy.pk} was changed at the same time"):
        rename_module.replace_stored("host:db-1", "host:web-1")

    assert DetectionPolicy.objects.get().filter == "host:db-1,db-4"


@pytest.mark.parametrize(
    ("scope", "name", "text"),
    [
        ("host:db-4", "db-1", "db-1 is a former name of host web-1"),
        ("host:db-4", "DB-2", "there is a host db-2 already"),
        ("host:db-4", "db-4", "it has this name"),
        ("host:db-4", "me", "'me' is reserved"),
        ("host:db-4", "a b", "'a b' is not a valid host name"),
        ("pool:blue", " ", "use 1 to 100 printable characters"),
        ("pool:blue", "red", "there is a pool red already: move its hosts there instead"),
        ("db-4", "db-5", "'db-4' is not host:NAME or pool:NAME"),
        ("host:ebs-2013", "db-5", "ebs-2013 is the host of the sample data, and keeps its name"),
    ],
)
def test_names_that_are_taken_or_invalid_are_refused(scope: str, name: str, text: str) -> None:
    plant_fleet()
    make_host("db-9", pool="red")
    rename("host:db-1", "web-1")

    with pytest.raises(BadValue) as refused:
        rename(scope, name)

    assert text in str(refused.value)
    assert_consistent()


def test_page_and_api_preview_rename_and_undo(admin: Client) -> None:
    plant_fleet()

    preview = Page(admin.get("/rename", {"scope": "host:db-1", "name": "web-1"})).words
    assert "40 of db-1" in preview
    assert "db-1: IOPS −22 %" in preview
    body = {"scope": "pool:blue", "name": "green", "dry_run": True}
    effect = admin.post("/api/v1/renames", body, content_type="application/json").json()
    assert (effect["hosts"], effect["runs"], effect["to_scope"]) == (2, 44, "pool:green")
    assert not FormerName.objects.exists()

    done = admin.post("/rename", {"scope": "host:db-1", "name": "web-1"})

    assert done["Location"] == "/hosts/web-1/settings/"
    settings = Page(admin.get(done["Location"])).words
    assert "db-1 is web-1 now" in settings
    assert "the name of host web-1 was db-1. It stays an alias." in settings
    record = AuditRecord.objects.latest("pk")
    assert (record.action, record.before, record.after) == ("renamed", {"name": "db-1"}, {"name": "web-1"})
    again = Page(admin.get("/rename", {"scope": "host:web-1", "name": "Ä"}))
    assert "is not a valid host name" in again.words
    unknown = admin.get("/rename", {"scope": "host:nobody", "name": "x"})
    assert (unknown.status_code, "host nobody does not exist." in Page(unknown).words) == (400, True)
    back = admin.post(
        "/api/v1/renames", {"scope": "host:web-1", "name": "db-1"}, content_type="application/json"
    )
    assert back.json()["to_scope"] == "host:db-1"
    assert_consistent()
