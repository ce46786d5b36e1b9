"""Snapshots of studies by the API: taken as on the page, read, deleted, recorded."""

import struct
from typing import Any

import pytest
from django.test import Client

from benchapp.charts.images.frame import TooManyDrawings
from benchapp.models import AuditRecord, Measurement, Role, Study, StudySnapshot, User
from benchapp.reports.write import change_study
from tests.factories import add_series, make_host, make_target, make_user

pytestmark = pytest.mark.django_db
PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 2400, 1300)


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing: an image of 2 400 × 1 260 pixels takes a third of a second."""
    monkeypatch.setattr(
        "benchapp.reports.pages.panels.draw_panel", lambda panel, options: PNG + options.theme.encode()
    )


@pytest.fixture
def anna() -> User:
    return make_user(Role.EDITOR, username="anna")


@pytest.fixture
def owner(anna: User) -> Client:
    client = Client()
    client.force_login(anna)
    return client


@pytest.fixture
def address(anna: User) -> str:
    """Give the address of the snapshot of a study with a chart of IOPS over volumes."""
    for count, iops in ((1, 1000.0), (2, 1900.0)):
        add_series([iops] * 3, host=make_host(f"db-{count}"), target=make_target(volume_count=count))
    panel = {"kind": "scaling", "query": "x=volume_count&metric=iops", "title": "", "text": ""}
    study = Study.objects.create(title="Disks", panels=[panel], owner=anna)
    return f"/api/v1/studies/{study.pk}/snapshot"


def test_snapshot_has_the_numbers_of_its_moment(owner: Client, address: str) -> None:
    taken = owner.post(address)
    Measurement.objects.all().delete()
    read = owner.get(address)
    page = owner.get(taken.json()["page"]).content.decode()

    (chart,) = taken.json()["charts"]
    assert (taken.status_code, taken.headers["Location"]) == (201, address)
    assert read.json() == taken.json()
    assert (chart["place"], chart["kind"], chart["width"], chart["height"]) == (1, "scaling", 1200, 650)
    assert "1\u202f900" in chart["content"]
    assert "<script" not in chart["content"]
    assert chart["title"] in page
    assert (taken.json()["taken_by"], owner.get(address[:-9]).json()["snapshot_at"]) == (
        "anna",
        taken.json()["taken_at"],
    )


def test_images_have_both_themes(owner: Client, address: str) -> None:
    (chart,) = owner.post(address).json()["charts"]

    images = [owner.get(f"{chart['image']}{query}") for query in ("", "?theme=dark")]

    assert [image.content for image in images] == [PNG + b"light", PNG + b"dark"]
    assert images[0].headers["Content-Type"] == "image/png"
    assert owner.get(f"{address}/charts/2").status_code == 404
    assert owner.get(f"{chart['image']}?theme=pink").status_code == 400


def test_new_snapshot_replaces_and_deletion_is_recorded(owner: Client, address: str) -> None:
    statuses = [
        owner.generic(method, address).status_code
        for method in ("DELETE", "GET", "POST", "POST", "DELETE", "GET")
    ]

    assert statuses == [404, 404, 201, 201, 204, 404]
    assert not StudySnapshot.objects.exists()
    records = AuditRecord.objects.order_by("pk").values_list("action", "username")
    assert list(records) == [
        ("snapshot_taken", "anna"),
        ("snapshot_taken", "anna"),
        ("snapshot_removed", "anna"),
    ]


def test_chart_that_was_changed_is_not_in_the_snapshot(owner: Client, address: str) -> None:
    owner.post(address)

    change_study(Study.objects.get().pk, panels=[{"kind": "matrix", "query": "x=volume_count"}])

    assert owner.get(address).json()["charts"] == []
    assert owner.get(f"{address}/charts/1").status_code == 404


def test_only_who_may_change_the_study_takes_and_deletes_it(
    owner: Client, person: Any, reader: Client, admin: Client, address: str
) -> None:
    others = [person(Role.EDITOR), person(Role.VIEWER), reader]

    refused = [client.post(address).status_code for client in others]
    taken = admin.post(address).status_code
    refused += [client.delete(address).status_code for client in others]

    assert (refused, taken) == ([403] * 6, 201)
    assert reader.get(address).status_code == 200


def test_server_that_draws_many_charts_says_so(
    owner: Client, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any) -> Any:
        raise TooManyDrawings

    monkeypatch.setattr("benchapp.reports.pages.panels.draw_panel", refuse)

    answer = owner.post(address)

    assert (answer.status_code, answer.json()["code"], answer.headers["Retry-After"]) == (503, "busy", "5")
    assert not StudySnapshot.objects.exists()
