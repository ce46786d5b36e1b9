"""Documentation pages: /docs/."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from benchapp.framework.pages.page_context import PAGES
from benchapp.overview.pages.docs.views import DIRECTORY, list_files, list_groups, list_pages, read_page
from tests.access_table import WEB
from tests.pages import Page

ROOT = Path(__file__).parents[4]
# Pages of their own header, downloads, parts of pages.
WITHOUT_HELP = {
    "agent_archive",
    "agent_release",
    "api_reference",
    "api_reference_page",
    "complete_word",
    "docs",
    "docs_file",
    "docs_page",
    "docs_search",
    "finish_oidc",
    "run_output",
    "run_table",
    "search_results",
    "shared_chart",
    "shared_chart_image",
    "shared_image",
    "shared_snapshot_image",
    "shared_study",
    "snapshot_image",
    "start_oidc",
    "thumbnail",
    "upload_raw",
}

pytestmark = pytest.mark.django_db


def list_page_names() -> set[str]:
    """Return the names of the URLs of pages that GET shows; redirects have none."""
    from benchapp.overview.pages.urls import urlpatterns

    shown = {route for route, rows in WEB.items() if any(row.method == "GET" for row in rows)}
    return {each.name for each in urlpatterns if each.name and str(each.pattern) in shown}


def test_every_page_of_the_folder_is_listed_once_and_served(client: Client) -> None:
    urls = [link["url"] for group in list_groups() for link in group["links"]]
    pages = {f"/docs/{path.stem}" for path in DIRECTORY.glob("*.md") if path.stem != "README"}

    assert len(urls) == len(set(urls))
    assert set(urls) >= pages
    assert {page.url for page in list_pages()} >= pages
    first = Page(client.get(reverse("docs")))
    assert set(urls) <= set(first.links)


def test_page_has_contents_navigation_and_search_for_everybody(client: Client) -> None:
    response = client.get("/docs/operations")
    page = Page(response)

    assert response.status_code == 200
    assert "#backup-and-restore" in page.links
    assert ("form", "/docs/search") in [(name, tag.get("action")) for name, tag in page.tags]
    current = [tag["href"] for name, tag in page.tags if name == "a" and tag.get("aria-current") == "page"]
    assert current == ["/docs/operations"]
    assert not [tag for name, tag in page.tags if (tag.get("src") or "").startswith(("http", "//"))]


@pytest.mark.parametrize(
    "path", ["/docs/nothing", "/docs/README", "/docs/files/../settings.py", "/docs/files/x.png"]
)
def test_what_is_not_documentation_is_not_found(path: str, client: Client) -> None:
    assert client.get(path).status_code == 404


def test_files_are_those_that_pages_link_to(client: Client) -> None:
    response = client.get("/docs/files/img/scaling.png")

    assert response["Content-Type"] == "image/png"
    assert response.content == (DIRECTORY / "img" / "scaling.png").read_bytes()
    assert response["X-Content-Type-Options"] == "nosniff"
    assert not [name for name in list_files() if name.endswith((".py", ".md"))]


def test_page_is_sent_once_per_etag_and_again_after_signing_in(viewer: Client) -> None:
    stranger = Client()
    # Sets the cookie that the sign-out form depends on, and with it the page.
    viewer.get("/docs/api")
    first = stranger.get("/docs/api")
    again = stranger.get("/docs/api", headers={"If-None-Match": first["ETag"]})
    signed_in = viewer.get("/docs/api", headers={"If-None-Match": first["ETag"]})
    twice = viewer.get("/docs/api", headers={"If-None-Match": signed_in["ETag"]})

    assert (again.status_code, again.content) == (304, b"")
    assert signed_in.status_code == 200
    assert twice.status_code == 304
    assert {answer["Cache-Control"] for answer in (first, again, signed_in)} == {"private, no-cache"}


def test_search_shows_sections_with_marked_words(client: Client) -> None:
    page = Page(client.get("/docs/search", {"text": "few samples"}))

    assert {"/docs/runs#few-samples", "/docs/badges#few-samples"} <= set(page.links)
    assert page.has("mark")


def test_links_of_before_lead_to_the_search(client: Client) -> None:
    assert client.get("/docs/search?q=few+samples")["Location"] == "/docs/search?text=few+samples"


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("", 200, "Enter words"),
        ("nosuchword", 200, "No section with “nosuchword”"),
        ("<script>", 200, "No section with “<script>”"),
        ("x" * 201, 400, "at most 200 characters"),
    ],
)
def test_search_without_hits_names_the_way_out(query: str, status: int, text: str, client: Client) -> None:
    response = client.get("/docs/search", {"text": query})

    assert response.status_code == status
    assert text in Page(response).words
    assert "“<script>" not in response.content.decode()


def test_every_page_has_help_and_every_help_a_section() -> None:
    names = list_page_names()

    documented = {each.name: each.documentation for each in PAGES.values() if each.documentation}
    assert set(documented) == names - WITHOUT_HELP
    assert names >= WITHOUT_HELP
    wrong = []
    for name, target in documented.items():
        page_name, _, anchor = target.partition("#")
        page = read_page(page_name)
        if page is None or (anchor and anchor not in page.anchors):
            wrong.append((name, target))
    assert wrong == []


def test_question_mark_opens_the_documentation_of_the_page(viewer: Client) -> None:
    scaling, documentation = viewer.get(reverse("scaling")), viewer.get("/docs/api")

    help_links = [
        [tag["href"] for name, tag in Page(each).tags if tag.get("class") == "help-link"]
        for each in (scaling, documentation)
    ]
    assert help_links == [["/docs/scaling"], ["/docs/"]]


def test_links_of_templates_to_the_documentation_have_a_section() -> None:
    found = {
        match
        for path in (ROOT / "templates").rglob("*.html")
        for match in re.findall(r"{% url 'docs_page' '(\w+)' %}(?:#([\w-]+))?", path.read_text())
    }

    wrong = [
        (name, anchor)
        for name, anchor in found
        if (page := read_page(name)) is None or (anchor and anchor not in page.anchors)
    ]
    assert len(found) > 5
    assert wrong == []


def test_image_of_containers_has_the_documentation() -> None:
    assert DIRECTORY == settings.BASE_DIR / "docs"
    assert "COPY docs docs\n" in (ROOT / "Dockerfile").read_text()
    assert "!docs" in (ROOT / ".dockerignore").read_text().splitlines()
