"""Schedules that the server wants: edited per pool and host, adopted by hosts, compared with what they have."""

from datetime import datetime

import pytest
from django.utils import timezone

from benchapp.models import AuditRecord, Role, ScheduleAdoption, Scope, WantedSchedule
from benchapp.models.requests import list_next_starts, spread_minute
from benchapp.requests.read.schedules import find_zone
from tests.factories import (
    make_environment,
    make_host,
    make_request_policy,
    make_run,
    make_schedule_adoption,
    make_user,
    make_wanted_schedule,
)

pytestmark = pytest.mark.django_db

URL = "/api/v1/wanted-schedules"
QUICK = {"profile": "quick", "every_s": 21600, "at_minute": 120, "directory": "/data"}
ENTRY = {"profile": "quick", "every_s": 21600, "splay_s": 0, "directory": "/data", "at_minute": 120}
REPORT = {
    "is_allowed": True,
    "profiles": [{"profile": "quick", "parameters": {"runtime": {"minimum": 4, "maximum": 30}}}],
    "directories": ["/data"],
    "per_day": 24,
    "quiet_hours": [],
    "version": "",
    "refused": [],
    "problem": "",
}


@pytest.fixture
def host():
    return make_host("db-7", pool="blue")


@pytest.fixture
def poll(client_of, host):
    """Give a function that reports an adoption as the host, and returns what is wanted."""
    client = client_of(Scope.INGEST, host)
    return lambda **report: client.post(
        "/api/v1/hosts/me/schedule/adoption", {**REPORT, **report}, content_type="application/json"
    )


def send(client, body, url=URL, method="post"):
    return getattr(client, method)(url, body, content_type="application/json")


def test_wanted_schedule_is_created_changed_and_removed_with_its_history(admin, host):
    created = send(admin, {"pool": "blue", **QUICK, "parameters": {"runtime": 10}})
    url = created.json()["url"]
    changed = send(admin, {**QUICK, "every_s": 3600}, url, "put")
    removed = admin.delete(url)

    assert (created.status_code, created.headers["Location"]) == (201, url)
    assert (created.json()["pool"], created.json()["host"], created.json()["parameters"]) == (
        "blue",
        None,
        {"runtime": 10},
    )
    assert (changed.status_code, changed.json()["every_s"], changed.json()["parameters"]) == (200, 3600, {})
    assert (removed.status_code, admin.get(url).status_code) == (204, 404)
    records = AuditRecord.objects.filter(kind="schedule", object_id="pool:blue").order_by("pk")
    assert [(record.action, record.before, record.after) for record in records] == [
        ("created", None, {"quick": "every 6h at 02:00, in /data, runtime=10"}),
        (
            "changed",
            {"quick": "every 6h at 02:00, in /data, runtime=10"},
            {"quick": "every 1h at 02:00, in /data"},
        ),
        ("removed", {"quick": "every 1h at 02:00, in /data"}, None),
    ]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (QUICK, "/pool"),
        ({"pool": "blue", "host": "db-7", **QUICK}, "/pool"),
        ({"pool": "blue", **QUICK, "every_s": 2700}, "/every_s"),
        ({"pool": "blue", **QUICK, "every_s": None}, "/every_s"),
        ({"host": "db-7", **QUICK, "every_s": None}, "/every_s"),
        ({"pool": "blue", **QUICK, "at_minute": 1440}, "/at_minute"),
        ({"pool": "blue", **QUICK, "splay_s": 21600}, "/splay_s"),
        ({"pool": "blue", **QUICK, "splay_s": 90}, "/splay_s"),
        ({"pool": "blue", **QUICK, "every_s": 604800, "at_minute": 1400, "splay_s": 3600}, "/splay_s"),
        ({"pool": "blue", **QUICK, "profile": "../x"}, "/profile"),
        ({"pool": "blue", **QUICK, "profile": "-x"}, "/profile"),
        ({"pool": "blue", **QUICK, "directory": "data"}, "/directory"),
        ({"pool": "blue", **QUICK, "directory": ""}, "/directory"),
        ({"pool": "blue", **QUICK, "directory": "/data/../etc"}, "/directory"),
        ({"pool": "blue", **QUICK, "directory": "/data\n* * * * * root x"}, "/directory"),
        ({"pool": "blue", **QUICK, "parameters": {"run time": 1}}, "/parameters"),
        ({"pool": "blue", **QUICK, "parameters": {"runtime": "4 --jobfile /x"}}, "/parameters/runtime"),
        ({"pool": "blue", **QUICK, "parameters": {"runtime": True}}, "/parameters/runtime"),
        ({"pool": "blue", **QUICK, "parameters": {"size": "64x"}}, "/parameters/size"),
        ({"pool": "blue", **QUICK, "parameters": {"runtime": "10ms"}}, "/parameters/runtime"),
        ({"pool": "x" * 101, **QUICK}, "/pool"),
    ],
)
def test_values_that_are_not_valid_are_refused(admin, host, body, pointer):
    response = send(admin, body)

    assert (response.status_code, response.json()["pointer"]) == (400, pointer), response.json()
    assert not WantedSchedule.objects.exists()


def test_values_with_a_unit_are_read_as_in_the_form(admin):
    body = {"pool": "blue", **QUICK, "parameters": {"size": "64MiB", "runtime": "10m", "rw": "read"}}

    assert send(admin, body).json()["parameters"] == {"size": 2**26, "runtime": 600, "rw": "read"}


def test_requested_run_has_the_same_values_with_a_unit(admin, host):
    sizes = {"parameters": {"size": {"values": [2**26]}, "runtime": {"minimum": 4, "maximum": 600}}}
    make_request_policy(host, profiles=[{"profile": "quick", **sizes}])
    wanted = {"profile": "quick", "directory": "/data"}

    created, refused = (
        send(admin, {**wanted, "parameters": {"size": size, "runtime": "10m"}}, "/api/v1/hosts/db-7/requests")
        for size in ("64MiB", "64x")
    )

    assert (created.status_code, created.json()["parameters"]) == (201, {"size": 2**26, "runtime": 600})
    assert (refused.status_code, refused.json()["pointer"]) == (400, "/parameters/size")
    assert "'64x' is not a valid size" in refused.json()["detail"]


def test_second_schedule_of_a_profile_and_unknown_hosts_are_refused(admin, host):
    send(admin, {"pool": "blue", **QUICK})
    other = send(admin, {"pool": "blue", **QUICK, "profile": "saturation"}).json()["url"]

    assert send(admin, {"pool": "blue", **QUICK}).status_code == 400
    assert send(admin, QUICK, other, "put").status_code == 400
    assert send(admin, {"host": "db-9", **QUICK}).status_code == 404
    assert send(admin, {"host": "DB-7", **QUICK}).status_code == 201
    assert WantedSchedule.objects.count() == 3


def test_number_of_schedules_of_a_pool_is_bounded(admin):
    for number in range(20):
        make_wanted_schedule(pool="blue", profile=f"p{number}")

    assert send(admin, {"pool": "blue", **QUICK}).status_code == 400


def test_lists_are_of_a_pool_or_a_host_in_pages(admin, reader, host):
    make_wanted_schedule(pool="blue")
    make_wanted_schedule(pool="blue", profile="saturation")
    make_wanted_schedule(profile="steady")
    make_wanted_schedule(host=host)

    first = reader.get(URL, {"pool": "blue", "limit": 1}).json()
    second = reader.get(first["next"]).json()
    without = reader.get(URL, {"pool": ""}).json()
    own = reader.get(URL, {"host": "DB-7"}).json()

    assert [row["profile"] for row in first["wanted_schedules"]] == ["quick"]
    assert [row["profile"] for row in second["wanted_schedules"]] == ["saturation"]
    assert second["next"] is None
    assert [(row["pool"], row["profile"]) for row in without["wanted_schedules"]] == [("", "steady")]
    assert [row["host"] for row in own["wanted_schedules"]] == ["db-7"]
    assert reader.get(URL, {"cursor": "after-x"}).status_code == 400
    both = reader.get(URL, {"pool": "", "host": "db-7"}).json()
    assert (both["code"], both["pointer"]) == ("parameter-invalid", "pool")


def test_host_gets_what_its_pool_and_itself_want_with_its_own_time(poll, host):
    make_wanted_schedule(pool="blue", at_minute=120, splay_s=3600, parameters={"runtime": 10})
    make_wanted_schedule(pool="blue", profile="saturation")
    make_wanted_schedule(host=host, profile="saturation", every_s=None, directory="")
    make_wanted_schedule(host=host, profile="smallfiles", directory="/own")
    make_wanted_schedule(pool="green", profile="steady")

    answer = poll().json()

    quick, small = answer["wanted"]
    assert (quick["profile"], small["profile"]) == ("quick", "smallfiles")
    assert quick["parameters"] == {"runtime": 10}
    assert quick["at_minute"] == spread_minute(120, 3600, host="db-7", profile="quick")
    assert 120 <= quick["at_minute"] < 180
    assert len(answer["version"]) == 32


def test_refusals_are_shown_until_something_else_is_wanted(poll, reader, host, admin):
    row = make_wanted_schedule(pool="blue", profile="saturation")
    version = poll().json()["version"]
    poll(version=version, refused=[{"profile": "saturation", "reason": "not in [schedule] allow"}])

    refused = reader.get("/api/v1/hosts/db-7/schedule").json()
    send(admin, {**QUICK, "profile": "saturation", "every_s": 3600}, f"{URL}/{row.pk}", "put")
    changed = reader.get("/api/v1/hosts/db-7/schedule").json()

    assert (refused["lines"][0]["state"], refused["lines"][0]["reason"]) == (
        "refused",
        "not in [schedule] allow",
    )
    assert (refused["is_current"], refused["is_adopting"], refused["allows"]) == (
        True,
        True,
        ["quick runtime=4..30"],
    )
    assert (changed["lines"][0]["state"], changed["is_current"]) == ("missing", False)


def test_differences_between_wanted_and_installed_are_named_and_filtered(client_of, reader, host):
    own = client_of(Scope.INGEST, host)
    make_wanted_schedule(pool="blue", at_minute=120)
    make_wanted_schedule(pool="blue", profile="saturation")
    make_host("db-8", pool="blue", retired_at=timezone.now())
    make_host("db-9")
    entries = [
        {**ENTRY, "is_from_server": True, "parameters": {}},
        {**ENTRY, "profile": "saturation", "every_s": 3600, "at_minute": 0},
        {**ENTRY, "profile": "gone", "is_from_server": True},
        {**ENTRY, "profile": "local"},
    ]
    send(own, {"entries": entries}, "/api/v1/hosts/me/schedule", "put")

    answer = own.get("/api/v1/hosts/me/schedule").json()

    assert {line["profile"]: line["state"] for line in answer["lines"]} == {
        "gone": "obsolete",
        "local": "own",
        "quick": "installed",
        "saturation": "different",
    }
    listed = reader.get("/api/v1/schedules", {"is_schedule_different": "true"}).json()["schedules"]
    assert [row["host"] for row in listed] == ["db-7"]
    hosts = reader.get("/api/v1/hosts", {"is_schedule_different": "false"}).json()["hosts"]
    assert [row["name"] for row in hosts] == ["db-8", "db-9"]


def test_own_schedule_in_another_directory_is_beside_the_wanted_one(client_of, host):
    own = client_of(Scope.INGEST, host)
    make_wanted_schedule(pool="blue", at_minute=120)
    send(own, {"entries": [{**ENTRY, "directory": "/mnt/b"}]}, "/api/v1/hosts/me/schedule", "put")
    missing = own.get("/api/v1/hosts/me/schedule").json()["lines"]
    entries = [{**ENTRY, "is_from_server": True, "parameters": {}}, {**ENTRY, "directory": "/mnt/b"}]
    send(own, {"entries": entries}, "/api/v1/hosts/me/schedule", "put")

    both = own.get("/api/v1/hosts/me/schedule").json()["lines"]

    assert [line["state"] for line in missing] == ["missing", "own"]
    assert [line["state"] for line in both] == ["installed", "own"]


def test_schedule_of_an_older_agent_is_compared_by_what_it_reports(client_of, reader, host):
    make_wanted_schedule(pool="blue", at_minute=120, parameters={"runtime": 10})
    entry = {name: ENTRY[name] for name in ("profile", "every_s", "splay_s", "directory")}
    send(client_of(Scope.INGEST, host), {"entries": [entry]}, "/api/v1/hosts/me/schedule", "put")

    host.refresh_from_db()
    assert host.schedule == [entry]
    assert reader.get("/api/v1/hosts/db-7/schedule").json()["is_different"] is False


def test_first_start_of_an_interval_is_the_same_at_any_hour(client_of, reader, host):
    make_wanted_schedule(pool="blue", at_minute=8 * 60 + 30)
    entry = {**ENTRY, "at_minute": 2 * 60 + 30}
    send(client_of(Scope.INGEST, host), {"entries": [entry]}, "/api/v1/hosts/me/schedule", "put")

    assert reader.get("/api/v1/hosts/db-7/schedule").json()["lines"][0]["state"] == "installed"


def test_next_starts_are_utc_of_the_local_times_of_the_host(reader, host):
    make_run(host, environment=make_environment(facts={"time_zone": "Europe/Berlin"}))
    make_wanted_schedule(pool="blue", every_s=86400, at_minute=150)
    after = datetime.fromisoformat("2026-10-24T23:00:00+00:00")

    answer = reader.get("/api/v1/hosts/db-7/schedule").json()
    starts = list_next_starts(86400, 150, zone=find_zone(answer["time_zone"]), after=after, count=3)

    # 02:30 occurs twice on the day when summer time ends: at the first one.
    assert answer["time_zone"] == "Europe/Berlin"
    assert len(answer["lines"][0]["starts_at"]) == 5
    assert [f"{start:%d %H:%M}" for start in starts] == ["25 00:30", "26 01:30", "27 01:30"]


@pytest.mark.parametrize(
    ("every_s", "at_minute", "expected"),
    [
        (600, 3, ["12:03", "12:13", "12:23"]),
        (3600, 150, ["12:30", "13:30", "14:30"]),
        (21600, 150, ["14:30", "20:30", "02:30"]),
        (86400, 150, ["02:30", "02:30", "02:30"]),
    ],
)
def test_next_starts(every_s, at_minute, expected):
    after = datetime.fromisoformat("2026-11-23T12:00:00+00:00")

    starts = list_next_starts(every_s, at_minute, zone=find_zone(""), after=after, count=3)

    assert [f"{start:%H:%M}" for start in starts] == expected


def test_weekly_starts_are_sundays():
    after = datetime.fromisoformat("2026-11-23T12:00:00+00:00")

    starts = list_next_starts(604800, 60, zone=find_zone("no/where"), after=after, count=2)

    assert [f"{start:%a %d %H:%M}" for start in starts] == ["Sun 29 01:00", "Sun 06 01:00"]


def test_report_of_a_host_is_stored_and_recorded_once(poll, host):
    poll()
    poll()

    assert ScheduleAdoption.objects.get().policy["per_day"] == 24
    assert AuditRecord.objects.filter(action="schedule_adoption_reported").count() == 1


def test_all_schedules_of_a_pool_and_a_host_may_be_refused(poll):
    refused = [{"profile": f"p{number}", "reason": "x"} for number in range(40)]

    assert poll(refused=refused).status_code == 200
    assert len(ScheduleAdoption.objects.get().refused) == 40


@pytest.mark.parametrize(
    ("member", "value", "pointer"),
    [
        ("is_allowed", "perhaps", "/is_allowed"),
        ("version", "x" * 65, "/version"),
        ("refused", [{"profile": "quick", "reason": "x" * 1001}], "/refused/0/reason"),
        ("refused", [{"profile": "quick", "reason": "x"}] * 41, "/refused"),
        ("profiles", [{"profile": "quick", "parameters": {"runtime": {}}}], "/profiles/0/parameters/runtime"),
        ("per_day", 289, "/per_day"),
        ("problem", None, "/problem"),
    ],
)
def test_report_that_is_not_valid_is_refused(poll, member, value, pointer):
    response = poll(**{member: value})

    assert response.status_code == 400
    assert response.json()["pointer"].startswith(pointer)
    assert not ScheduleAdoption.objects.exists()


def test_list_of_schedules_takes_three_queries_for_them(reader, host, django_assert_num_queries):
    for number in range(5):
        make_schedule_adoption(make_host(f"web-{number}", pool="blue"))
    make_wanted_schedule(pool="blue", updated_by=make_user(Role.EDITOR))

    # The token, its last use, hosts, failures, last runs, marks, wanted schedules, adoptions, time zones.
    with django_assert_num_queries(9):
        rows = reader.get("/api/v1/schedules").json()["schedules"]

    assert len(rows) == 6
