"""Studies as strangers read them: what the link shows, what it does not, and how much of it one may ask for."""

import re
from collections.abc import Callable
from html import unescape
from ipaddress import ip_network
from itertools import count
from threading import BoundedSemaphore
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client, override_settings

from benchapp.models import Role, Run, Series, Study
from benchapp.reports.pages import shared
from benchapp.reports.write import add_panel, change_study, read_panel, share_study, stop_sharing
from tests.factories import (
    NOON,
    make_change,
    make_incident,
    make_measured_volumes,
    make_planned_event,
    make_user,
)
from tests.pages import Page
from tests.reports.pages.made_studies import QUERY, make_study
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
measured = shared_rows(make_measured_volumes)

_NUMBERS = count(1)


@pytest.fixture
def stranger() -> Client:
    """Give somebody who never asked from this address before: what strangers ask for is counted."""
    number = next(_NUMBERS)
    return Client(REMOTE_ADDR=f"198.51.{number // 250}.{number % 250}")


def share(*kinds_and_queries: tuple[str, str], **fields: Any) -> str:
    panels = [{"kind": kind, "query": query, "title": "", "text": ""} for kind, query in kinds_and_queries]
    return share_study(make_study(panels=panels, **fields).pk)


def chart_path(token: str, place: int = 1) -> str:
    return f"/shared/{token}/charts/{place}"


@pytest.fixture(autouse=True)
def minute_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock by which charts are counted."""
    clock = SimpleNamespace(time=lambda: 1_800_000_000.0)
    monkeypatch.setattr("benchapp.accounts.write.throttle.time", clock)


def note_drawing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record each rendering of a chart instead of rendering it."""
    drawn: list[str] = []
    monkeypatch.setattr(
        "benchapp.reports.pages.shared._render_chart", lambda *_: drawn.append("drawn") or b"new"
    )
    return drawn


@override_settings(PUBLIC_READ=False)
def test_text_and_placeholders_of_charts_take_one_query(
    stranger: Client, django_assert_num_queries: Any
) -> None:
    token = share(("scaling", QUERY), ("matrix", "q=host:db-1"), text="Numbers of **our** disks.")

    with django_assert_num_queries(1):
        page = Page(stranger.get(f"/shared/{token}/"))

    assert "Disks" in page.words and "Numbers of our disks." in page.words
    places = [tag for _, tag in page.tags if "data-deferred" in tag]
    assert [(tag["data-kind"], tag["data-deferred"]) for tag in places] == [
        ("scaling", chart_path(token, 1)),
        ("matrix", chart_path(token, 2)),
    ]


def test_each_chart_has_a_link_for_readers_without_script(stranger: Client, measured: None) -> None:
    token = share(("scaling", QUERY))
    (link,) = [link for link in Page(stranger.get(f"/shared/{token}/")).links if not link.startswith("#")]

    page = Page(stranger.get(link))

    assert "3\u202f123" in page.words
    assert page.has("table")
    assert f"/shared/{token}/" in page.links


@override_settings(PUBLIC_READ=False)
@pytest.mark.parametrize(
    ("kind", "query"),
    [
        ("scaling", QUERY),
        ("matrix", "q=host:db-1"),
        ("history", "q=host:db-1"),
        ("compare", "a=volume_count:1&b=volume_count:4&metric=iops"),
        ("layouts", "iops=500&q=host:db-1"),
    ],
)
def test_shared_chart_has_no_links_to_other_pages(
    kind: str, query: str, stranger: Client, measured: None
) -> None:
    token = share((kind, query), text="See [runs](/runs/) and [the source](https://blog.example/).")

    response = stranger.get(chart_path(token))

    page = Page(response)
    assert response.status_code == 200
    numbers = {"history": "1\u202f000", "compare": "3.123"}
    assert numbers.get(kind, "3\u202f123") in page.words
    links = {"", f"/shared/{token}/", f"/shared/{token}/charts/1.png"}
    assert {link for link in page.links if not link.startswith("#")} <= links
    html = re.sub(r"/static/[^\"]*", "", response.content.decode())
    assert not re.search(r"/(runs|series|api|scaling|studies|matrix|history|compare|layouts)/", html)


@override_settings(PUBLIC_READ=False)
def test_runs_of_a_shared_chart_have_neither_hosts_nor_links(stranger: Client, measured: None) -> None:
    token = share(("scaling", "q=volume_count:4&runs=1"))

    html = unescape(stranger.get(chart_path(token)).content.decode())

    assert re.search(r'"runs": {"values": \[[0-9.]+', html)
    assert '"ids": [], "names": [], "hosts": []' in html
    assert '"runUrl": ""' in html
    assert "db-1" not in html


@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_shared_pages_do_not_contain_sign_in_names(
    is_withdrawn: bool, stranger: Client, measured: None
) -> None:
    ada = make_user(Role.ADMIN, username="ada.lovelace")
    change = make_change(Series.objects.order_by("pk")[0])
    make_incident(changes=[change], assignee=ada)
    make_planned_event(filter="host:db-1", created_by=ada)
    Run.objects.filter(measurements__series=change.series).update(
        excluded_at=NOON, excluded_by=ada, excluded_reason="a test"
    )
    kinds = (
        ("scaling", QUERY),
        ("matrix", "q=host:db-1"),
        ("history", "q=host:db-1"),
        ("compare", "a=volume_count:1&b=volume_count:4&metric=iops"),
    )
    token = share(*kinds, owner=ada, text="Numbers of our disks.")
    if is_withdrawn:
        stop_sharing(Study.objects.get().pk)

    addresses = [f"/shared/{token}/", *(chart_path(token, place) for place in range(1, 5))]
    answers = [stranger.get(address) for address in addresses]

    assert {answer.status_code for answer in answers} == {404 if is_withdrawn else 200}
    assert [answer.content.count(b"lovelace") for answer in answers] == [0] * 5


def test_shared_text_links_to_other_sites_only(stranger: Client) -> None:
    token = share(text="See [runs](/runs/) and [the source](https://blog.example/).")

    page = Page(stranger.get(f"/shared/{token}/"))

    assert [link for link in page.links if not link.startswith("#")] == ["", "https://blog.example/"]


@pytest.mark.parametrize("kind", ["study", "chart", "revoked", "limited"])
def test_every_response_keeps_the_token_private(kind: str, stranger: Client, settings: LazySettings) -> None:
    token = share(("scaling", QUERY))
    if kind == "revoked":
        stop_sharing(Study.objects.get().pk)
    if kind == "limited":
        settings.SHARED_CHARTS_PER_MINUTE = 0

    response = stranger.get(f"/shared/{token}/" if kind == "study" else chart_path(token))

    assert response.status_code == {"revoked": 404, "limited": 429}.get(kind, 200)
    assert response.headers["X-Robots-Tag"] == "noindex, nofollow"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert "no-store" in response.headers["Cache-Control"]
    assert not response.cookies


def test_canonical_address_does_not_contain_the_token(stranger: Client) -> None:
    page = Page(stranger.get(f"/shared/{share()}/"))

    assert [tag["href"] for _, tag in page.tags if tag.get("rel") == "canonical"] == ["/"]


@pytest.mark.parametrize(
    "path",
    ["/shared/short/", f"/shared/{'x' * 43}/", f"/shared/{'x' * 42}%00/", "/shared//", chart_path("x" * 43)],
)
def test_wrong_link_is_not_found(path: str, stranger: Client) -> None:
    assert stranger.get(path).status_code == 404


@pytest.mark.parametrize("place", [0, 2, 10**9, 10**30])
def test_unknown_chart_number_is_not_found(place: int, stranger: Client) -> None:
    assert stranger.get(chart_path(share(("scaling", QUERY)), place)).status_code == 404


@pytest.mark.usefixtures("web_cache")
def test_revoked_link_shows_nothing_from_the_cache(stranger: Client, measured: None) -> None:
    token = share(("scaling", QUERY))
    stranger.get(f"/shared/{token}/")
    stranger.get(chart_path(token))

    stop_sharing(Study.objects.get().pk)

    for path in (f"/shared/{token}/", chart_path(token)):
        response = stranger.get(path)
        assert response.status_code == 404
        assert "link may have been revoked" in Page(response).words
        assert "Disks" not in Page(response).words


def test_link_shows_only_its_own_study(stranger: Client) -> None:
    make_study(title="Secret plans")
    token = share(title="Open book")

    assert "Secret plans" not in stranger.get(f"/shared/{token}/").content.decode()


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        ("scaling", "q=color:red"),
        ("matrix", "q=color:red"),
        ("history", "q=color:red"),
        ("history", "series=all"),
    ],
)
def test_shared_chart_with_a_bad_filter_shows_nothing(
    kind: str, query: str, stranger: Client, measured: None
) -> None:
    page = Page(stranger.get(chart_path(share((kind, query)))))

    assert "Chart not available." in page.words
    assert "3\u202f123" not in page.words


@pytest.mark.usefixtures("web_cache")
def test_chart_is_rendered_once_for_all_readers(
    stranger: Client, measured: None, django_assert_num_queries: Any
) -> None:
    token = share(("scaling", QUERY))
    first = stranger.get(chart_path(token))
    Series.objects.all().update(judging_is_due=True)

    with django_assert_num_queries(1):
        second = Client(REMOTE_ADDR="203.0.113.9").get(chart_path(token))

    assert second.content == first.content


@pytest.mark.parametrize(
    "change",
    [
        lambda study: change_study(study.pk, title="Other disks"),
        lambda study: add_panel(study.pk, read_panel({"kind": "scaling", "query": "x=iodepth"})),
    ],
)
@pytest.mark.usefixtures("web_cache")
def test_edited_study_is_rendered_again(
    change: Callable[[Study], Study], stranger: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = share(("scaling", QUERY))
    stranger.get(chart_path(token))
    drawn = note_drawing(monkeypatch)
    stranger.get(chart_path(token))
    assert drawn == []

    change(Study.objects.get())

    assert stranger.get(chart_path(token)).content == b"new"


def test_client_over_the_limit_gets_retry_after(stranger: Client, settings: LazySettings) -> None:
    settings.SHARED_CHARTS_PER_MINUTE = 2
    token = share(("scaling", QUERY))

    answers = [stranger.get(chart_path(token)) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[-1].headers["Retry-After"] == "60"
    assert "Try again in 60 s." in Page(answers[-1]).words
    assert Client(REMOTE_ADDR="203.0.113.10").get(chart_path(token)).status_code == 200
    assert stranger.get(f"/shared/{token}/").status_code == 200


def test_reader_gets_retry_after_if_too_many_charts_are_rendered(
    stranger: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = share(("scaling", QUERY))
    monkeypatch.setattr("benchapp.reports.pages.shared._RENDERING", BoundedSemaphore(1))
    with shared._RENDERING:
        refused = [stranger.get(path) for path in (chart_path(token), f"/shared/{token}/image.png")]
        page = stranger.get(f"/shared/{token}/")

    assert [answer.status_code for answer in (*refused, page, stranger.get(chart_path(token)))] == [
        503,
        503,
        200,
        200,
    ]
    assert [answer.headers["Retry-After"] for answer in refused] == ["2", "2"]
    assert "no-store" in refused[0].headers["Cache-Control"]


def test_clients_behind_a_trusted_proxy_are_counted_separately(
    settings: LazySettings, stranger: Client
) -> None:
    settings.SHARED_CHARTS_PER_MINUTE = 1
    settings.TRUSTED_PROXIES = [ip_network("10.0.0.0/8")]
    token = share(("scaling", QUERY))

    def ask(address: str, proxy: str = "10.0.0.1") -> int:
        headers = {"X-Forwarded-For": address}
        return Client(REMOTE_ADDR=proxy, headers=headers).get(chart_path(token)).status_code

    assert [ask("203.0.113.20") for _ in range(2)] == [200, 429]
    assert ask("203.0.113.21") == 200
    # Nobody becomes another by what he writes himself.
    assert [ask(f"203.0.113.{last}", proxy="198.51.100.77") for last in (30, 31)] == [200, 429]


def test_addresses_of_one_ipv6_network_are_counted_together(settings: LazySettings) -> None:
    settings.SHARED_CHARTS_PER_MINUTE = 1
    token = share(("scaling", QUERY))

    asked = [
        Client(REMOTE_ADDR=f"2001:db8:0:1::{last}").get(chart_path(token)).status_code for last in (1, 2)
    ]

    assert asked == [200, 429]
    assert Client(REMOTE_ADDR="2001:db8:0:2::1").get(chart_path(token)).status_code == 200
