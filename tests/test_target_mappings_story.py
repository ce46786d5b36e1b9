"""Editors name targets by patterns: history is read again as the preview shows, and changes stay."""

import gzip
from collections.abc import Sequence
from typing import Any

import pytest
from django.test import Client

from benchapp import tasks
from benchapp.framework.write.conflicts import BadValue
from benchapp.incidents.actions.triage import acknowledge
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import reparse_outdated
from benchapp.models import (
    AuditRecord,
    Change,
    Host,
    Incident,
    Level,
    Notice,
    Role,
    Series,
    Submission,
    Subscription,
    TargetMapping,
)
from benchapp.storage.actions import set_pool
from benchapp.storage.target_mappings import (
    add_mapping,
    count_rereads,
    preview_adding,
    preview_removal,
    remove_mapping,
)
from tests.factories import NOON, make_user
from tests.stories import at_time, silence_queue
from tests.test_targets_story import STEP, count_points, make_report, submit

pytestmark = pytest.mark.django_db

RUNS = ("/mnt/run-a/f", "/mnt/run-b/f", "/mnt/run-c/f")


def post_places(
    runs: Sequence[int], places: Sequence[str] = RUNS, *, iops: int = 500, host: str = "db-1", **changes: Any
) -> None:
    """Store runs that each measure the next of these places."""
    for run in runs:
        place = places[run % len(places)]
        submit(run, make_report(run, [({"filename": place}, iops + run % 5 - 2)]), host, **changes)
    while normalize_batch().claimed:
        pass


def map_names(pattern: str = "/mnt/run-*", name: str = "data", scope: str = "host:db-1") -> TargetMapping:
    return TargetMapping(scope=scope, pattern=pattern, target_name=name)


def read_again() -> None:
    while reparse_outdated():
        pass


def list_changes() -> set[tuple[int, str, int | None]]:
    """Return what was found and is not withdrawn: id, state, incident."""
    return set(Change.objects.exclude(state="withdrawn").values_list("pk", "state", "incident"))


def test_temporary_names_are_joined_with_their_changes_and_split_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silence_queue(monkeypatch)
    Subscription.objects.create(owner=make_user(), channel="webhook", address="http://127.0.0.1:9/")
    # The same storage under three names; the second one is measured most, and drops.
    post_places(range(20), RUNS[1:2])
    post_places(range(20, 32), RUNS[1:2], iops=250)
    post_places(range(32, 38), RUNS[::2], iops=250)
    with at_time(NOON + 38 * STEP):
        tasks.judge()
        before, notices = list_changes(), Notice.objects.count()
        incident = Incident.objects.get()
        assert before
        ids = dict(Series.objects.values_list("target_name", "pk"))
        assert count_points() == {"/mnt/run-a": 3, "/mnt/run-b": 32, "/mnt/run-c": 3}

        effect = preview_adding(map_names())
        assert (effect.series_before, effect.series_after, effect.joined) == (3, 1, 3)
        assert {(each.before, each.after, each.measurements) for each in effect.targets} == {
            ("/mnt/run-a", "data", 3),
            ("/mnt/run-b", "data", 32),
            ("/mnt/run-c", "data", 3),
        }
        assert (effect.looked_at, effect.not_looked_at, effect.unreadable) == (38, 0, 0)
        assert count_points() == {"/mnt/run-a": 3, "/mnt/run-b": 32, "/mnt/run-c": 3}
        assert not TargetMapping.objects.exists()

        mapping = add_mapping(map_names(), by=None)
        # A result that comes before history is read again goes on in a series that has the name from then on.
        post_places([38], RUNS[:1], iops=250)
        read_again()
        tasks.judge()
        assert count_points() == {"data": 39}
        assert list_changes() == before
        assert Change.objects.get(pk=min(before)[0]).series.target_name == "data"
        assert [each.pk for each in Incident.objects.all()] == [incident.pk]
        assert Level.objects.filter(metric="iops", is_current=True).get().series.target_name == "data"

        removal = preview_removal(mapping.pk)
        assert (removal.series_before, removal.series_after, removal.split) == (1, 3, 1)
        remove_mapping(mapping.pk, by=None)
        read_again()
        tasks.judge()

    assert count_points() == {"/mnt/run-a": 4, "/mnt/run-b": 32, "/mnt/run-c": 3}
    assert dict(Series.objects.values_list("target_name", "pk")) == ids
    assert list_changes() == before
    assert Change.objects.get(pk=min(before)[0]).series.target_name == "/mnt/run-b"
    assert Notice.objects.count() == notices
    assert not TargetMapping.objects.exists()


def test_series_that_is_only_renamed_keeps_its_id_there_and_back() -> None:
    post_places(range(6), ["/srv/disk-old/f"])
    series = Series.objects.get()

    effect = preview_adding(map_names("/srv/*", "data"))
    mapping = add_mapping(map_names("/srv/*", "data"), by=None)
    assert count_rereads("host:db-1") == 6
    read_again()

    assert (effect.renamed, effect.joined, effect.split) == (1, 0, 0)
    renamed = Series.objects.get()
    assert (renamed.pk, renamed.target_name, renamed.measurement_count) == (series.pk, "data", 6)

    remove_mapping(mapping.pk, by=None)
    # Before history is read again: the series goes on, too.
    post_places([6], ["/srv/disk-old/f"])
    read_again()

    again = Series.objects.get()
    assert (again.pk, again.target_name, again.measurement_count) == (series.pk, "/srv/disk-old", 7)
    assert again.former_targets == []


def test_pattern_of_a_path_splits_a_series() -> None:
    post_places(range(8), ["/data/fast.dat", "/data/slow.dat"])
    assert count_points() == {"/data": 8}

    effect = preview_adding(map_names("/data/slow*", "slow"))
    add_mapping(map_names("/data/slow*", "slow"), by=None)
    read_again()

    assert (effect.series_before, effect.series_after, effect.split) == (1, 2, 1)
    assert count_points() == {"/data": 4, "slow": 4}


def test_another_name_for_a_pattern_renames_the_series() -> None:
    post_places(range(6))
    add_mapping(map_names(), by=None)
    read_again()
    series = Series.objects.get(measurement_count=6)

    remove_mapping(TargetMapping.objects.get().pk, by=None)
    add_mapping(map_names(name="scratch"), by=None)
    read_again()

    assert count_points() == {"scratch": 6}
    assert Series.objects.get(measurement_count=6).pk == series.pk


def test_two_hosts_of_a_pool_share_the_series_of_its_mapping_and_of_their_own() -> None:
    for host, place in (("db-1", "/dev/nvme0n1"), ("db-2", "/dev/nvme3n1")):
        Host.objects.create(name=host, pool="db")
        post_places(range(3), [place], host=host)
    Host.objects.create(name="db-3", pool="db")
    post_places(range(3), ["/dev/sda"], host="db-3")
    Host.objects.create(name="web-1")
    post_places(range(3), ["/dev/nvme0n1"], host="web-1")

    add_mapping(map_names("nvme*n1", "nvme", "pool:db"), by=None)
    add_mapping(map_names("/dev/sda", "nvme", "host:db-3"), by=None)
    read_again()

    assert set(Series.objects.filter(measurement_count__gt=0).values_list("scope", "target_name")) == {
        ("pool:db", "nvme"),
        ("host:web-1", "nvme0n1"),
    }
    assert Series.objects.get(scope="pool:db", target_name="nvme").measurement_count == 9


def test_changes_of_the_same_time_are_one_in_the_series_that_is_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silence_queue(monkeypatch)
    for host, place in (("db-1", "/dev/nvme0n1"), ("db-2", "/dev/nvme3n1")):
        Host.objects.create(name=host, pool="db")
        post_places(range(20), [place], host=host)
        post_places(range(20, 32), [place], host=host, iops=250)
    with at_time(NOON + 32 * STEP):
        tasks.judge()
        before = list_changes()
        assert Change.objects.filter(pk__in=[pk for pk, *_ in before], metric="iops").count() == 2
        incident = Incident.objects.get()
        acknowledge(incident.pk, by=make_user())

        add_mapping(map_names("nvme*n1", "nvme", "pool:db"), by=None)
        read_again()
        tasks.judge()

    kept = Change.objects.exclude(state="withdrawn").filter(metric="iops").get()
    assert kept.pk in {pk for pk, *_ in before}
    assert (kept.series.target_name, kept.incident_id) == ("nvme", incident.pk)
    incident.refresh_from_db()
    assert (Incident.objects.count(), incident.state) == (1, "acknowledged")


def test_host_that_leaves_a_pool_loses_the_names_of_the_pool() -> None:
    Host.objects.create(name="db-1", pool="db")
    post_places(range(3), ["/dev/nvme0n1"])
    add_mapping(map_names("nvme*n1", "nvme", "pool:db"), by=None)
    read_again()

    set_pool("db-1", "")
    read_again()

    assert count_points() == {"nvme0n1": 3}


def test_name_that_the_sender_states_goes_before() -> None:
    post_places(range(3), target={"volume_type": "ssd", "name": "scratch"})

    effect = preview_adding(map_names())

    assert (effect.targets, effect.series_before, effect.series_after) == ((), 1, 1)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"scope": "host:db-9"}, "scope"),
        ({"scope": "db-1"}, "scope"),
        ({"scope": "pool:"}, "scope"),
        ({"pattern": " "}, "pattern"),
        ({"pattern": "a\nb"}, "pattern"),
        ({"pattern": "x" * 201}, "pattern"),
        ({"name": ""}, "target_name"),
        ({"name": "x" * 201}, "target_name"),
        ({"pattern": "/taken/*"}, "pattern"),
    ],
)
def test_invalid_mapping_is_refused(given: dict[str, str], field: str) -> None:
    Host.objects.create(name="db-1")
    add_mapping(map_names("/taken/*"), by=None)

    with pytest.raises(BadValue) as refusal:
        add_mapping(map_names(**given), by=None)

    assert refusal.value.field == field
    assert TargetMapping.objects.count() == 1


def test_detection_waits_until_the_history_of_the_host_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    silence_queue(monkeypatch)
    post_places(range(8))
    post_places(range(8), host="db-2")
    add_mapping(map_names(), by=None)

    tasks.judge()
    due = Series.objects.filter(judging_is_due=True)
    assert set(due.values_list("scope", flat=True)) == {"host:db-1"}

    read_again()
    tasks.judge()
    assert not due.exists()


def test_mappings_are_read_again_also_where_results_of_older_parsers_are_not(settings: Any) -> None:
    settings.AUTO_RENORMALIZE = False
    post_places(range(3))
    add_mapping(map_names(), by=None)

    tasks.renormalize()

    assert count_points() == {"data": 3}


@pytest.mark.parametrize("body", [None, gzip.compress(b"not a result any more", mtime=0)])
def test_results_that_cannot_be_read_again_keep_their_series_and_are_counted(body: bytes | None) -> None:
    post_places(range(6), RUNS[:2])
    Submission.objects.filter(pk=Submission.objects.order_by("received_at")[0].pk).update(body=body)

    effect = preview_adding(map_names())
    add_mapping(map_names(), by=None)
    read_again()

    assert (effect.looked_at, effect.unreadable) == (5, 1)
    assert count_points() == {"data": 5, "/mnt/run-a": 1}


def test_editor_previews_adds_and_removes_a_pattern_on_the_settings_page(client: Client) -> None:
    Host.objects.create(name="db-1", pool="db")
    post_places(range(6))
    client.force_login(make_user(Role.EDITOR))
    given = {"scope": "pool:db", "pattern": "/mnt/run-*", "target_name": "data"}

    preview = " ".join(client.get("/hosts/db-1/target-name", given).content.decode().split())
    assert "<dt>Series</dt><dd>3 now, 1 then</dd>" in preview
    assert "6 read for this preview</dd>" in preview
    assert not TargetMapping.objects.exists()

    added = client.post("/hosts/db-1/target-name", given, follow=True).content.decode()
    assert "Added. Workers read the history of pool db again." in added
    assert "6 results to be read again" in added
    read_again()
    assert count_points() == {"data": 6}

    settings = client.get("/hosts/db-1/settings/").content.decode()
    assert "/mnt/run-*" in settings
    assert "to be read again" not in settings
    remove = {"remove": str(TargetMapping.objects.get().pk)}
    assert "1 now, 3 then" in client.get("/hosts/db-1/target-name", remove).content.decode()
    assert "Removed." in client.post("/hosts/db-1/target-name", remove, follow=True).content.decode()
    read_again()
    assert count_points() == {"/mnt/run-a": 2, "/mnt/run-b": 2, "/mnt/run-c": 2}
    assert client.get("/hosts/db-1/target-name", remove).status_code == 404


@pytest.mark.parametrize("scope", ["host:db-2", "pool:other", ""])
def test_page_of_a_host_changes_no_other(scope: str, client: Client) -> None:
    Host.objects.create(name="db-1")
    Host.objects.create(name="db-2", pool="other")
    client.force_login(make_user(Role.EDITOR))

    given = {"scope": scope, "pattern": "*", "target_name": "x"}
    for send in (client.get, client.post):
        assert (
            "Not changed: choose host:db-1."
            in send("/hosts/db-1/target-name", given, follow=True).content.decode()
        )
    assert not TargetMapping.objects.exists()


def test_viewer_sees_patterns_and_changes_none(client: Client) -> None:
    Host.objects.create(name="db-1")
    mapping = add_mapping(map_names(), by=None)
    client.force_login(make_user(Role.VIEWER))

    page = client.get("/hosts/db-1/settings/").content.decode()
    assert "/mnt/run-*" in page
    assert "target-name?remove" not in page
    remove = {"remove": str(mapping.pk)}
    assert client.get("/hosts/db-1/target-name", remove).status_code == 403
    assert client.post("/hosts/db-1/target-name", remove).status_code == 403
    assert client.delete(f"/api/v1/target-mappings/{mapping.pk}").status_code == 403
    assert TargetMapping.objects.filter(removed_at=None).exists()


def test_program_adds_and_removes_patterns(client: Client) -> None:
    post_places(range(6))
    client.force_login(make_user(Role.EDITOR, username="erik"))
    given = {"scope": "host:db-1", "pattern": "/mnt/run-*", "target_name": "data"}

    added = client.post("/api/v1/target-mappings", given, content_type="application/json")
    again = client.post("/api/v1/target-mappings", given, content_type="application/json")
    read_again()
    listed = client.get("/api/v1/target-mappings").json()["target_mappings"]

    assert (added.status_code, again.status_code, again.json()["pointer"]) == (201, 400, "/pattern")
    assert listed == [added.json()]
    assert {name: listed[0][name] for name in given} == given
    assert listed[0]["created_by"] == "erik"
    assert count_points() == {"data": 6}

    address = f"/api/v1/target-mappings/{listed[0]['id']}"
    assert client.delete(address).status_code == 204
    assert client.delete(address).status_code == 404
    records = AuditRecord.objects.filter(kind="target_mapping").order_by("pk")
    assert list(records.values_list("action", "before", "after")) == [
        ("added", None, given),
        ("removed", given, None),
    ]
