"""Readers who are limited to pools see nothing of other pools, at any address, and no count of them."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.exceptions import ValidationError
from django.db import ProgrammingError, connection, transaction
from django.test import Client

from benchapp.accounts.write.accounts import change_role, create_invitation, delete_account
from benchapp.accounts.write.tokens import rotate_token
from benchapp.models import (
    Host,
    Incident,
    Price,
    Role,
    Run,
    Scope,
    Series,
    SignedLink,
    Study,
    Subscription,
    User,
)
from benchapp.models.incident import hide_peers
from benchapp.models.limits import _LIMIT, ReaderLimit, limited
from tests.access_table import OF_NOBODY_LIMITED
from tests.factories import add_series, make_change, make_host, make_incident, make_token, make_user
from tests.received_notices import make_event, make_subscription
from tests.shared_rows import shared_rows
from tests.test_access import ROWS, answer, ask, drawn_once, fill, judge, make_parts  # noqa: F401
from tests.visitors import SharedClient, sign_in_person

# In every name and text of another pool.
FOREIGN = "zqx"
DB = ReaderLimit(("db",))


@shared_rows
def site() -> dict[str, Any]:
    """Make one of everything in the pool db and in another one, and readers of db and of everything."""
    places = {
        "own": make_parts("db-1", "db", "here"),
        "other": make_parts(f"{FOREIGN}-1", f"{FOREIGN}-pool", f"{FOREIGN}-text"),
    }
    elsewhere = {
        "title": f"db: IOPS −9 % in 2 of 2 series, only this pool (39 {FOREIGN} peers with the same workload)",
        "common_factors": [{"dimension": "pool", "value": "db", "share": 1, "text": f"39 {FOREIGN} peers"}],
        "suspects": [
            {
                "name": "kernel",
                "before": "1",
                "after": "2",
                "share": 1,
                "text": f"kernel: 1 → 2; same change on other hosts: 1 host unaffected ({FOREIGN}-1)",
                "hosts_unaffected": 1,
                "unaffected_hosts": [f"{FOREIGN}-1"],
            }
        ],
    }
    Incident.objects.filter(pk=places["own"]["incident_id"]).update(scope="pool:db", **elsewhere)
    for number in range(2, 38):
        add_series([1.0], host=make_host(f"{FOREIGN}-{number}", pool=f"{FOREIGN}-pool"))
    # Prices are of no pool: every reader sees them.
    Price.objects.filter(pk=places["other"]["price_id"]).delete()
    readers: dict[str, Any] = {}
    for name, pools in (("limited", ["db"]), ("unlimited", [])):
        token = make_token(Scope.READ, pools=pools)[1]
        readers[name] = {
            "viewer": sign_in_person(make_user(pools=pools)),
            "read token": SharedClient(headers={"Authorization": f"Bearer {token}"}),
        }
    return {**places, **readers}


def ask_limited(site: dict[str, Any], place: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield method, route and actor, the letter of the limited one, and its body, with the parts of a place."""
    for route, row in ROWS:
        if not route.startswith(("shared/", "docs/", "agent/")):
            for actor, client in site["limited"].items():
                response = ask(client, row.method, fill(route, site[place]))
                body = response.getvalue() if response.streaming else response.content
                yield row.method, route, actor, judge(response), body.decode(errors="replace")


@pytest.mark.django_db
@pytest.mark.usefixtures("drawn_once")
def test_no_address_shows_anything_of_another_pool(site):
    shown = [
        (method, route, actor)
        for method, route, actor, _, body in ask_limited(site, "own")
        if FOREIGN in body
    ]

    assert shown == []


@pytest.mark.django_db
@pytest.mark.usefixtures("drawn_once")
def test_own_places_are_shown_as_to_the_unlimited(site):
    differing = {}
    for method, route, actor, letter, _ in ask_limited(site, "own"):
        expected = judge(ask(site["unlimited"][actor], method, fill(route, site["own"])))
        if route not in OF_NOBODY_LIMITED and letter != expected:
            differing[method, route, actor] = (letter, expected)

    assert differing == {}


@pytest.mark.django_db
@pytest.mark.usefixtures("drawn_once")
def test_other_places_are_not_found(site):
    let_in = {}
    for method, route, actor, letter, body in ask_limited(site, "other"):
        names_a_place = re.search(r":(name|run_id|series_id|submission_id|request_id|\w+_id)>", route)
        if names_a_place and letter not in ".-s" and not route.startswith(("views/", "overview/pins/")):
            let_in[method, route, actor] = letter
        # The answer repeats the name that was asked for.
        asked = f"{FOREIGN}-1"
        if FOREIGN in body.replace(asked, ""):
            let_in[method, route, actor, "body"] = body[:500]

    assert let_in == {}


QUERIES = [
    *(
        f"{page}?{urlencode({'q': text})}"
        for page in (
            *(
                "/",
                "/hosts/",
                "/runs/",
                "/series/",
                "/scaling/",
                "/matrix/",
                "/history/",
                "/incidents/",
                "/uploads/",
            ),
            *(
                "/layouts/",
                "/api/v1/runs",
                "/api/v1/series",
                "/api/v1/points",
                "/api/v1/hosts",
                "/api/v1/scaling",
            ),
            *(
                "/api/v1/matrix",
                "/api/v1/changes",
                "/api/v1/incidents",
                "/api/v1/incidents/feed",
                "/api/v1/history",
            ),
            "/api/v1/dimensions/host/values",
        )
        for text in ("host:zq*", "zq", "-host:db-1")
    ),
    *(
        f"/api/v1/{name}?format={kind}"
        for name in ("runs", "series", "points", "hosts", "incidents", "changes", "submissions", "audit")
        for kind in ("csv", "ndjson")
    ),
    *(
        f"/api/v1/dimensions/{name}/values"
        for name in ("host", "pool", "target_name", "fs", "kernel", "profile")
    ),
    "/search/results?text=zq",
    "/search/?text=zq",
    "/search/words",
    "/compare/?a=host:zq*&b=host:db-1",
    "/compare/?by=host",
    "/api/v1/comparison?a=pool:db&b=host:zq*&metric=iops",
    "/api/v1/status-badge",
    "/metrics",
    "/readyz",
]


@pytest.mark.django_db
def test_queries_find_nothing_of_another_pool(site):
    shown = {}
    for address in QUERIES:
        for actor, client in site["limited"].items():
            response = answer(client, "GET", address)
            body = response.getvalue() if response.streaming else response.content
            if response.status_code >= 500 or FOREIGN.encode() in body:
                shown[address, actor] = (response.status_code, body[:200])

    assert shown == {}


@pytest.mark.django_db
@pytest.mark.usefixtures("web_cache")
@pytest.mark.parametrize("address", ["/", "/hosts/", "/scaling/", "/matrix/", "/series/"])
def test_cached_results_are_those_of_the_limit(site, address):
    def read(who: str) -> str:
        return site[who]["viewer"].get(address).content.decode()

    everything = read("unlimited")
    limit = read("limited")

    assert (FOREIGN in everything, FOREIGN in limit) == (True, False)
    assert FOREIGN in read("unlimited")


@pytest.mark.django_db
def test_counts_are_of_the_limit(site):
    viewer, token = site["limited"].values()

    overview, hosts = (viewer.get(path).content.decode() for path in ("/", "/hosts/"))

    assert not re.search(r"\b3[678] (hosts|series|runs)", overview + hosts)
    assert [row["name"] for row in token.get("/api/v1/hosts").json()["hosts"]] == ["db-1"]
    with limited(DB):
        assert (Host.objects.count(), Series.objects.count(), Run.objects.count()) == (1, 1, 2)


@pytest.mark.django_db
def test_page_says_that_it_is_limited(site):
    assert "only pool db" in site["limited"]["viewer"].get("/").content.decode()
    assert "only pool" not in site["unlimited"]["viewer"].get("/").content.decode()


@pytest.mark.django_db
def test_incident_over_several_pools_is_hidden():
    own, other = (make_change(add_series([1.0], pool=pool)) for pool in ("db", "web"))
    shared = make_incident(changes=[own, other], scope="")
    client = sign_in_person(make_user(pools=["db"]))

    assert client.get(f"/incidents/{shared.pk}/").status_code == 404
    assert client.get("/api/v1/incidents").json()["incidents"] == []


@pytest.mark.django_db
def test_incident_that_was_merged_over_pools_does_not_say_so():
    incident = make_incident(changes=[make_change(add_series([1.0], pool="db"))], scope="pool:db")
    for kind, text in (("opened", "found"), ("merged", FOREIGN), ("split", FOREIGN), ("moved", FOREIGN)):
        make_event(incident, kind, text=text)
    make_event(incident, "undone", text=f"no longer merged into incident {FOREIGN}")

    page = sign_in_person(make_user(pools=["db"])).get(f"/incidents/{incident.pk}/").content.decode()

    assert ("found" in page, FOREIGN in page) == (True, False)
    assert FOREIGN in sign_in_person(make_user()).get(f"/incidents/{incident.pk}/").content.decode()


@pytest.mark.parametrize(
    "end",
    [
        *(
            ", only this pool (3 peers with the same workload and layout unaffected)",
            ", only this host (3 pe",
        ),
        *(", 12 of 39 peers with the same workload and layout also changed", ", 12 of 39 pee", ", 12 of 39"),
    ],
)
def test_title_has_no_count_of_peers(end):
    title = "db: IOPS −20 % (−19 to −21 %) in 20 of 20 series"
    token = _LIMIT.set(DB)

    try:
        assert hide_peers(title + end) == title
        assert hide_peers(f"{title}, kernel 5.15") == f"{title}, kernel 5.15"
    finally:
        _LIMIT.reset(token)


@pytest.mark.django_db
def test_table_without_a_policy_is_refused():
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE forgotten (id int)")
        with pytest.raises(ProgrammingError), limited(DB):
            cursor.execute("SELECT FROM forgotten")


@pytest.mark.django_db
def test_limit_ends_with_its_transaction():
    make_host("web-1", pool="web")

    with limited(DB):
        assert not Host.objects.exists()
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            1 / 0  # noqa: B018
        assert not Host.objects.exists()

    assert Host.objects.exists()


@pytest.mark.django_db
def test_limited_reader_writes_neither_to_others_nor_to_the_account():
    person, other = make_user(pools=["db"]), make_user()
    make_host("web-1", pool="web")

    with limited(ReaderLimit(("db",), person.pk)):
        assert Host.objects.update(pool="db") == 0
        assert User.objects.filter(pk=other.pk).update(username="x") == 0
        with pytest.raises(ProgrammingError), transaction.atomic():
            Host.objects.create(name="web-2", pool="web")


@pytest.mark.django_db
def test_limits_are_of_viewers_alone():
    person = make_user(Role.VIEWER)

    with pytest.raises(ValidationError, match="editor sees everything"):
        change_role(person, Role.EDITOR, ["db"])
    with pytest.raises(ValidationError, match="admin sees everything"):
        create_invitation(role=Role.ADMIN, created_by=None, pools=["db"])
    change_role(person, Role.VIEWER, ["web", "db"])
    person.refresh_from_db()
    assert (person.pools, person.limit_text) == (["db", "web"], "only pools db and web")
    with pytest.raises(ValidationError, match="editor sees everything"):
        change_role(person, Role.EDITOR)


@pytest.mark.django_db
def test_account_that_becomes_limited_gets_no_notices():
    person = make_user()
    subscription = make_subscription(owner=person)

    change_role(person, Role.VIEWER, ["db"])

    subscription.refresh_from_db()
    assert (subscription.is_active, subscription.paused_reason) == (False, "the account is limited to pools")
    answered = sign_in_person(User.objects.get(pk=person.pk)).post(
        "/api/v1/subscriptions",
        {"channel": "webhook", "address": "https://hooks.example/x"},
        content_type="application/json",
    )
    assert (answered.status_code, "limited to pools" in answered.content.decode()) == (400, True)
    assert Subscription.objects.count() == 1


@pytest.mark.django_db
def test_limited_account_can_be_deleted():
    person = make_user(pools=["db"])
    make_incident(changes=[make_change(add_series([1.0], pool="web"))], assignee=person)

    with limited(ReaderLimit(("db",), person.pk)):
        delete_account(person)

    assert not Incident.objects.exclude(assignee=None).exists()
    assert User.objects.get(pk=person.pk).pools == []


@pytest.mark.django_db
def test_signed_link_is_read_as_its_maker():
    make_host("web-1", pool="web")
    make_incident(changes=[make_change(add_series([1.0], pool="web"))], title=f"{FOREIGN} is slow")
    token = make_token(Scope.READ, pools=["db"])[1]
    made = Client(headers={"Authorization": f"Bearer {token}"}).post(
        "/api/v1/links",
        {"url": "/api/v1/incidents/feed", "expires_at": "+1d"},
        content_type="application/json",
    )

    feed = Client().get(made.json()["url"])

    assert (made.status_code, feed.status_code, SignedLink.objects.count()) == (201, 200, 1)
    assert FOREIGN not in feed.content.decode()


@pytest.mark.django_db
def test_signed_link_of_an_unlimited_maker_is_whole_to_a_limited_session():
    make_host("web-1", pool="web")
    make_incident(changes=[make_change(add_series([1.0], pool="web"))], title=f"{FOREIGN} is slow")
    made = Client(headers={"Authorization": f"Bearer {make_token(Scope.READ)[1]}"}).post(
        "/api/v1/links",
        {"url": "/api/v1/incidents/feed", "expires_at": "+1d"},
        content_type="application/json",
    )
    client = sign_in_person(make_user(pools=["db"]))

    feed = client.get(made.json()["url"])

    assert FOREIGN in feed.content.decode()
    # With its own signature alone, and no other key opens more.
    assert FOREIGN not in client.get("/api/v1/incidents/feed").content.decode()
    assert client.get(f"{made.json()['url']}x").status_code == 403


@pytest.mark.django_db
def test_limited_session_opens_invitations_and_shared_studies():
    make_incident(changes=[make_change(add_series([1.0], pool="web"))])
    study = Study.objects.create(title="Disks", panels=[], share_token="s" * 43)
    secret = create_invitation(role=Role.VIEWER, created_by=None)
    client = sign_in_person(make_user(pools=["db"]))

    pages = [client.get(path) for path in (f"/setup/{secret}/", f"/shared/{study.share_token}/")]

    assert [page.status_code for page in pages] == [200, 200]
    assert pages[0].context["open_badge"] == 0
    assert sign_in_person(make_user()).get(f"/setup/{secret}/").context["open_badge"] == 1


@pytest.mark.django_db
def test_rotated_token_keeps_its_limits():
    old = make_token(Scope.READ, pools=["db"])[0]

    _, new, _ = rotate_token(old.public_id, overlap=old.created_at - old.created_at, by=None)

    assert new.pools == ["db"]
