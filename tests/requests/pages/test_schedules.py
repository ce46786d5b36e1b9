"""Schedules of pools and hosts: edited with a preview, compared with what hosts run, with their history."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.models import Host, Role, User, WantedSchedule
from tests.factories import (
    make_environment,
    make_host,
    make_run,
    make_schedule_adoption,
    make_user,
    make_wanted_schedule,
)

FORM = {
    "pool": "blue",
    "profile": "quick",
    "parameters": "runtime=10 size=64m",
    "directory": "/data",
    "every": "6h",
    "at": "02:00",
    "splay_min": "30",
}
POOL = "/schedules/scope/?pool=blue"


@pytest.fixture
def host(db: Any) -> Host:
    """Make a host of the pool blue that adopts schedules."""
    host = make_host("db-7", pool="blue")
    make_schedule_adoption(host)
    make_run(host, environment=make_environment(facts={"time_zone": "Asia/Tokyo"}))
    return host


def sign_in(role: Role, **fields: Any) -> Client:
    """Return the client of a person."""
    client = Client()
    client.force_login(make_user(role, **fields))
    return client


def read(client: Client, address: str) -> str:
    """Return a page."""
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def test_editor_saves_changes_and_removes_a_schedule_and_the_history_names_who(host: Host) -> None:
    client = sign_in(Role.EDITOR, username="anna")

    saved = client.post("/schedules/save", FORM)
    row = WantedSchedule.objects.get()
    edit = read(client, f"{POOL}&edit={row.pk}")
    client.post("/schedules/save", {**FORM, "edit": row.pk, "every": "1d"})
    removed = client.post(f"/schedules/{row.pk}/remove", follow=True).content.decode()

    assert saved.headers["Location"] == POOL
    assert (row.parameters, row.at_minute, row.splay_s) == ({"runtime": 10, "size": 67108864}, 120, 1800)
    assert 'value="size=64m runtime=10"' in edit and 'value="02:00"' in edit and "Change quick" in edit
    assert not WantedSchedule.objects.exists()
    history = removed.partition('id="history"')[2]
    assert history.count("anna") == 3
    assert "every 6h at 02:00, spread over 30 min, in /data, runtime=10" in history
    assert "every 1d at 02:00" in history


def test_preview_shows_the_start_of_each_host_and_saves_nothing(host: Host) -> None:
    make_host("db-8", pool="blue")
    client = sign_in(Role.EDITOR)

    page = client.post("/schedules/save", {**FORM, "every": "1d", "preview": "yes"}).content.decode()

    preview = page.partition('id="preview"')[2].partition('id="hosts"')[0]
    assert "every day at 02:" in preview
    # 02:00 to 02:29 in Tokyo.
    assert preview.count(" 17:") >= 5
    assert "Next five starts (UTC)" in preview
    assert "the host does not adopt schedules of the server" in preview
    assert not WantedSchedule.objects.exists()


def test_starts_have_the_format_and_the_zone_of_other_times_of_the_page(host: Host) -> None:
    make_wanted_schedule(pool="blue", every_s=43_200, at_minute=120, splay_s=0)
    client = sign_in(Role.EDITOR, username="anna")
    User.objects.update(time_zone="Asia/Kathmandu")

    page = read(client, POOL)

    # 02:00 and 14:00 in Tokyo.
    assert "Next five starts (Asia/Kathmandu)" in page
    assert re.search(r"\b\d{1,2} [A-Z][a-z]{2} 10:45, 22:45\b", page)


def test_preview_names_what_a_host_refuses(host: Host) -> None:
    client = sign_in(Role.EDITOR)

    page = client.post("/schedules/save", {**FORM, "parameters": "runtime=99", "preview": "yes"})

    assert "the host does not allow the value of one of these parameters" in page.content.decode()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": "runtime=10ms"}, "&#x27;10ms&#x27; is not a valid duration; use seconds (90)"),
        ({"parameters": "size=64x"}, "not a valid size; use bytes (4096) or a unit (64m, 64MiB, 64MB, 1.5g)"),
        ({"profile": "a b"}, "Use 1 to 100 letters"),
        ({"parameters": "runtime"}, "&#x27;runtime&#x27; is not NAME=VALUE."),
        ({"directory": "data"}, "Use an absolute path"),
        ({"every": "5h"}, "5h is not one of the available choices"),
        ({"every": "never"}, "never is not one of the available choices"),
        ({"at": "24:00"}, "is not a time of day"),
        ({"splay_min": "360"}, "Use whole minutes, less than the interval"),
    ],
)
def test_wrong_values_are_named_at_their_field(host: Host, changes: dict[str, str], message: str) -> None:
    response = sign_in(Role.EDITOR).post("/schedules/save", {**FORM, **changes})

    assert response.status_code == 400
    assert message in response.content.decode()
    assert not WantedSchedule.objects.exists()


def test_host_overrides_its_pool(host: Host) -> None:
    make_wanted_schedule(pool="blue")
    client = sign_in(Role.EDITOR)

    client.post("/schedules/save", {"host": "db-7", "profile": "quick", "every": "never"})
    page = read(client, "/schedules/scope/?host=db-7")

    assert "not on this host" in page and "Of pool" in page
    assert WantedSchedule.objects.filter(host=host, every_s=None).exists()
    assert client.get("/schedules/scope/?host=db-9").status_code == 404


def test_schedule_of_another_pool_cannot_be_changed_through_a_scope(host: Host) -> None:
    other = make_wanted_schedule(pool="green")

    sign_in(Role.EDITOR).post("/schedules/save", {**FORM, "edit": other.pk})

    other.refresh_from_db()
    assert other.every_s == 21600 and other.pool == "green"
    assert WantedSchedule.objects.filter(pool="blue").count() == 1


def test_viewer_sees_no_form_and_names_are_escaped(host: Host) -> None:
    make_wanted_schedule(pool="<b>x", directory="/<i>")
    host.schedule_adoption.problem = "<script>x</script>"
    host.schedule_adoption.save()
    client = sign_in(Role.VIEWER)

    pages = [read(client, address) for address in ("/schedules/", "/schedules/scope/?pool=%3Cb%3Ex", POOL)]

    for page in pages:
        assert "<b>x" not in page and "<i>" not in page and "<script>x" not in page
        assert "/schedules/save" not in page
    assert "&lt;script&gt;x" in pages[2]


def test_list_counts_hosts_that_adopt_and_differ(host: Host) -> None:
    make_host("db-8", pool="blue")
    make_wanted_schedule(pool="blue")
    entry = {
        "profile": "quick",
        "every_s": 21600,
        "splay_s": 0,
        "directory": "/data",
        "at_minute": 0,
        "parameters": {},
        "is_from_server": True,
    }
    Host.objects.filter(name="db-7").update(schedule=[entry], schedule_since_at=timezone.now())
    client = sign_in(Role.VIEWER)

    page = read(client, "/schedules/")
    hosts = read(client, "/hosts/?different=1")

    assert '<td class="number">2</td>\n    <td>quick</td>\n    <td class="number">1</td>' in page
    assert "db-8" in hosts and "db-7" not in hosts


def test_settings_of_a_host_compare_wanted_and_installed(host: Host) -> None:
    make_wanted_schedule(pool="blue")
    client = sign_in(Role.VIEWER)

    page = read(client, "/hosts/db-7/settings/")
    other = read(client, f"/hosts/{make_host('db-9').name}/settings/")

    assert "missing" in page and "every 6 h at 00:00, in /data" in page and "before the last change" in page
    assert "has not asked for a schedule" in other


def test_pages_take_a_bounded_number_of_queries(host: Host, django_assert_max_num_queries: Any) -> None:
    for number in range(5):
        make_schedule_adoption(make_host(f"web-{number}", pool="blue"))
    make_wanted_schedule(pool="blue")
    client = sign_in(Role.VIEWER)

    with django_assert_max_num_queries(10):
        read(client, "/schedules/")
    with django_assert_max_num_queries(12):
        read(client, POOL)


@pytest.mark.parametrize("name", ["host", "pool"])
def test_name_with_nul_is_not_found(host: Host, name: str) -> None:
    editor = sign_in(Role.EDITOR)
    form = {key: value for key, value in FORM.items() if key != "pool"}

    assert editor.get(f"/schedules/scope/?{name}=db-7%00").status_code == 404
    assert editor.post("/schedules/save", {**form, name: "db-7\x00"}).status_code == 404
