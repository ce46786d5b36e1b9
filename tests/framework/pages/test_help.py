"""The agent archive, the navigation, and the error pages."""

import io
import subprocess
import sys
import zipfile
from itertools import takewhile
from pathlib import Path

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse

from benchapp.framework.pages.access import fault
from benchapp.framework.pages.page_context import ACCOUNT, PLACES, Place
from benchapp.models import IncidentState
from benchapp.storage.agent_archive import build_agent_archive, read_agent_archive
from tests.factories import make_change, make_detection_policy, make_host, make_incident, make_series
from tests.pages import Page

AGENT = Path(__file__).parents[3] / "agent"


def test_same_sources_make_the_same_archive() -> None:
    assert build_agent_archive(AGENT) == build_agent_archive(AGENT)


def test_archive_holds_the_agent_without_tests_and_caches(tmp_path: Path) -> None:
    for name in ("commands/cli.py", "tests/test_cli.py", "__pycache__/cli.pyc", "jobs/quick.fio"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")

    archive = zipfile.ZipFile(io.BytesIO(build_agent_archive(tmp_path)))

    assert archive.namelist() == ["__main__.py", "agent/commands/cli.py", "agent/jobs/quick.fio"]


def test_archive_runs(tmp_path: Path) -> None:
    path = tmp_path / "bench-agent.pyz"
    path.write_bytes(build_agent_archive(AGENT))

    done = subprocess.run(
        [sys.executable, str(path), "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0
    assert "bench-agent" in done.stdout
    assert path.read_bytes().startswith(b"#!/usr/bin/env python3\n")


def test_incomplete_archive_says_so(tmp_path: Path) -> None:
    path = tmp_path / "bench-agent.pyz"
    content = build_agent_archive(AGENT)
    path.write_bytes(content[: len(content) // 2])

    ended = subprocess.run([sys.executable, path, "version"], capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "this-file-is-incomplete.download-bench-agent.pyz-again" in ended.stderr


@pytest.mark.django_db
def test_agent_is_public_and_sent_once_per_etag() -> None:
    response = Client().get(reverse("agent_archive"))
    again = Client().get(reverse("agent_archive"), headers={"If-None-Match": response["ETag"]})

    assert response.content == read_agent_archive()[0]
    assert response["Content-Disposition"] == 'attachment; filename="bench-agent.pyz"'
    assert (again.status_code, again.content) == (304, b"")


def read_bar(page: Page) -> list[tuple[str | None, str | None]]:
    """Return path and aria-current of the marked links before the content."""
    tags = [(tag.get("href"), tag.get("aria-current")) for name, tag in page.tags if name in ("a", "main")]
    marked = takewhile(lambda tag: tag[0] is not None, tags)
    return [(href.partition("?")[0], current) for href, current in marked if href and current]


@pytest.mark.parametrize(
    ("place", "name"), [(place, name) for place in (*PLACES, ACCOUNT) for name in place.names]
)
def test_bar_marks_the_place_and_tabs_the_page(place: Place, name: str, admin: Client) -> None:
    marked = read_bar(Page(admin.get(reverse(name))))

    entry = [(reverse(place.names[0]), "true")] if place in PLACES else []
    assert marked == entry + [(reverse(name), "page")] * (len(place.names) > 1)


def test_pages_below_a_tab_mark_it(editor: Client) -> None:
    series = make_series([1.0], host=make_host("db-1"))
    incident = make_incident(changes=[make_change(series)])
    pages = {
        reverse("host_settings", args=["db-1"]): "hosts",
        reverse("series_list"): "history",
        reverse("series_detection", args=[series.pk]): "history",
        reverse("experiment"): "compare",
        reverse("incident_baseline", args=[incident.pk]): "incidents",
        reverse("add_planned_event"): "planned_events",
        reverse("upload_files"): "uploads",
    }

    marked = {path: read_bar(Page(editor.get(path)))[-1] for path in pages}

    assert marked == {path: (reverse(view), "page") for path, view in pages.items()}
    assert read_bar(Page(editor.get(reverse("prices")))) == [(reverse("layouts"), "true")]


def test_bar_counts_the_open_incidents_of_the_inbox(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for state in (IncidentState.NEW, IncidentState.ACKNOWLEDGED, IncidentState.RESOLVED):
        make_incident(state=state)
    make_incident(is_regression=False)

    counted = Page(viewer.get(reverse("incidents"))).words
    monkeypatch.setattr("benchapp.framework.pages.page_context.OPEN_SHOWN_MAXIMUM", 1)
    limited = Page(viewer.get(reverse("incidents"))).words

    assert "Incidents 2 open" in counted
    assert "Open 2" in counted
    assert "Incidents 1+ open" in limited


def test_tab_without_rows_appears_with_the_first(editor: Client) -> None:
    policies = reverse("detection_policies")

    def list_tabs() -> list[str]:
        tags = Page(editor.get(reverse("incidents"))).tags
        return [tag["href"] for name, tag in tags if name == "a" and (tag["href"] or "").startswith(policies)]

    before = list_tabs()
    make_detection_policy()

    assert (before, list_tabs()) == ([], [policies])


def test_unknown_address_has_its_own_error_page(viewer: Client) -> None:
    response = viewer.get("/nowhere/")

    assert response.status_code == 404
    assert "Page not found" in response.content.decode()
    assert "tried" not in response.content.decode()


def test_fault_needs_neither_database_nor_session() -> None:
    response = fault(RequestFactory().get("/"))

    assert response.status_code == 500
    assert "Internal server error" in response.content.decode()


@pytest.mark.django_db
def test_unknown_server_name_is_a_bad_request() -> None:
    response = Client(SERVER_NAME="evil.example").get("/sign-in/")

    assert response.status_code == 400
    assert "evil.example" not in response.content.decode()
