"""Snapshots: the numbers of a study stay as they were, on its page, by its link and in previews."""

import re
import struct
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import (
    AuditRecord,
    Measurement,
    Role,
    Series,
    Study,
    StudySnapshot,
    StudySnapshotImage,
    User,
)
from benchapp.reports.pages.panels import _sanitize
from benchapp.reports.write import change_study, share_study
from tests.factories import make_measured_volumes, make_user
from tests.pages import Page
from tests.reports.pages.made_studies import QUERY, make_study
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
measured = shared_rows(make_measured_volumes)
PNG = b"\x89PNG\r\n\x1a\n"
KINDS = (
    ("scaling", QUERY),
    ("history", "q=host:db-1&metric=iops"),
    ("matrix", "q=host:db-1"),
    ("compare", "a=volume_count:1&b=volume_count:2&metric=iops"),
    ("layouts", "iops=500&q=host:db-1"),
    ("scaling", "q=speed:9"),
)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing: an image of 2 400 × 1 260 pixels takes a third of a second."""
    png = PNG + struct.pack(">I4sII", 13, b"IHDR", 2400, 1300)
    monkeypatch.setattr(
        "benchapp.reports.pages.panels.draw_panel", lambda panel, options: png + options.theme.encode()
    )


@pytest.fixture
def owner() -> Client:
    client = Client(REMOTE_ADDR="198.51.100.77")
    client.force_login(make_user(Role.EDITOR, username="anna"))
    return client


@pytest.fixture
def study(owner: Client, measured: None) -> Study:
    panels = [{"kind": kind, "query": query, "title": "", "text": ""} for kind, query in KINDS]
    return make_study(panels=panels, owner_id=int(owner.session["_auth_user_id"]))


def freeze(client: Client, study: Study, answer: str = "yes") -> Any:
    response = client.post(reverse("change_snapshot", args=[study.pk]), {"snapshot": answer}, follow=True)
    assert response.status_code == 200
    return response


def read_numbers(client: Client, address: str) -> list[str]:
    page = Page(client.get(address))
    return [tag["data-value"] for name, tag in page.tags if name == "td" and "data-value" in tag]


def test_numbers_of_all_charts_stay_as_they_were(owner: Client, study: Study, drawn: None) -> None:
    shown = reverse("study", args=[study.pk])
    live = read_numbers(owner, shown)

    page = Page(freeze(owner, study))
    Measurement.objects.all().delete()
    Series.objects.all().delete()

    frozen = read_numbers(owner, shown)
    assert len(live) > 5
    assert frozen == live
    assert read_numbers(owner, f"{shown}?data=live") == []
    assert "Snapshot taken" in page.words
    assert "snapshot of" in page.words and "by anna" in page.words
    assert "Unknown filter" in page.words
    assert not any("chart.umd" in tag.get("src", "") for name, tag in page.tags if name == "script")
    images = [tag["src"] for name, tag in page.tags if name == "img"]
    assert len(images) == 2 * len(KINDS)
    assert owner.get(images[1]).content.endswith(b"dark")
    assert StudySnapshotImage.objects.count() == len(images)


def test_snapshot_is_read_by_the_link_without_another_address(
    owner: Client, study: Study, drawn: None
) -> None:
    token = share_study(study.pk)
    freeze(owner, study)
    stranger = Client(REMOTE_ADDR="198.51.100.78")

    response = stranger.get(f"/shared/{token}/")

    page = Page(response)
    html = response.content.decode()
    assert "snapshot of" in page.words and "anna" not in page.words
    assert [link for link in page.links if link and not link.startswith("#")] == []
    images = [tag["src"] for name, tag in page.tags if name == "img"]
    assert {image.startswith(f"/shared/{token}/snapshot/") for image in images} == {True}
    answer = stranger.get(images[0])
    assert (answer.content[:8], answer["Content-Type"]) == (PNG, "image/png")
    assert (answer["X-Robots-Tag"], answer["Referrer-Policy"]) == ("noindex, nofollow", "no-referrer")
    assert stranger.get(f"/shared/{token}/image.png").content == answer.content
    assert 'property="og:image:width" content="1200"' in html
    assert 'property="og:image:height" content="650"' in html
    assert stranger.get(f"/shared/{token}/charts/1").content.count(b"<canvas") == 0
    assert stranger.get(f"/shared/{'x' * 43}/snapshot/1-light.png").status_code == 404


def test_image_of_a_chart_that_was_removed_is_not_read(owner: Client, study: Study, drawn: None) -> None:
    token = share_study(study.pk)
    freeze(owner, study)
    change_study(study.pk, panels=[{"kind": KINDS[1][0], "query": KINDS[1][1]}])

    for base in (f"/shared/{token}/", reverse("study", args=[study.pk])):
        statuses = [owner.get(f"{base}snapshot/{place}-light.png").status_code for place in (1, 2, 3)]
        assert statuses == [404, 200, 404]


def test_page_of_a_snapshot_takes_as_many_queries_as_one_without(
    owner: Client, study: Study, drawn: None, django_assert_num_queries: Any
) -> None:
    freeze(owner, study)
    address = reverse("study", args=[study.pk])
    owner.get(address)

    with django_assert_num_queries(4):
        owner.get(address)


def test_texts_and_order_change_and_added_charts_are_named(owner: Client, study: Study, drawn: None) -> None:
    freeze(owner, study)
    first = {"kind": "scaling", "query": QUERY, "title": "Renamed", "text": "New *text*."}
    change_study(study.pk, panels=[{**first, "query": "x=iodepth"}, first])

    page = Page(owner.get(reverse("study", args=[study.pk])))

    assert "Renamed" in page.words and "New text." in page.words
    assert "not in the snapshot" in page.words
    assert len([name for name, _ in page.tags if name == "img"]) == 2


def test_new_snapshot_replaces_and_deletion_shows_current_data(
    owner: Client, study: Study, drawn: None
) -> None:
    freeze(owner, study)
    earlier = StudySnapshot.objects.get().taken_at
    freeze(owner, study)
    later = StudySnapshot.objects.get().taken_at

    page = Page(freeze(owner, study, "no"))

    assert later > earlier
    assert "Snapshot deleted" in page.words
    assert any("data-scaling" in tag for _, tag in page.tags)
    assert (StudySnapshot.objects.count(), StudySnapshotImage.objects.count()) == (0, 0)
    actions = AuditRecord.objects.filter(kind="study").order_by("pk").values_list("action", "username")
    assert list(actions) == [
        ("snapshot_taken", "anna"),
        ("snapshot_taken", "anna"),
        ("snapshot_removed", "anna"),
    ]


def test_images_are_those_of_the_chart_in_both_themes(owner: Client, measured: None) -> None:
    study = make_study(owner_id=int(owner.session["_auth_user_id"]))

    freeze(owner, study)

    light, dark = StudySnapshotImage.objects.order_by("-theme").values_list("content", flat=True)
    (panel,) = StudySnapshot.objects.get().panels
    assert struct.unpack(">II", light[16:24]) == (2 * panel["width"], 2 * panel["height"])
    assert bytes(light[:8]) == bytes(dark[:8]) == PNG
    assert bytes(light) != bytes(dark)


def test_preferences_of_who_takes_it_are_not_in_a_snapshot(
    owner: Client, drawn: None, measured: None
) -> None:
    User.objects.update(time_zone="Asia/Tokyo", rate_units="binary")
    query = "q=host:db-1&metric=bandwidth_bytes_per_s"
    panels = [{"kind": "history", "query": query, "title": "", "text": ""}]
    study = make_study(panels=panels, owner_id=int(owner.session["_auth_user_id"]))

    freeze(owner, study)

    (panel,) = StudySnapshot.objects.get().panels
    assert "Since (UTC)" in panel["content"]
    assert "iB/s" not in panel["content"]


def test_only_who_may_edit_takes_snapshots(study: Study) -> None:
    other = Client()
    other.force_login(make_user(Role.EDITOR))

    assert other.post(reverse("change_snapshot", args=[study.pk]), {"snapshot": "yes"}).status_code == 403
    assert "Take snapshot" not in Page(other.get(reverse("study", args=[study.pk]))).words


def test_list_and_api_name_the_time_of_the_snapshot(owner: Client, study: Study, drawn: None) -> None:
    assert owner.get(f"/api/v1/studies/{study.pk}").json()["snapshot_at"] is None
    freeze(owner, study)

    row = owner.get("/api/v1/studies?fields=id,snapshot_at").json()["studies"][0]

    assert row["snapshot_at"] == owner.get(f"/api/v1/studies/{study.pk}").json()["snapshot_at"] is not None
    assert "snapshot of" in Page(owner.get(reverse("studies"))).words


def test_stored_html_is_sanitized() -> None:
    given = '<p onclick="x()" class="muted">a<script>alert(1)</script></p><a href="/runs/">b</a><a href="#c">c</a>'

    assert _sanitize(given) == '<p class="muted">a</p><a>b</a><a href="#c">c</a>'


def test_contents_link_to_each_chart_and_tables_are_collapsed(owner: Client, study: Study) -> None:
    html = owner.get(reverse("study", args=[study.pk])).content.decode()

    anchors = re.findall(r'<li><a href="#(panel-\d)">', html)
    assert anchors == [f"panel-{place}" for place in range(1, len(KINDS) + 1)]
    assert all(f'id="{anchor}"' in html for anchor in anchors)
    assert html.count('<details class="study-data"><summary>Data table') == 3


def test_form_shows_a_thumbnail_of_each_chart(owner: Client, study: Study) -> None:
    page = Page(owner.get(reverse("edit_study", args=[study.pk])))

    images = [tag for name, tag in page.tags if name == "img"]
    assert len(images) == 2 * len(KINDS)
    assert {tag["loading"] for tag in images} == {"lazy"}
    assert images[0]["alt"] == "Current chart: Scaling"
    drawn = owner.get(images[0]["src"])
    assert (drawn.content[:8], drawn["Content-Type"]) == (PNG, "image/png")
    assert owner.get(reverse("thumbnail", args=[study.pk, 9, "light"])).status_code == 404
    assert owner.get(reverse("thumbnail", args=[study.pk, 1, "blue"])).status_code == 404
