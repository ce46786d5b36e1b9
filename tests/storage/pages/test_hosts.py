"""Hosts and their tokens."""

import hashlib
import os
import re
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs
from uuid import UUID

import pytest
from django.test import Client
from django.urls import resolve, reverse
from django.utils import timezone

from benchapp.accounts.write.tokens import TokenRefused, read_token
from benchapp.framework.pages.command_lines import list_agent_commands, list_update_commands
from benchapp.models import ApiToken, Host, Scope
from benchapp.overview.api import urls as api_urls
from benchapp.overview.pages import urls as web_urls
from benchapp.storage.agent_archive import read_agent_archive, read_agent_version
from benchapp.storage.pages.views import format_run_interval
from benchapp.storage.write.hosts import RESERVED_NAMES
from tests.factories import (
    NOON,
    add_series,
    calculate_levels,
    make_change,
    make_host,
    make_incident,
    make_run,
    make_series,
    make_token,
)
from tests.pages import Page

VERSION = read_agent_version()
TOKEN = re.compile(r"bench_[a-z0-9]{12}_[\w-]{51}")


def test_list_shows_last_seen_and_last_run(viewer: Client) -> None:
    host = make_host("db-01", pool="blue", last_seen_at=timezone.now(), agent_version="0.1.0")
    run = make_run(host, profile="ebs-series", error=5)

    page = Page(viewer.get(reverse("hosts")))

    assert "1 host" in page.words
    for words in ("db-01", "blue", "failed", "0.1.0", "6.1.0"):
        assert words in page.words
    assert reverse("run", args=[run.pk]) in page.links


def test_host_with_imported_results_only_was_never_seen(viewer: Client) -> None:
    Host.objects.filter(pk=make_run(make_host("db-01")).host_id).update(run_count=1)

    page = Page(viewer.get(reverse("host", args=["db-01"])))

    assert "Last seennever: its results were imported or uploaded" in page.words
    assert "last seen" not in page.words


@pytest.mark.parametrize(("pool", "query"), [("", "host:db-01"), ("blue 2", 'pool:"blue 2"')])
def test_page_links_the_charts_of_its_series(viewer: Client, pool: str, query: str) -> None:
    host = make_host("db-01", pool=pool)
    series = add_series([100.0, 101.0, 99.0], host=host)
    add_series([50.0, 51.0, 49.0], host=make_host("db-02"))

    page = Page(viewer.get(reverse("host", args=["db-01"])))

    for name in ("scaling", "matrix", "history"):
        links = [link for link in page.links if link.startswith(f"{reverse(name)}?")]
        assert {"q": [query]} in [parse_qs(link.partition("?")[2]) for link in links]
    (line,) = viewer.get("/api/v1/history", {"q": query}).json()["lines"]
    assert line["id"] == series.pk


def test_retired_hosts_show_on_demand(viewer: Client) -> None:
    make_host("old-01", retired_at=timezone.now())

    assert "old-01" not in viewer.get(reverse("hosts")).content.decode()
    assert "old-01" in viewer.get(reverse("hosts"), {"retired": "1"}).content.decode()


def test_outdated_agents_are_counted_marked_and_selected(viewer: Client) -> None:
    make_host("db-01", agent_version="0.0.9")
    make_host("db-02", agent_version="99.0.0")

    page = Page(viewer.get(reverse("hosts")))
    chosen = Page(viewer.get(reverse("hosts"), {"outdated": "1"}))
    one = Page(viewer.get(reverse("host", args=["db-01"])))
    fleet = viewer.get("/api/v1/hosts", {"is_agent_outdated": "false"}).json()["hosts"]

    assert "2 hosts, 1 with an outdated agent" in page.words
    assert "0.0.9 outdated" in page.words
    assert "99.0.0 outdated" not in page.words
    assert "1 host, 1 with an outdated agent" in chosen.words
    assert "db-02" not in chosen.words
    assert "0.0.9 outdated this server ships" in one.words
    assert [(host["name"], host["is_agent_outdated"]) for host in fleet] == [("db-02", False)]


@pytest.mark.parametrize(
    ("installation", "command"),
    [
        ("zipapp", "mv bench-agent.pyz.new bench-agent.pyz"),
        ("deb", f"apt-get install ./bench-agent_{VERSION}_all.deb"),
        ("rpm", f"dnf install ./bench-agent-{VERSION}-1.noarch.rpm"),
        ("wheel", f"pip install --upgrade ./bench_agent-{VERSION}-py3-none-any.whl"),
        ("container", "docker build --file packaging/container/Dockerfile"),
        ("checkout", "git pull"),
        ("", "Commands for each kind of installation"),
    ],
)
def test_outdated_agent_is_shown_with_the_command_that_updates_it(
    viewer: Client, installation: str, command: str
) -> None:
    make_host("db-01", agent_version="0.0.9", agent_installation=installation)
    make_host("db-02", agent_version="99.0.0", agent_installation=installation)

    outdated, newer = (Page(viewer.get(reverse("host", args=[name]))) for name in ("db-01", "db-02"))

    assert command in outdated.words
    assert command not in newer.words
    assert viewer.get("/api/v1/hosts/db-01").json()["agent_installation"] == installation


def test_dropped_results_are_shown_on_the_page_of_the_host_on_the_overview_and_by_the_api(
    viewer: Client,
) -> None:
    make_run(make_host("db-01", dropped_count=3, dropped_at=timezone.now() - timedelta(days=1)))
    make_host("db-02", dropped_count=9, dropped_at=timezone.now() - timedelta(days=8))
    make_host("db-03")

    pages = [Page(viewer.get(reverse("host", args=[name]))).words for name in ("db-01", "db-03")]
    overview = Page(viewer.get("/")).words

    assert "Dropped results3 by the full spool of the agent, last " in pages[0]
    assert "Dropped results" not in pages[1]
    assert "db-01 dropped results 3: the spool of its agent was full" in overview
    assert "9: the spool" not in overview
    assert viewer.get("/api/v1/hosts/db-01").json()["dropped_count"] == 3


def test_command_for_a_downloaded_agent_replaces_it_by_what_the_server_sends(tmp_path: Path) -> None:
    download, verify = list_update_commands("https://bench.example.com", "zipapp")
    assert download.endswith(" https://bench.example.com/agent/bench-agent.pyz")
    installed, new = tmp_path / "bench-agent.pyz", tmp_path / "bench-agent.pyz.new"
    installed.write_bytes(b"old")

    for content in (b"cut", read_agent_archive()[0]):
        new.write_bytes(content)
        status = subprocess.run(verify, shell=True, cwd=tmp_path, capture_output=True, check=False).returncode
        assert (status == 0, installed.read_bytes()) == (
            content != b"cut",
            content if status == 0 else b"old",
        )

    assert (new.exists(), os.access(installed, os.X_OK)) == (False, True)


def test_agent_that_updates_itself_goes_on_without_an_update(client: Client) -> None:
    # What agents before this version read, and when they install (agent/updating/release.py and update_command.py).
    version = re.compile(r"\d{1,6}(\.\d{1,6}){1,3}", re.ASCII)

    response = client.get("/api/v1/agent", headers={"Authorization": "Bearer bench_of_any_host"})

    body = response.json()
    assert response.status_code == 200
    assert version.fullmatch(body["version"])
    assert re.fullmatch(r"[0-9a-f]{64}", body["sha256"])
    assert isinstance(body["size_bytes"], int)
    assert body["signature"] is None
    # Neither an automatic update nor `self-update` by hand.
    assert body["is_offered"] is False
    assert [int(part) for part in body["version"].split(".")] < [0, 0, 1]


SCHEDULE = [{"profile": "quick", "every_s": 21600, "splay_s": 600, "directory": "/data"}]


def test_silent_host_is_labeled_in_the_list_and_on_its_page(viewer: Client) -> None:
    host = make_host("db-01", schedule=SCHEDULE, schedule_since_at=NOON)
    make_run(host, profile="quick", started_at=NOON + timedelta(hours=6))
    make_host("db-02", schedule=[], schedule_since_at=NOON)

    with mock.patch("django.utils.timezone.now", return_value=NOON + timedelta(days=3)):
        listed = Page(viewer.get(reverse("hosts"))).words
        page = Page(viewer.get(reverse("host", args=["db-01"]))).words
        settings = Page(viewer.get(reverse("host_settings", args=["db-01"]))).words

    assert listed.count("silent") == 2  # in the title and in the row
    assert "2 hosts, 1 silent" in listed
    assert "db-01: silent since 22 Nov 2026 01:40 UTC" in page
    assert "every 6 h, random delay up to 10 min" in settings


def test_host_in_time_shows_its_next_expected_run(viewer: Client) -> None:
    host = make_host("db-01", schedule=SCHEDULE, schedule_since_at=NOON)
    make_run(host, profile="quick", started_at=NOON + timedelta(hours=6))

    with mock.patch("django.utils.timezone.now", return_value=NOON + timedelta(hours=7)):
        listed = Page(viewer.get(reverse("hosts"))).words
        page = Page(viewer.get(reverse("host", args=["db-01"]))).words

    assert "22 Nov 2026 00:00 UTC" in page
    assert "silent" not in listed
    assert "silent since" not in page


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "no schedule reported"),
        ({"schedule": [], "schedule_since_at": NOON}, "empty schedule"),
        ({"schedule": SCHEDULE, "schedule_since_at": NOON, "retired_at": NOON}, "host is retired"),
    ],
)
def test_host_without_expected_runs_is_not_silent(viewer: Client, fields: dict[str, Any], words: str) -> None:
    make_host("db-01", **fields)

    page = Page(viewer.get(reverse("host", args=["db-01"]))).words
    listed = Page(viewer.get(reverse("hosts"), {"retired": "1"})).words

    assert words in page
    assert "silent" not in listed
    assert "silent since" not in page


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (60, "1 min"),
        (90, "90 s"),
        (900, "15 min"),
        (21600, "6 h"),
        (86400, "day"),
        (604800, "7 days"),
        (5400, "90 min"),
    ],
)
def test_interval_is_formatted_in_its_largest_unit(seconds: int, words: str) -> None:
    assert format_run_interval(seconds) == words


def test_server_without_hosts_shows_how_to_add_one(viewer: Client) -> None:
    words = Page(viewer.get(reverse("hosts"))).words

    assert "No hosts" in words
    assert "http://testserver/agent/bench-agent.pyz" in words
    assert "bench-agent.pyz enroll http://testserver" in words


def test_page_shows_the_digest_of_the_agent_that_is_served(viewer: Client) -> None:
    served = hashlib.sha256(viewer.get(reverse("agent_archive")).content).hexdigest()

    words = Page(viewer.get(reverse("hosts"))).words

    assert f"SHA-256, {served}," in words
    assert f"echo '{served} bench-agent.pyz' | sha256sum --check" in words


@pytest.mark.parametrize(("addition", "is_kept"), [(b"", True), (b"#", False)])
def test_download_that_differs_from_the_digest_is_removed(
    viewer: Client, tmp_path: Path, addition: bytes, is_kept: bool
) -> None:
    file = tmp_path / "bench-agent.pyz"
    file.write_bytes(viewer.get(reverse("agent_archive")).content + addition)

    subprocess.run(list_agent_commands("https://bench.example.com")[1], shell=True, cwd=tmp_path, check=True)

    assert file.exists() == is_kept


def test_agent_is_fetched_by_https_where_the_public_address_has_it(viewer: Client, settings: Any) -> None:
    settings.PUBLIC_URL = "https://bench.example.com"

    words = Page(viewer.get(reverse("hosts"))).words

    assert "curl -fsS -o bench-agent.pyz https://bench.example.com/agent/bench-agent.pyz" in words
    assert "bench-agent.pyz enroll https://bench.example.com" in words
    assert "http://" not in words


def test_viewer_sees_no_tokens_and_no_buttons(viewer: Client) -> None:
    host = make_host("db-01")
    token, _ = make_token(host=host)

    for name in ("host", "host_settings"):
        text = viewer.get(reverse(name, args=["db-01"])).content.decode()

        assert token.public_id not in text
        assert "Retire host" not in text
        assert "Create token" not in text


def test_query_count_does_not_depend_on_the_number_of_hosts(admin: Client, django_assert_num_queries) -> None:
    for number in range(4):
        make_token(host=add_series([100.0], host=make_host(f"db-{number}")).host)

    # Session, person, hosts, failures, last runs, marks, levels of the histories, new incidents of the bar.
    with django_assert_num_queries(11):
        admin.get(reverse("hosts"))


def test_token_of_a_new_host_is_shown_once_and_works(admin: Client) -> None:
    response = admin.post(reverse("add_host"), {"name": "DB-09", "label": "cron"})
    first = admin.get(response["Location"]).content.decode()
    second = admin.get(response["Location"]).content.decode()

    (secret,) = set(TOKEN.findall(first))
    assert not TOKEN.findall(second)
    assert read_token(secret).host == Host.objects.get(name="db-09")


@pytest.mark.parametrize(("name", "words"), [("<b>x</b>", "is not a valid host name"), ("ME", "is reserved")])
def test_invalid_or_reserved_name_adds_nothing(admin: Client, name: str, words: str) -> None:
    admin.post(reverse("add_host"), {"name": name})

    assert words in admin.get(reverse("hosts")).content.decode()
    assert not Host.objects.exists()


def test_second_token_leaves_the_first_valid(admin: Client) -> None:
    host = make_host("db-01")
    _, first = make_token(host=host)

    admin.post(reverse("make_host_token", args=["db-01"]), {"label": "new key"})

    assert read_token(first).host == host
    assert host.tokens.count() == 2


def test_revoked_token_is_rejected(admin: Client) -> None:
    token, secret = make_token(host=make_host("db-01"))

    response = admin.post(reverse("revoke_token", args=[token.public_id]))

    assert response["Location"].partition("?")[0] == "/hosts/db-01/settings/"
    with pytest.raises(TokenRefused):
        read_token(secret)
    assert "revoked" in admin.get("/hosts/db-01/settings/").content.decode()


def test_retired_host_keeps_its_history_and_its_tokens_are_rejected(admin: Client) -> None:
    host = make_host("db-01")
    run = make_run(host)
    _, secret = make_token(host=host)

    admin.post(reverse("set_retired", args=["db-01"]), {"retired": "yes"})

    with pytest.raises(TokenRefused):
        read_token(secret)
    assert admin.get(reverse("run", args=[run.pk])).status_code == 200
    admin.post(reverse("set_retired", args=["db-01"]), {"retired": "no"})
    assert read_token(secret).host == host


def test_host_joins_and_leaves_a_pool(admin: Client) -> None:
    host = make_host("db-01")
    make_series([1.0, 2.0], host=host)

    preview = Page(admin.get(reverse("set_pool", args=["db-01"]), {"pool": "blue"}))
    moved = Page(admin.post(reverse("set_pool", args=["db-01"]), {"pool": "blue"}, follow=True))
    host.refresh_from_db()
    assert host.pool == "blue"

    assert "1, with 2 results" in preview.words
    assert "db-01 moved to pool blue, with 1 series" in moved.words
    # The form of Undo has the former pool.
    assert "Moved from no pool. Undo" in moved.words
    undone = Page(admin.post(reverse("set_pool", args=["db-01"]), {"pool": ""}, follow=True))
    host.refresh_from_db()
    assert host.pool == ""
    assert "db-01 moved out of its pool, with 1 series" in undone.words


def test_preview_of_a_move_says_which_levels_it_mixes(admin: Client) -> None:
    own = make_series([700.0] * 8, host=make_host("db-01"))
    pool = make_host("db-02", pool="blue")
    pooled = make_series([1000.0] * 8, host=pool, target=own.target, workload=own.workload)
    incident = make_incident(changes=[make_change(own)])
    calculate_levels()

    page = Page(admin.get(reverse("set_pool", args=["db-01"]), {"pool": "blue"}))
    joins = admin.get("/api/v1/hosts/db-01/pool-move?pool=blue").json()["joins"]

    assert (
        "1 of 1 joined series would mix different levels, by −30 % at most; 1 with an open incident."
        in page.words
    )
    assert "700 IOPS1\u202f000 IOPS−30 %db-01: incident" in page.words.replace("IOPS ", "IOPS").replace(
        "% ", "%"
    )
    (join,) = joins
    assert (join["series"], join["other_series"], join["is_apart"]) == (own.pk, pooled.pk, True)
    assert (join["median"], join["other_median"], join["relative"]) == (700.0, 1000.0, pytest.approx(-0.3))
    assert (join["incidents"], join["other_incidents"]) == ([incident.pk], [])


def test_preview_of_a_move_to_equal_hosts_has_no_warning(admin: Client) -> None:
    own = make_series([1000.0] * 8, host=make_host("db-01"))
    make_series([1010.0] * 8, host=make_host("db-02", pool="blue"), target=own.target, workload=own.workload)
    calculate_levels()

    page = Page(admin.get(reverse("set_pool", args=["db-01"]), {"pool": "blue"}))

    assert "would mix" not in page.words
    assert "−1.0 %" in page.words


def test_enrollment_token_is_shown_with_the_commands_that_use_it(admin: Client) -> None:
    admin.post(reverse("make_enrollment_token"))

    text = admin.get(reverse("hosts")).content.decode()

    (secret,) = set(TOKEN.findall(text))
    assert f"BENCH_AGENT_ENROLL_TOKEN={secret} python3 bench-agent.pyz enroll http://testserver" in text
    token = ApiToken.objects.get(scope=Scope.ENROLL)
    assert token.expires_at is not None
    assert token.expires_at - timezone.now() < timedelta(hours=25)


def test_existing_host_with_a_reserved_name_gets_tokens(admin: Client) -> None:
    host = make_host("me")

    response = admin.post(reverse("make_host_token", args=["me"]))

    assert response.status_code == 302
    assert host.tokens.count() == 1


def test_every_sibling_path_of_host_names_is_reserved_or_free_of_conflicts() -> None:
    """A host named like a sibling of `hosts/<name>` must be found at its own addresses."""
    routes = [(str(pattern.pattern), "/") for pattern in web_urls.urlpatterns]
    routes += [(str(pattern.pattern), "/api/v1/") for pattern in api_urls.urlpatterns]
    words = {route.split("/")[1] for route, _ in routes if route.startswith("hosts/")}
    names = {word for word in words if word and "<" not in word} - RESERVED_NAMES

    assert names == {"add", "enrollment"}
    for name in names:
        for route, prefix in routes:
            if route.startswith(("hosts/<host_name:name>", "hosts/<str:name>")):
                address = re.sub("<uuid:[^>]*>", str(UUID(int=1)), prefix + route)
                assert resolve(re.sub("<[^>]*>", name, address)).kwargs["name"] == name


def test_settings_have_labels_schedule_pool_and_tokens_and_the_host_page_has_not(admin: Client) -> None:
    host = make_host("db-01", pool="blue", schedule=SCHEDULE, schedule_since_at=NOON)
    make_run(host, labels={"rack": "r12"})
    token, _ = make_token(host=host)

    state = Page(admin.get(reverse("host", args=["db-01"])))
    settings = Page(admin.get(reverse("host_settings", args=["db-01"])))

    for words in ("rack", "r12", "every 6 h", token.public_id, "Retire host", "Preview the move"):
        assert words in settings.words
    for words in (token.public_id, "Retire host", "Preview the move"):
        assert words not in state.words
    assert reverse("host_settings", args=["db-01"]) in state.links
    assert reverse("host", args=["db-01"]) in settings.links


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("set_pool", {"pool": "blue"}),
        ("set_retired", {"retired": "yes"}),
        ("make_host_token", {"label": "x"}),
    ],
)
def test_forms_of_the_settings_lead_back_to_them(name: str, values: dict[str, str], admin: Client) -> None:
    make_host("db-01")

    response = admin.post(reverse(name, args=["db-01"]), values)

    assert response["Location"].partition("?")[0] == "/hosts/db-01/settings/"
