"""What an unfurler sees of a shared link: no session, no script."""

import struct
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client, override_settings

from benchapp.reports.write import share_study, stop_sharing
from tests.factories import make_measured_volumes
from tests.pages import Page
from tests.reports.pages.made_studies import QUERY, make_study
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
measured = shared_rows(make_measured_volumes)
TEXT = "Numbers of **our** disks & <b>others</b>. " + "More. " * 60


class Head(HTMLParser):
    """The properties of Open Graph and the links of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "meta":
            self.found[values.get("property", values.get("name", ""))] = values.get("content", "")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Let in nobody without an account, as a company does."""
    with override_settings(PUBLIC_READ=False):
        yield


def share(*kinds_and_queries: tuple[str, str], **fields: Any) -> tuple[int, str]:
    """Share a study; return its id and the path of its link."""
    panels = [{"kind": kind, "query": query, "title": "", "text": ""} for kind, query in kinds_and_queries]
    study = make_study(panels=panels, **fields)
    return study.pk, f"/shared/{share_study(study.pk)}/"


def get_path(url: str) -> str:
    """Return path and query of an absolute URL of this server."""
    assert url.startswith("http://testserver/")
    return url.removeprefix("http://testserver")


def test_unfurler_finds_title_text_and_image_without_a_session(measured: None) -> None:
    _, path = share(("scaling", QUERY), title='Disks "A" <b>', text=TEXT)

    found = Head(Client().get(path).content.decode()).found
    image = Client().get(get_path(found["og:image"]))

    assert (found["og:title"], found["og:url"]) == ('Disks "A" <b>', f"http://testserver{path}")
    assert found["og:description"].startswith("Numbers of our disks & <b>others</b>. More.")
    assert len(found["og:description"]) <= 200
    assert (image.status_code, image.headers["Content-Type"]) == (200, "image/png")
    size = struct.unpack(">II", image.content[16:24])
    assert (str(size[0]), str(size[1])) == (found["og:image:width"], found["og:image:height"])
    assert image.headers["X-Robots-Tag"] == "noindex, nofollow"


def test_study_without_charts_has_no_image() -> None:
    _, path = share()

    found = Head(Client().get(path).content.decode()).found

    assert "og:image" not in found
    assert Client().get(f"{path}image.png").status_code == 404


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        ("history", "q=host:db-1"),
        ("matrix", "q=host:db-1"),
        ("compare", "a=host:db-1&b=host:db-2"),
        ("layouts", "iops=500&q=host:db-1"),
        ("layouts", "iops=-1"),
        ("scaling", "q=nothing:1"),
        ("unknown", ""),
    ],
)
def test_first_chart_of_every_kind_is_an_image(kind: str, query: str, measured: None) -> None:
    _, path = share((kind, query))

    answer = Client().get(f"{path}image.png")

    assert (answer.status_code, answer.content[:4]) == (200, b"\x89PNG")


def test_each_chart_is_saved_as_a_sharp_image_in_the_theme_of_the_reader(measured: None) -> None:
    _, path = share(("matrix", ""), ("scaling", QUERY))
    page = Page(Client().get(f"{path}charts/2"))

    (link,) = [tag for name, tag in page.tags if name == "a" and "data-image" in tag]
    light, dark = (Client().get(f"{link['href']}?theme={theme}").content for theme in ("light", "dark"))

    assert link["href"] == f"{path}charts/2.png"
    assert struct.unpack(">II", light[16:24]) == struct.unpack(">II", dark[16:24]) == (2400, 1260)
    assert light != dark
    assert Client().get(f"{path}charts/3.png").status_code == 404


@pytest.mark.usefixtures("web_cache")
def test_image_is_drawn_once_for_all_readers(measured: None, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(
        "benchapp.reports.pages.shared.draw_panel", lambda *_: drawn.append("drawn") or b"\x89PNG"
    )
    _, path = share(("scaling", QUERY))

    answers = [Client().get(f"{path}image.png").content for _ in range(2)]

    assert (answers, drawn) == ([b"\x89PNG"] * 2, ["drawn"])


def test_revoked_link_reveals_nothing(measured: None) -> None:
    study, path = share(("scaling", QUERY), title="Secret disks")
    addresses = (path, f"{path}image.png", f"{path}charts/1.png")
    before = [Client().get(each).status_code for each in addresses]

    stop_sharing(study)
    answers = [Client().get(each) for each in addresses]

    assert before == [200, 200, 200]
    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert [answer for answer in answers if b"Secret disks" in answer.content] == []
    assert {answer.headers["Cache-Control"] for answer in answers} == {"private, no-store"}


def test_image_does_not_name_incidents(measured: None, monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[Any] = []
    monkeypatch.setattr(
        "benchapp.reports.pages.shared.draw_panel", lambda _, asked: options.append(asked) or b""
    )
    _, path = share(("history", "q=host:db-1"))
    Client().get(f"{path}image.png")

    assert (options[0].has_incidents, options[0].address) == (False, "")
