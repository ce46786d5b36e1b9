"""Admins merge hosts that are one machine, and split what another machine measured off a host."""

from typing import Any

import pytest
from django.test import Client

from benchapp.corrections.merge import SplitChoice, merge, preview_merge, preview_split, split
from benchapp.framework.write.conflicts import BadValue
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.judge import judge_due
from benchapp.models import (
    ApiToken,
    Change,
    Host,
    Incident,
    Measurement,
    Run,
    Series,
    Subscription,
    TargetMapping,
    WantedSchedule,
)
from benchapp.notices.write.subscriptions import create_subscription
from benchapp.storage.write.hosts import issue_host_token
from tests.corrections.test_corrections import judge, post
from tests.corrections.test_rename import assert_consistent, plant_fleet, set_keys
from tests.detection.write.judging import make_level
from tests.factories import make_host, make_series, make_target_mapping, make_user, make_wanted_schedule
from tests.pages import Page

pytestmark = pytest.mark.django_db


def list_runs() -> list[tuple[Any, ...]]:
    """Return the runs with their host, series and values."""
    rows = Measurement.objects.order_by("run__started_at", "position")
    return list(
        rows.values_list("run", "run__host__name", "series__scope", "series__measurement_count", "iops")
    )


def store_both() -> None:
    """Store six runs of db-1 and, later, four of db-2, of one workload."""
    for minute in range(6):
        post(minute)
    other = make_host("db-2")
    for minute in range(10, 14):
        post(minute, host=other)
    normalize_batch()
    judge()


def test_merged_hosts_have_one_history_and_a_split_undoes_it() -> None:
    store_both()
    issue_host_token("db-2")
    token = ApiToken.objects.get()
    create_subscription(make_user(), {"channel": "email", "address": "a@example.org", "filter": "host:db-2"})
    make_target_mapping(scope="host:db-2", pattern="/nothing*")
    before = list_runs()

    effect = preview_merge("db-2", "db-1")
    assert (effect.runs, effect.series_before, effect.series_after, effect.move.joined) == (4, 2, 1, 1)
    merge("db-2", "db-1")
    judge()

    assert_consistent()
    assert {(host, count) for _, host, _, count, _ in list_runs()} == {("db-1", 10)}
    token.refresh_from_db()
    assert token.host == Host.objects.get()
    assert Subscription.objects.get().filter == "host:db-1"
    split("db-1", "db-2", SplitChoice())
    judge()
    assert_consistent()
    assert list_runs() == before
    token.refresh_from_db()
    assert token.host == Host.objects.get(name="db-2")


def test_incidents_and_changes_follow_a_merged_host() -> None:
    plant_fleet()
    changes = list(Change.objects.order_by("pk").values_list("pk", "state"))

    merge("db-1", "db-4")
    judge_due()

    assert_consistent()
    assert list(Change.objects.order_by("pk").values_list("pk", "state")) == changes
    assert Incident.objects.filter(scope="host:db-4", title__startswith="db-4: IOPS").count() == 1
    merge("db-2", "db-3")
    assert_consistent()
    split("db-3", "db-2", SplitChoice())
    split("db-4", "db-1", SplitChoice())
    judge_due()
    assert_consistent()
    assert Incident.objects.filter(scope="host:db-1", title__startswith="db-1: IOPS").count() == 1
    assert list(Change.objects.order_by("pk").values_list("pk", "state")) == changes


def test_results_of_another_machine_are_split_off_and_merging_undoes_it() -> None:
    store_both()
    host = Host.objects.get(name="db-2")
    for minute in range(20, 23):
        post(minute, host=host, labels={"rack": "r2"})
    normalize_batch()
    judge()
    before = list_runs()

    effect = preview_split("db-2", "web-1", SplitChoice("label.rack:r2"))
    assert (effect.runs, effect.series_before, effect.series_after) == (3, 1, 2)
    split("db-2", "web-1", SplitChoice("label.rack:r2"))
    judge()

    assert_consistent()
    assert dict(Host.objects.values_list("name", "run_count")) == {"db-1": 6, "db-2": 4, "web-1": 3}
    assert set(Series.objects.values_list("scope", "measurement_count")) == {
        ("host:db-1", 6),
        ("host:db-2", 4),
        ("host:web-1", 3),
    }
    merge("web-1", "db-2")
    judge()
    assert_consistent()
    assert list_runs() == before


@pytest.mark.parametrize(
    ("act", "arguments", "text"),
    [
        (merge, ("db-1", "db-1"), "it is db-1 itself"),
        (merge, ("db-1", "db-9"), "host db-9 does not exist"),
        (split, ("db-1", "web-1", SplitChoice()), "say which runs: a filter or a time range"),
        (split, ("db-1", "web-1", SplitChoice("host:db-2")), "no run of db-1 matches"),
        (split, ("db-1", "web-1", SplitChoice("host:db-1")), "all runs of db-1 match: rename it instead"),
        (split, ("db-1", "db-2", SplitChoice("rw:randread")), "there is a host db-2 already"),
    ],
)
def test_meaningless_merges_and_splits_are_refused(act: Any, arguments: tuple[Any, ...], text: str) -> None:
    store_both()
    before = list_runs()

    with pytest.raises(BadValue, match=text):
        act(*arguments)

    assert list_runs() == before


def test_api_previews_and_merges(admin: Client) -> None:
    store_both()
    body = {"host": "db-2", "into": "db-1"}

    dry = admin.post("/api/v1/merges", {**body, "dry_run": True}, content_type="application/json").json()
    assert (dry["series_before"], dry["series_after"], Host.objects.count()) == (2, 1, 2)
    done = admin.post("/api/v1/merges", body, content_type="application/json").json()

    assert (done, Run.objects.filter(host__name="db-1").count()) == (dry, 10)
    assert admin.get("/api/v1/hosts/db-2").json()["name"] == "db-1"
    back = admin.post("/api/v1/splits", {"host": "db-1", "name": "db-2"}, content_type="application/json")
    assert (back.json()["runs"], Host.objects.count()) == (4, 2)


def test_pages_preview_merge_and_split(admin: Client) -> None:
    store_both()

    asked = {"scope": "host:db-2", "name": "db-1", "is_merge": "on"}
    preview = Page(admin.get("/rename", asked)).words
    assert "4 of db-2 move to db-1" in preview
    assert "2 before, 1 after; 1 continue in another" in preview
    done = admin.post("/rename", asked)
    assert done["Location"] == "/hosts/db-1/settings/"
    shown = Page(admin.get(done["Location"]))
    assert "4 runs of db-2 moved to db-1." in shown.words
    assert "/split?scope=host%3Adb-1&name=db-2" in shown.links
    assert "4 of db-1 move to db-2" in Page(admin.get("/split?scope=host%3Adb-1&name=db-2")).words
    refused = Page(admin.get("/split", {"scope": "host:db-1", "name": "x"}))
    assert "say which runs: a filter or a time range." in refused.words
    back = admin.post("/split", {"scope": "host:db-1", "name": "db-2"})
    assert (back["Location"], Host.objects.count()) == ("/hosts/db-2/settings/", 2)
    asked = {"scope": "host:db-1", "name": "web-1", "from_at": "2026-11-01T10:03", "zone": "UTC"}
    assert admin.post("/split", asked)["Location"] == "/hosts/web-1/settings/"
    assert dict(Host.objects.values_list("name", "run_count")) == {"db-1": 3, "db-2": 4, "web-1": 3}
    assert_consistent()


def test_split_brings_back_target_names_and_wanted_schedules() -> None:
    store_both()
    for pattern, name in (("nvme0n1", "fast"), ("nvme1n1", "slow")):
        make_target_mapping(scope="host:db-2", pattern=pattern, target_name=name)
    make_target_mapping(scope="host:db-1", pattern="nvme0n1", target_name="other")
    make_wanted_schedule(host=Host.objects.get(name="db-2"))
    names = list(TargetMapping.objects.order_by("pk").values_list("scope", "pattern", "target_name"))

    merge("db-2", "db-1")
    assert not WantedSchedule.objects.exists()
    split("db-1", "db-2", SplitChoice())

    assert list(TargetMapping.objects.order_by("pk").values_list("scope", "pattern", "target_name")) == names
    assert WantedSchedule.objects.get().host.name == "db-2"


def test_change_that_both_hosts_have_keeps_its_incident() -> None:
    for name in ("db-1", "db-2"):
        make_series(make_level(1000.0, 30) + make_level(780.0, 10), host=make_host(name))
    judge_due()
    set_keys()
    kept, joined = (Incident.objects.get(scope=f"host:{name}") for name in ("db-1", "db-2"))

    merge("db-2", "db-1")

    joined.refresh_from_db()
    assert joined.merged_into == kept
    assert_consistent()
    for incident in Incident.objects.filter(merged_into=None):
        assert Change.objects.filter(incident=incident).exists()


def test_links_of_a_joined_series_lead_to_the_other_one(admin: Client) -> None:
    store_both()
    old = Series.objects.filter(scope="host:db-2").order_by("pk").first()
    new = Series.objects.filter(scope="host:db-1").order_by("pk").first()
    assert old is not None
    assert new is not None

    merge("db-2", "db-1")

    assert admin.get(f"/series/{old.pk}/?metric=iops")["Location"] == f"/series/{new.pk}/?metric=iops"
    assert admin.get(f"/api/v1/series/{old.pk}").json()["id"] == new.pk
    split("db-1", "db-2", SplitChoice())
    assert admin.get(f"/series/{new.pk}/").status_code == 200
