"""Status badges, the feed of incidents, and the signed links to them."""

from datetime import timedelta
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest
from django.apps import apps
from django.core.signing import Signer
from django.test import Client, override_settings
from django.urls import get_resolver
from lxml import etree

from benchapp.accounts.api import SIGNED_PATHS, MayReadOrHasLink
from benchapp.accounts.write.accounts import change_role, delete_account, set_active
from benchapp.accounts.write.tokens import _SIGNER, change_token, revoke_token
from benchapp.charts.images.frame import FORMATS
from benchapp.framework.api.view import ApiView
from benchapp.models import ApiToken, AuditKind, AuditRecord, Role, Scope, SignedLink
from tests.factories import NOON, add_series, make_change, make_host, make_incident, make_series

pytestmark = pytest.mark.django_db

SVG = "{http://www.w3.org/2000/svg}"
ROOT = Path(__file__).parents[3]
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(autouse=True)
def at_noon(monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOON)


def sign(client, url, expires_at="+30d"):
    body = {"url": url, "expires_at": expires_at}
    return client.post("/api/v1/links", body, content_type="application/json")


def test_badge_of_one_series_has_its_level(reader):
    series = add_series([1000.0, 33415.0, 40000.0], host=make_host("db-1"))

    badge = reader.get(f"/api/v1/status-badge?series={series.pk}").json()
    named = reader.get("/api/v1/status-badge?q=host:db-1&text=disk").json()

    assert badge == {
        "schemaVersion": 1,
        "label": "IOPS",
        "message": "33\u202f415",
        "color": "#1e8449",
        "isError": False,
    }
    assert (named["label"], named["message"]) == ("disk", badge["message"])
    assert (
        reader.get(f"/api/v1/status-badge?series={series.pk}&metric=latency_p99_ns").json()["message"]
        == "no value"
    )


def test_badge_is_red_with_an_open_regression(reader):
    one, _ = (add_series([1000.0] * 3, host=make_host(name)) for name in ("db-1", "db-2"))
    make_incident(changes=[make_change(one, before=1000.0, after=850.0)])

    own, all_, rest = (
        reader.get(f"/api/v1/status-badge?q={q}").json() for q in ("host:db-1", "", "host:db-2")
    )

    assert (own["message"], own["isError"]) == ("1\u202f000 ▼ 15 %", True)
    assert (all_["message"], all_["color"]) == ("1 of 2 series regressed", own["color"])
    assert (rest["isError"], reader.get("/api/v1/status-badge?q=host:none").json()["message"]) == (
        False,
        "no series",
    )


def test_badge_of_too_many_series_is_refused(reader, monkeypatch):
    monkeypatch.setattr("benchapp.reports.api.images.SERIES_MAXIMUM", 1)
    for _ in range(2):
        make_series([1.0])

    assert reader.get("/api/v1/status-badge").json()["pointer"] == "q"


def test_svg_is_a_document_whose_texts_are_escaped(reader):
    add_series([1.0])
    text = '"><script>alert(1)</script>&'

    answer = reader.get("/api/v1/status-badge", {"format": "svg", "text": text})

    root = ElementTree.fromstring(answer.content)
    assert answer.headers["Content-Type"] == "image/svg+xml; charset=utf-8"
    assert root.find(f"{SVG}title").text == f"{text}: 1.00"
    assert root.attrib["aria-label"] == f"{text}: 1.00"
    assert root.find(f".//{SVG}script") is None
    assert reader.get("/api/v1/status-badge?format=svg", headers={"If-None-Match": "*"}).status_code == 304


def test_feed_has_the_newest_incidents_with_their_times(reader, monkeypatch):
    host = make_host("db-1")
    old = make_incident(changes=[make_change(make_series([1.0], host=host))], title="old", started_at=NOON)
    new = make_incident(title="a < b & \x08c", severity="high", started_at=NOON + timedelta(days=1))

    root = ElementTree.fromstring(reader.get("/api/v1/incidents/feed").content)
    entries = root.findall(f"{ATOM}entry")
    mine = ElementTree.fromstring(reader.get("/api/v1/incidents/feed?host=db-1").content)

    assert [entry.find(f"{ATOM}title").text for entry in entries] == ["a < b & c", "old"]
    assert entries[0].find(f"{ATOM}id").text == f"http://testserver/incidents/{new.pk}/"
    assert entries[0].find(f"{ATOM}updated").text == new.updated_at.isoformat()
    assert [entry.find(f"{ATOM}link").attrib["href"] for entry in mine.findall(f"{ATOM}entry")] == [
        f"http://testserver/incidents/{old.pk}/"
    ]
    monkeypatch.setattr("benchapp.notices.api.ENTRIES_MAXIMUM", 1)
    bounded = ElementTree.fromstring(reader.get("/api/v1/incidents/feed").content)
    assert len(bounded.findall(f"{ATOM}entry")) == 1


def read_feed(answer):
    """Return the root of a feed, which is valid Atom."""
    schema = etree.RelaxNG(etree.parse(ROOT / "tests" / "data" / "atom.rng"))
    root = etree.fromstring(answer.content)
    schema.assertValid(root)
    return root


def find_link(root, rel):
    (address,) = [link.attrib["href"] for link in root.findall(f"{ATOM}link") if link.attrib["rel"] == rel]
    return address


def test_feed_is_valid_atom_with_and_without_incidents(reader):
    empty = read_feed(reader.get("/api/v1/incidents/feed"))
    make_incident(title="a < b & \x08c \ufffe")

    feed = read_feed(reader.get("/api/v1/incidents/feed", {"q": 'host:"a&b\x07" volume_type:gp3'}))
    full = read_feed(reader.get("/api/v1/incidents/feed?is_regression=true"))

    assert [len(root.findall(f"{ATOM}entry")) for root in (empty, feed, full)] == [0, 0, 1]
    assert full.findtext(f"{ATOM}author/{ATOM}name") == "benchapp"


def test_feed_of_each_filter_has_its_own_id_and_link_to_itself(reader):
    addresses = [
        f"http://testserver/api/v1/incidents/feed{query}"
        for query in ("", "?q=host%3Adb-1", "?severity=high")
    ]

    feeds = [read_feed(reader.get(address)) for address in addresses]
    signed = read_feed(
        Client().get(sign(reader, addresses[1].removeprefix("http://testserver")).json()["url"])
    )

    assert [root.findtext(f"{ATOM}id") for root in feeds] == addresses
    assert [find_link(root, "self") for root in feeds] == addresses
    assert feeds[1].findtext(f"{ATOM}title") == "benchapp: incidents · host:db-1"
    assert find_link(feeds[1], "alternate") == "http://testserver/incidents/?tab=all&q=host%3Adb-1"
    assert signed.findtext(f"{ATOM}id") == addresses[1]
    assert Client().get(find_link(signed, "self")).status_code == 200


def test_empty_feed_is_the_same_each_time(reader):
    etag = reader.get("/api/v1/incidents/feed").headers["ETag"]

    assert reader.get("/api/v1/incidents/feed", headers={"If-None-Match": etag}).status_code == 304


@pytest.mark.parametrize("path", ["/api/v1/status-badge?q=host:db-*&format=svg", "/api/v1/incidents/feed"])
def test_signed_link_is_read_without_a_token_until_it_expires(reader, path, monkeypatch):
    made = sign(reader, path)
    url = made.json()["url"]

    answer = Client().get(url)
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOON + timedelta(days=30))
    late = Client().get(url)

    assert (made.status_code, answer.status_code) == (201, 200)
    assert url.startswith("http://testserver/")
    # A feed names its own address.
    assert answer.content.split(b"<link")[0] == reader.get(path).content.split(b"<link")[0]
    assert (late.status_code, "expired" in late.json()["detail"]) == (403, True)
    assert Client().get(path).status_code == 401


def test_every_address_that_takes_a_signed_link_can_be_signed():
    """A kind of chart that is added has its links at once."""
    routes = get_resolver("benchapp.overview.api.urls").url_patterns

    patterns = [
        str(route.pattern)
        for route in routes
        if MayReadOrHasLink in getattr(route.callback, "cls", ApiView).permission_classes
    ]

    paths = {
        f"/api/v1/{pattern.replace('<image_format:image_format>', suffix)}"
        for pattern in patterns
        for suffix in FORMATS
    }
    assert paths == set(SIGNED_PATHS)


def test_signature_is_bound_to_its_address(reader):
    url = sign(reader, "/api/v1/status-badge?q=host:db-1").json()["url"].removeprefix("http://testserver")
    query = url.partition("?")[2]
    changed = [
        url.replace("db-1", "db-2"),
        url.replace("expires=", "expires=9"),
        url + "&volume_type=gp3",
        url + "&signature=x",
        f"/api/v1/incidents/feed?{query}",
        url.partition("signature=")[0] + "signature=",
    ]

    answers = [Client().get(each) for each in changed]

    assert {answer.status_code for answer in answers} == {403}
    # No other resource takes a link.
    assert Client().get(f"/api/v1/series?{query}").status_code == 401


def test_order_of_the_parameters_of_a_link_does_not_matter(reader):
    path, _, query = sign(reader, "/api/v1/status-badge?q=host:db-1&text=a%20b").json()["url"].partition("?")

    assert Client().get(f"{path}?{'&'.join(reversed(query.split('&')))}").status_code == 200


@pytest.mark.parametrize(
    ("url", "expires_at", "pointer"),
    [
        ("/api/v1/series", "+1d", "/url"),
        ("https://other.example/api/v1/status-badge", "+1d", "/url"),
        ("//other.example/api/v1/status-badge", "+1d", "/url"),
        ("/api/v1/status-badge?signature=a", "+1d", "/url"),
        ("/api/v1/status-badge", "-1d", "/expires_at"),
        ("/api/v1/status-badge", "+367d", "/expires_at"),
    ],
)
def test_other_addresses_and_longer_times_are_not_signed(reader, url, expires_at, pointer):
    answer = sign(reader, url, expires_at)

    assert (answer.status_code, answer.json()["pointer"]) == (400, pointer)


def test_links_are_made_by_who_may_read_and_is_known(client_of, person):
    host_token = client_of(Scope.INGEST, make_host("db-1"))

    assert sign(Client(), "/api/v1/status-badge").status_code == 401
    assert sign(host_token, "/api/v1/status-badge").status_code == 403
    assert sign(person(Role.VIEWER), "/api/v1/status-badge").status_code == 201
    with override_settings(PUBLIC_READ=True):
        assert sign(Client(), "/api/v1/status-badge").status_code == 401
        assert Client().get("/api/v1/status-badge").status_code == 200


BADGE = "/api/v1/status-badge"


def list_ids(client, query=""):
    return [row["id"] for row in client.get(f"/api/v1/links{query}").json()["links"]]


def is_open(url):
    return {200: True, 403: False}[Client().get(url).status_code]


def test_revoked_link_is_refused_and_others_are_not(reader):
    revoked, other = (sign(reader, f"{BADGE}?q=host:db-{number}").json() for number in (1, 2))

    answer = reader.delete(f"/api/v1/links/{revoked['id']}")

    assert answer.status_code == 204
    assert "revoked" in Client().get(revoked["url"]).json()["detail"]
    assert is_open(other["url"])
    assert list_ids(reader, "?valid=true") == [other["id"]]
    assert [row["is_valid"] for row in reader.get("/api/v1/links").json()["links"]] == [True, False]
    records = AuditRecord.objects.filter(kind=AuditKind.LINK).order_by("pk")
    assert list(records.values_list("action", "object_id")) == [
        ("signed", str(revoked["id"])),
        ("signed", str(other["id"])),
        ("revoked", str(revoked["id"])),
    ]


def test_link_ends_with_the_token_that_made_it(client_of):
    reader = client_of(Scope.READ)
    url = sign(reader, BADGE).json()["url"]

    revoke_token(ApiToken.objects.get(scope=Scope.READ).public_id)

    assert not is_open(url)


def test_link_lasts_no_longer_than_its_token(client_of, monkeypatch):
    reader = client_of(Scope.READ)
    change_token(
        ApiToken.objects.get(scope=Scope.READ).public_id, by=None, expires_at=NOON + timedelta(days=2)
    )

    made = sign(reader, BADGE).json()

    assert made["expires_at"] == "2026-11-23T12:00:00Z"
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOON + timedelta(days=2))
    assert not is_open(made["url"])


def test_link_ends_with_the_account_that_made_it_and_does_not_come_back(person):
    urls = [sign(person(Role.EDITOR), BADGE).json()["url"] for _ in range(3)]
    deactivated, deleted, demoted = (link.created_by for link in SignedLink.objects.order_by("pk"))

    set_active(deactivated, is_active=False)
    set_active(deactivated, is_active=True)
    delete_account(deleted)
    change_role(demoted, Role.VIEWER)

    assert [is_open(url) for url in urls] == [False, False, True]


def test_links_of_others_are_seen_and_revoked_by_admins_only(client_of, person):
    owner, other, admin = person(Role.VIEWER), person(Role.EDITOR), person(Role.ADMIN)
    made, own = sign(owner, BADGE).json(), sign(client_of(Scope.READ), BADGE).json()

    assert list_ids(owner) == [made["id"]]
    assert (list_ids(other), list_ids(client_of(Scope.READ))) == ([], [])
    assert list_ids(admin) == list_ids(client_of(Scope.ADMIN)) == [own["id"], made["id"]]
    assert other.delete(f"/api/v1/links/{made['id']}").status_code == 404
    assert admin.delete(f"/api/v1/links/{made['id']}").status_code == 204
    assert not is_open(made["url"])


def test_expired_links_are_forgotten_when_another_is_made(reader, monkeypatch):
    sign(reader, BADGE)
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOON + timedelta(days=31))

    made = sign(reader, BADGE).json()

    assert list_ids(reader) == [made["id"]]


def sign_as_before(query):
    """Return an address as it was signed before links had ids."""
    address = f"{BADGE}?expires={int((NOON + timedelta(days=30)).timestamp())}&{query}"
    return f"{address}&signature={Signer(salt='benchapp.accounts.api.links').signature(address)}"


def test_signatures_are_those_of_links_that_people_have():
    salt = _SIGNER.salt

    assert (
        Signer(key="k", salt=salt).signature("/api/v1/runs") == "1aJWNidh6XHdC87x-dYMSAIqTi3-XukDFkYCi7MJz50"
    )


def test_link_of_before_is_valid_and_ends_with_the_account_of_its_audit_record(person):
    known, unknown = sign_as_before("text=a+b"), sign_as_before("text=c")
    owner = person(Role.VIEWER)
    user_id = int(owner.session["_auth_user_id"])
    AuditRecord.objects.create(
        at=NOON,
        user_id=user_id,
        kind="link",
        action="signed",
        object_name=f"{BADGE}?text=a%20b",
        after={"expires_at": (NOON + timedelta(days=30, milliseconds=7)).isoformat()},
    )
    import_module("benchapp.migrations.0058_signed_links").store_earlier_links(apps, None)
    assert (is_open(known), is_open(unknown)) == (True, True)

    (link,) = list_ids(owner)
    owner.delete(f"/api/v1/links/{link}")

    assert (is_open(known), is_open(unknown)) == (False, True)
