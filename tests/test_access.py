"""Every address × every kind of asker, from the resolver."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction
from django.http.response import HttpResponseBase
from django.test import Client, override_settings
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from benchapp.charts.images import frame
from benchapp.framework.pages.security import CONTENT_SECURITY_POLICY, PERMISSIONS_POLICY
from benchapp.models import FrozenPanel, Role, RunRequestState, Scope, Study
from benchapp.reports.write import store_snapshot
from tests.access_table import ACTORS, TABLE, WEB
from tests.factories import (
    add_series,
    make_change,
    make_correction,
    make_detection_policy,
    make_dry_run,
    make_environment,
    make_host,
    make_incident,
    make_measurement,
    make_planned_event,
    make_price,
    make_run,
    make_run_request,
    make_signed_link,
    make_target,
    make_target_mapping,
    make_token,
    make_user,
    make_wanted_schedule,
)
from tests.received_notices import make_subscription
from tests.shared_rows import shared_rows
from tests.visitors import SharedClient, sign_in

# Whose answers no cache may keep.
SIGNED_IN = ("viewer", "admin", "admin token")
# One test asks for all of them, as making the rows and clients takes longer than most answers.
ROWS = [(route, row) for route, rows in TABLE.items() for row in rows]
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}
# Parts of addresses that name nothing, beside numbers.
NOTHING = {
    "name": "nobody",
    "public_id": "x" * 12,
    **dict.fromkeys(("submission_id", "request_id", "bulk"), UUID(int=7)),
}
# What others wrote, wherever a text can have it.
HOSTILE = "<img src=x onerror=alert(1)>"
# What `drawn_once` has drawn.
IMAGES: dict[tuple, Any] = {}


def list_routes(patterns=None, prefix="") -> Iterator[str]:
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from list_routes(pattern.url_patterns, route)
        else:
            assert isinstance(pattern, URLPattern)
            yield route


@dataclass(frozen=True)
class Site:
    """Parts of addresses by the name of their parameter, and a client for every actor."""

    parts: dict[str, Any]
    clients: dict[str, SharedClient]


@shared_rows
def site() -> Site:
    """Make one of everything, and every actor."""
    scopes = {
        "ingest token": Scope.INGEST,
        "read token": Scope.READ,
        "admin token": Scope.ADMIN,
        "enroll token": Scope.ENROLL,
    }
    clients = {"anonymous": SharedClient(), **{role.value: sign_in(role) for role in Role}}
    for actor, scope in scopes.items():
        clients[actor] = SharedClient(headers={"Authorization": f"Bearer {make_token(scope)[1]}"})
    return Site(make_parts(), {actor: clients[actor] for actor in ACTORS})


def make_parts(host_name: str = "db-7", pool: str | None = None, text: str = HOSTILE) -> dict[str, Any]:
    """Make one of everything, with the text wherever one can be; return the parts of its addresses."""
    host = make_host(host_name, pool=pool or text)
    target = make_target(target_name=text, filesystem=text, volume_type=text)
    series = add_series([1.0], host=host, target=target, start_at=timezone.now())
    run = make_run(
        host,
        profile=text,
        target=target,
        environment=make_environment(kernel=text),
        labels={text: text},
        command={"argv": ["fio", text], "stderr": text, "jobfile": text},
        warnings=[{"code": "x", "where": text, "message": text}],
    )
    make_measurement(run, series, job_name=text, iops=1.0)
    fact = {"name": text, "before": text, "after": text, "share": 1, "text": text}
    written = {"filter": text, "reason": text}
    panel = {"kind": "scaling", "query": "", "title": text, "text": text}
    study = Study.objects.create(
        title=text, text=text, share_token=(f"{host_name}-" + "s" * 43)[:43], panels=[panel]
    )
    frozen = FrozenPanel("scaling", "", "Reads", content="", width=1, height=1, images={"light": b"PNG"})
    store_snapshot(study.pk, [frozen], by=None)
    return {
        "name": host.name,
        "dimension_name": "host",
        "image_format": "svg",
        "chart_name": "fleet",
        "pin_id": 1,
        "view_id": 1,
        "link_id": make_signed_link(created_by=make_user(Role.ADMIN)).pk,
        "run_id": run.id,
        "series_id": series.id,
        "submission_id": run.submission_id,
        "public_id": make_token(host=host, label=text)[0].public_id,
        "user_id": make_user().id,
        "invitation_id": 1,
        "secret": "no-such-secret",
        "path": "no/such/path",
        "page_name": "errors",
        "tag": "hosts",
        "file_name": "ci/gitlab.yml",
        "study_id": study.pk,
        "incident_id": make_incident(
            changes=[make_change(series)],
            title=text,
            link="https://tickets.example/",
            link_label=text,
            suspects=[fact],
            common_factors=[{"dimension": text, "value": text, "share": 1, "text": text}],
        ).pk,
        "bulk": uuid4(),
        "planned_event_id": make_planned_event(to_at=timezone.now() + timedelta(days=1), **written).pk,
        "correction_id": make_correction(filter=text, reason=text).pk,
        "policy_id": make_detection_policy(label=f"a={text}", **written).pk,
        "dry_run_id": make_dry_run(filter=text).pk,
        "price_id": make_price(region=text).pk,
        "mapping_id": make_target_mapping(pattern=text, target_name=text).pk,
        "wanted_id": make_wanted_schedule(pool=text, directory=text, profile=text).pk,
        "action": "acknowledge",
        "subscription_id": make_subscription(filter=text).pk,
        "token": study.share_token,
        "place": 1,
        "request_id": make_run_request(
            host, repeats=run, state=RunRequestState.FAILED, reason=text, directory=text
        ).pk,
        "theme": "light",
    }


def fill(route: str, parts: dict[str, Any]) -> str:
    return "/" + re.sub(r"<\w+:(\w+)>", lambda match: str(parts[match[1]]), route)


@pytest.fixture
def address_of(site: Site) -> Callable[[str], str]:
    """Give a function that fills a route with parts of addresses."""
    return lambda route: fill(route, site.parts)


@pytest.fixture
def clients(site: Site) -> dict[str, Client]:
    """Give a client for every actor."""
    return site.clients


@pytest.fixture
def drawn_once(monkeypatch) -> None:
    """Draw each image once: equal arguments give equal bytes (tests/charts), and every actor asks for the same."""
    draw = frame._draw

    def draw_once(options, *, title, foot, **how):
        key = (options, title, *foot)
        if key not in IMAGES:
            IMAGES[key] = draw(options, title=title, foot=foot, **how)
        return IMAGES[key]

    monkeypatch.setattr(frame, "_draw", draw_once)


def judge(response: HttpResponseBase) -> str:
    """Return the table's letter for an answer; its status where it has none."""
    if response.status_code == 401 or response.headers.get("Location", "").startswith("/sign-in/"):
        return "s"
    letters = {403: "-", 404: ".", 410: "."}
    # A form that was filled in badly was still let in; 405 and a fault never are.
    is_let_in = response.status_code < 500 and response.status_code != 405
    return letters.get(response.status_code, "+" if is_let_in else str(response.status_code))


def ask(client: Client, method: str, address: str) -> HttpResponseBase:
    """Return an answer; whatever the request changed is rolled back."""
    if method in ("GET", "OPTIONS"):
        return answer(client, method, address)
    with transaction.atomic():
        response = answer(client, method, address)
        transaction.set_rollback(True)
    return response


def answer(client: Client, method: str, address: str) -> HttpResponseBase:
    """Return an answer that was read to its end: a stream keeps its place among those of the process until then."""
    response = client.generic(method, address, "{}", content_type="application/json")
    if response.streaming:
        response.getvalue()
    return response


def ask_all(clients: dict[str, Client], method: str, address: str) -> dict[str, HttpResponseBase]:
    """Ask as every actor, each as if the others had changed nothing."""
    return {actor: ask(client, method, address) for actor, client in clients.items()}


def judge_all(answers: dict[str, HttpResponseBase]) -> str:
    """Return the letters of the actors."""
    return "".join(judge(answer) for answer in answers.values())


def test_every_address_has_a_row_and_every_row_an_address():
    assert sorted(set(list_routes()) ^ set(TABLE)) == []


@pytest.mark.django_db
@pytest.mark.usefixtures("drawn_once")
def test_answers_are_for_those_who_may_and_are_neither_cached_nor_without_security_headers(
    clients, address_of
):
    letters, loose = {}, {}
    for route, row in ROWS:
        answers = ask_all(clients, row.method, address_of(route))
        letters[row.method, route] = judge_all(answers)
        for actor, answer in answers.items():
            check_security_headers(answer)
            if actor in SIGNED_IN and (caching := find_loose_caching(route, answer)):
                loose[actor, row.method, route] = caching
    for route in TABLE:
        for actor in ("anonymous", "admin"):
            check_security_headers(ask(clients[actor], "OPTIONS", address_of(route)))

    assert letters == {(row.method, route): row.cells for route, row in ROWS}
    assert loose == {}


@pytest.mark.django_db
@pytest.mark.usefixtures("drawn_once")
def test_public_read_lets_in_everybody_who_may_then(clients, address_of):
    # What editors and admins may does not depend on it.
    asking = {actor: client for actor, client in clients.items() if actor not in ("editor", "admin")}

    with override_settings(PUBLIC_READ=True):
        letters = {
            (row.method, route): judge_all(ask_all(asking, row.method, address_of(route)))
            for route, row in ROWS
        }

    assert letters == {
        (row.method, route): "".join(
            letter for actor, letter in zip(ACTORS, row.public or row.cells, strict=True) if actor in asking
        )
        for route, row in ROWS
    }


@pytest.mark.django_db
def test_method_without_a_row_is_let_in_nowhere(clients, address_of):
    asking = {actor: clients[actor] for actor in ("admin", "admin token")}

    let_in = [
        (method, route)
        for route in TABLE
        for method in sorted(METHODS - {row.method for row in TABLE[route]})
        if "+" in judge_all(ask_all(asking, method, address_of(route)))
    ]

    assert let_in == []


@pytest.mark.django_db
def test_what_does_not_exist_is_not_found_in_words(site):
    unclear = {}
    for route, row in ROWS:
        names = [name for name in re.findall(r":(\w+)>", route) if name in NOTHING or name.endswith("_id")]
        if not names or "+" not in row.cells:
            continue
        address = fill(route, site.parts | {name: NOTHING.get(name, 9999) for name in names})
        response = ask(site.clients[ACTORS[row.cells.index("+")]], row.method, address)
        text = response.content.decode()
        # A form that is empty or a button of a list says so above the list; a body without its fields comes first.
        is_refused_before = row.method != "GET" and response.status_code in (302, 400)
        is_named = re.search("do(es)? not exist|(have|has) no |No maintenance", text)
        if not is_refused_before and (response.status_code != 404 or not is_named):
            unclear[row.method, address] = (response.status_code, text[:200])

    assert unclear == {}


@pytest.mark.django_db
def test_no_page_has_markup_that_others_wrote(clients, address_of):
    shown = set()
    for route in WEB:
        response = ask(clients["admin"], "GET", address_of(route))
        if response.headers.get("Content-Type", "").startswith("text/html") and not response.streaming:
            content = response.content.decode()
            assert (route, HOSTILE in content) == (route, False)
            shown |= {route} if escape(HOSTILE) in content else set()

    assert len(shown) >= 30


@pytest.mark.django_db
def test_nothing_is_changed_from_another_site(clients, address_of):
    clients["admin"].handler.enforce_csrf_checks = True

    let_in = {
        (row.method, route)
        for route, row in ROWS
        if row.method != "GET"
        and row.cells[ACTORS.index("admin")] == "+"
        and ask(clients["admin"], row.method, address_of(route)).status_code != 403
    }

    assert let_in == set()


def find_loose_caching(route: str, response: HttpResponseBase) -> str:
    """Return the Cache-Control of an answer to somebody who signed in, "" where it is as strict as it must be."""
    said = {part.strip() for part in response.headers.get("Cache-Control", "").split(",")}
    # Reads of the API and documentation may be stored by the asker alone, who asks before each use whether they are
    # still right.
    is_checked_read = route.startswith(("api/v1/", "docs/")) and {"private", "no-cache"} <= said
    # The agent is the same file for all.
    is_strict = "no-store" in said or is_checked_read or route == "agent/bench-agent.pyz"
    return "" if is_strict else response.headers.get("Cache-Control", "none")


@pytest.mark.django_db
@pytest.mark.parametrize("route", ["api/v1/series/<int:series_id>/points", "api/v1/runs/<int:run_id>/output"])
def test_reads_of_the_api_are_checked_before_each_use(route, clients, address_of):
    reader = clients["read token"]

    first = reader.get(address_of(route))
    again = reader.get(address_of(route), headers={"If-None-Match": first.headers["ETag"]})

    assert (first.status_code, first.headers["Cache-Control"]) == (200, "private, no-cache")
    assert (again.status_code, again.headers["Cache-Control"]) == (304, "private, no-cache")


@pytest.mark.django_db
@pytest.mark.parametrize("route", ["docs/<slug:page_name>", "runs/", "agent/bench-agent.pyz"])
def test_caching_of_what_strangers_read_is_as_it_was(route, address_of):
    with override_settings(PUBLIC_READ=True):
        response = Client().get(address_of(route))

    checked = {"agent/bench-agent.pyz": "public, no-cache", "docs/<slug:page_name>": "private, no-cache"}
    expected = checked.get(route)
    assert (response.status_code, response.headers.get("Cache-Control")) == (200, expected)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("/runs", {}, 301),
        ("/runs/", {"Host": "elsewhere.example"}, 400),
        ("/nowhere/", {}, 404),
        ("/api/v1/nowhere", {}, 404),
        ("/api/v1/nowhere", {"Host": "elsewhere.example"}, 400),
    ],
)
def test_errors_and_redirects_carry_the_security_headers(address, headers, status):
    response = Client().get(address, headers=headers)

    assert response.status_code == status
    check_security_headers(response)


@override_settings(SECURE_SSL_REDIRECT=True)
def test_redirect_to_https_carries_the_security_headers():
    response = Client().get("/runs/")

    assert (response.status_code, response.headers["Location"]) == (301, "https://testserver/runs/")
    check_security_headers(response)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/runs/", "/api/v1/runs"])
def test_faults_carry_the_security_headers(path, clients, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("benchapp.series.pages.runs.list_runs", fail)
    monkeypatch.setattr("benchapp.series.api.runs.list_runs", fail)
    clients["admin"].raise_request_exception = False

    response = clients["admin"].get(path)

    assert response.status_code == 500
    assert "no-store" in response.headers["Cache-Control"]
    check_security_headers(response)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "route",
    [
        "runs/<int:run_id>/output",
        "runs/<int:run_id>/table.csv",
        "uploads/<uuid:submission_id>/raw",
        "agent/bench-agent.pyz",
        "api/v1/runs/<int:run_id>/output",
        "api/v1/series?format=csv",
        "api/v1/series?format=ndjson",
    ],
)
def test_downloads_are_files_that_no_browser_interprets(route, clients, address_of):
    response = clients["admin"].get(address_of(route))

    assert response.status_code == 200
    assert response.headers["Content-Disposition"].startswith('attachment; filename="')
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert not response.headers["Content-Type"].startswith("text/html")


def check_security_headers(response: HttpResponseBase) -> None:
    """Fail where a header is missing that every answer carries; shared studies have a stricter Referrer-Policy."""
    path = response.request["PATH_INFO"]
    expected = {
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Permissions-Policy": PERMISSIONS_POLICY,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    assert (path, {name: response.headers.get(name) for name in expected}) == (path, expected)
    assert response.headers["Referrer-Policy"] in ("same-origin", "no-referrer"), path
