"""The search page and the results of the search dialog."""

import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from django.test import Client, override_settings
from django.urls import reverse

from benchapp.framework.pages.page_context import PAGES
from benchapp.models import Role
from benchapp.overview.read.search import RUNS_SEARCHED, rank_match
from tests.access_table import EVERYBODY, WEB
from tests.factories import NOON, make_change, make_host, make_incident, make_run, make_series, make_target
from tests.pages import Page


def find(client: Client, text: str, name: str = "search_results") -> Page:
    response = client.get(reverse(name), {"text": text})
    assert response.status_code == 200
    return Page(response)


def groups_of(page: Page) -> list[str]:
    return [str(tag["data-group"]) for _, tag in page.tags if "data-group" in tag]


@pytest.mark.parametrize(
    ("text", "candidate", "rank"),
    [
        ("db-01", "DB-01", 0),
        ("db", "db-01", 1),
        ("01", "db-01", 2),
        ("b-0", "db-01", 3),
        ("01 db", "db-01", 3),
        ("db 02", "db-01", None),
        ("(", "a (b", 2),
    ],
)
def test_rank_is_exact_then_prefix_then_word_then_any_place(
    text: str, candidate: str, rank: int | None
) -> None:
    assert rank_match(text, candidate) == rank


def test_every_kind_is_found(viewer: Client) -> None:
    host = make_host("db-01")
    series = make_series([1.0], host=host, target=make_target(volume_type="gp3", volume_count=16))
    run = make_run(host, profile="nightly")
    incident = make_incident(title="p99 of db-01 regressed")

    page = find(viewer, "db-01")

    assert groups_of(page)[0] == "Hosts"
    assert {"Runs", "Incidents", "Series"} <= set(groups_of(page))
    assert {
        reverse("host", args=["db-01"]),
        reverse("series", args=[series.pk]),
        reverse("run", args=[run.pk]),
        reverse("incident", args=[incident.pk]),
        f"{reverse('series_list')}?q=db-01",
    } <= set(page.links)
    assert reverse("run", args=[run.pk]) in find(viewer, f"run {run.pk}").links
    assert reverse("run", args=[run.pk]) in find(viewer, "nightly").links


def test_hosts_are_ranked_and_bounded(viewer: Client) -> None:
    for name in ("xdb", "a-db", "db", "db-2", *(f"db-3{place}" for place in range(5))):
        make_host(name)

    hosts = [link for link in find(viewer, "db").links if link.startswith("/hosts/")]

    assert hosts[:3] == ["/hosts/db/", "/hosts/db-2/", "/hosts/db-30/"]
    assert (len(hosts), hosts[-1]) == (7, "/hosts/?text=db")


def test_filter_leads_to_the_pages_that_show_what_matches(viewer: Client) -> None:
    series = make_series(
        [1.0], host=make_host("db-01"), target=make_target(volume_type="gp3", volume_count=16)
    )

    page = find(viewer, "gp3 16 volumes")

    assert groups_of(page)[:2] == ["Filter: Volumes 16; “gp3”", "Series"]
    assert page.links[:2] == ["/series/?q=volume_count%3A16+gp3", "/history/?q=volume_count%3A16+gp3"]
    assert find(viewer, "gp3 16 volumes last week").links[:6] == [
        *(
            f"/{name}/?q=gp3+16+volumes+last+week"
            for name in ("series", "history", "scaling", "matrix", "runs")
        ),
        reverse("series", args=[series.pk]),
    ]
    # Pages without a metric are left out.
    assert not [link for link in find(viewer, "gp3 p99").links if link.startswith("/runs/?")]


def test_misspelled_words_are_corrected_and_nothing_found_says_so(viewer: Client) -> None:
    make_host("db-01")

    assert "/search/?text=radnom+read" not in find(viewer, "radnom read").links
    assert "/search/?text=random+read" in find(viewer, "radnom read").links
    assert "Nothing matches “zzzzqq”" in find(viewer, "zzzzqq").words


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "%", "_", "\\", "a\x00b", "(((", "16", '"', "99999999999999999999"]
)
def test_hostile_text_finds_nothing_it_should_not(text: str, viewer: Client) -> None:
    make_host("db-01")

    response = viewer.get(reverse("search"), {"text": text})

    assert response.status_code == 200
    assert "<script>alert" not in response.content.decode()
    assert "/hosts/db-01/" not in Page(response).links


def test_text_that_is_too_long_is_refused(viewer: Client) -> None:
    response = viewer.get(reverse("search"), {"text": "a" * 201})

    assert response.status_code == 400
    assert "at most 200 characters; this text has 201" in Page(response).words


def test_actions_are_those_of_the_role(visitor: Callable[[Role], Client], client: Client) -> None:
    links = {role: set(find(visitor(role), "").links) for role in Role}
    with override_settings(PUBLIC_READ=True):
        anonymous = set(find(client, "").links)

    rows = {each.url: WEB[each.url.removeprefix("/")][0] for each in PAGES.values() if each.label}
    for place, role in enumerate((Role.VIEWER, Role.EDITOR, Role.ADMIN), 1):
        assert links[role] == {url for url, row in rows.items() if row.cells[place] == "+"}
    assert anonymous == {url for url, row in rows.items() if row.public or row == EVERYBODY}


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("add host", "/hosts/#add"),
        ("How do I add a host", "/hosts/#add"),
        ("rename db-03", "/rename?scope=host%3Adb-03"),
        ("invite user", "/people/#invite"),
        ("create token", "/tokens/"),
        ("plan event", "/maintenance/add"),
        ("delete runs", "/corrections/delete"),
        ("level", "/docs/glossary#level"),
        ("compare db-03 DB-05", "/compare/?a=host%3Adb-03&b=host%3Adb-05"),
        ("db-03 vs db-05", "/compare/?a=host%3Adb-03&b=host%3Adb-05"),
        ("db-03 db-05", "/compare/?a=host%3Adb-03&b=host%3Adb-05"),
        ("random read vs random write", "/compare/?a=pattern%3Arandread&b=pattern%3Arandwrite"),
        ("run 41 and run 42", "/compare/?a_run=41&b_run=42"),
    ],
)
def test_what_people_type_leads_there_first(text: str, first: str, admin: Client) -> None:
    make_host("db-03")
    make_host("db-05")

    assert find(admin, text).links[0] == first


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("which host got slower", "/hosts/?sort=-worst"),
        ("slowest host", "/hosts/?sort=-worst"),
        ("what got slower?", "/incidents/"),
        ("did any of the volumes get worse", "/incidents/"),
        ("gp3 slower", "/incidents/?q=volume_type%3Agp3"),
        ("16 volumes gp3 slower", "/incidents/?q=volume_count%3A16+volume_type%3Agp3"),
        ("regressions random read last week", "/incidents/?q=pattern%3Arandread&from=2026-11-14"),
        ("db-03 slow", "/hosts/db-03/"),
        ("why is db-03 slower since yesterday", "/hosts/db-03/?from=2026-11-20"),
        ("db-03 db-05 slow", "/incidents/?q=host%3Adb-03%2Cdb-05"),
        ("is anything wrong", "/"),
        ("are all hosts ok", "/"),
        ("what changed", "/#changes"),
        ("What changed last week?", "/?from=2026-11-14#changes"),
        ("did the kernel update slow us down", "/#changes"),
        ("failed runs", "/runs/?failed=1"),
        ("failed runs db-03", "/runs/?failed=1&q=host%3Adb-03"),
        ("silent hosts", "/hosts/?sort=last_run"),
        ("fastest volume", "/layouts/"),
        # A word that is no part of a question.
        ("change the password", "/account/#password"),
        ("error codes", "/docs/errors"),
        ("change", "/docs/glossary#change"),
    ],
)
def test_question_leads_to_the_page_that_answers(
    text: str, first: str, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchapp.overview.pages.search.timezone", SimpleNamespace(now=lambda: NOON))
    make_series([1.0], host=make_host("db-03"), target=make_target(volume_type="gp3", volume_count=16))
    make_host("db-05")

    assert find(admin, text).links[0] == first


def test_question_lists_what_answers_it(viewer: Client) -> None:
    series = make_series([1.0], host=make_host("db-03"))
    make_host("db-05")
    incident = make_incident(title="IOPS of db-03 −25 %", changes=[make_change(series)])

    assert find(viewer, "what got slower").links[:2] == [
        "/incidents/",
        reverse("incident", args=[incident.pk]),
    ]
    assert reverse("incident", args=[incident.pk]) in find(viewer, "db-03 slow").links
    assert "no open incidents" in find(viewer, "db-05 slow").words
    assert "no changes" in find(viewer, "what changed").words


@pytest.mark.parametrize(
    ("text", "is_compared"),
    [
        ("gp3 and io2", True),
        ("compare gp3 with 16 volumes", True),
        ("gp3 with 16 volumes", False),
        ("random read and write", False),
        ("random read with depth 32", False),
        ("gp3 and xfs", False),
        ("gp3 vs GP3", False),
        ("random read last week vs random write", False),
    ],
)
def test_filter_equal_sides_and_times_are_not_compared(text: str, is_compared: bool, viewer: Client) -> None:
    for volume_type in ("gp3", "io2"):
        make_series([1.0], target=make_target(volume_type=volume_type, filesystem="xfs"))

    assert ("Compare" in groups_of(find(viewer, text))) == is_compared


def test_viewers_find_no_actions_of_admins(viewer: Client) -> None:
    assert "/people/#invite" not in find(viewer, "invite user").links


# What no menu leads to: the search, forms of strangers, pages of a part or that need an argument, and redirects.
NOT_LISTED = {
    "search/",
    "sign-in/",
    "sign-in/oidc/",
    "reset-password/",
    "schedules/scope/",
    "overview/charts/regressions/",
} | {
    "incidents/status/",
    "dependence/",
}


def test_every_page_is_found_by_its_title(admin: Client) -> None:
    paths = {
        path
        for path, rows in WEB.items()
        if rows
        and rows[0].method == "GET"
        and "<" not in path
        and re.fullmatch(r"|.*/|.*/add|corrections/.*", path)
    }
    titles = {each.url.removeprefix("/"): each.label for each in PAGES.values() if each.label}

    assert set(titles) == paths - NOT_LISTED
    for path, title in titles.items():
        page = Page(admin.get(f"/{path}"))
        first = find(admin, title)

        assert f"/{path}" in first.links, title
        assert title.lower() in page.words.lower(), title


def test_runs_beyond_the_newest_are_found_by_their_number_only(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert RUNS_SEARCHED >= 1000
    monkeypatch.setattr("benchapp.overview.read.search.RUNS_SEARCHED", 1)
    host = make_host("db-01")
    run = make_run(host, profile="weekly")
    make_run(host, profile="nightly")

    assert reverse("run", args=[run.pk]) not in find(viewer, "weekly").links
    assert reverse("run", args=[run.pk]) in find(viewer, f"#{run.pk}").links


def test_search_takes_a_fixed_number_of_queries(
    viewer: Client, django_assert_max_num_queries: Callable[..., object]
) -> None:
    make_series([1.0], host=make_host("db-01"))
    find(viewer, "db")

    with django_assert_max_num_queries(12):  # type: ignore[attr-defined]
        find(viewer, "db")


def test_completions_are_phrases_and_values(viewer: Client) -> None:
    make_series([1.0], host=make_host("gp-host"), target=make_target(volume_type="gp3"))

    found = viewer.get(reverse("complete_word"), {"text": "GP"}).json()["completions"]

    assert found == [
        {"written": "host:gp-host", "shown": "gp-host", "note": "Host"},
        {"written": "volume_type:gp3", "shown": "gp3", "note": "Volume type"},
    ]
    phrases = viewer.get(reverse("complete_word"), {"text": "rando"}).json()["completions"]
    assert {"written": "pattern:randread", "shown": "random read", "note": "pattern:randread"} in phrases
    assert viewer.get(reverse("complete_word"), {"text": ""}).json() == {"completions": []}


def test_header_leads_to_the_search_without_script(viewer: Client) -> None:
    page = Page(viewer.get(reverse("search"), {"text": "db"}))

    assert [tag["action"] for name, tag in page.tags if name == "form" and tag.get("role") == "search"] == [
        "/search/",
        "/search/",
    ]
