"""Studies: kept, read, changed and shared by whom they belong to."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import Role, Study, User
from benchapp.reports.write import share_study
from tests.factories import make_measured_volumes, make_user
from tests.pages import Page
from tests.reports.pages.made_studies import QUERY, make_study
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
measured = shared_rows(make_measured_volumes)


def sign_in(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def address(name: str, study: Study) -> str:
    return reverse(name, args=[study.pk])


def test_empty_list_shows_what_to_do(editor: Client) -> None:
    page = Page(editor.get(reverse("studies")))

    assert "Save as a report" in page.words
    assert reverse("add_study") in page.links


def test_list_of_studies_takes_one_query(viewer: Client, django_assert_num_queries: Any) -> None:
    for number in range(5):
        make_study(title=f"Study {number}", owner=make_user())
    viewer.get(reverse("studies"))

    with django_assert_num_queries(4):
        page = Page(viewer.get(reverse("studies")))
    assert "5 reports" in page.words
    assert "Study 4" in page.words


def test_study_shows_each_chart_with_its_table(viewer: Client, measured: None) -> None:
    study = make_study(text="Numbers of **our** disks.")

    response = viewer.get(address("study", study))

    page = Page(response)
    html = response.content.decode()
    assert "<strong>our</strong>" in html
    assert "as <em>measured</em>" in html
    assert [tag["data-value"] for name, tag in page.tags if name == "td" and "data-value" in tag] == [
        "1000.0",
        "1900.0",
        "3123.0",
    ]
    assert any("data-scaling" in tag for _, tag in page.tags)
    assert f"/scaling/?{QUERY}" in page.links


def test_text_is_sanitized(viewer: Client) -> None:
    study = make_study(
        text="<script>alert(1)</script> [a](javascript:alert(1)) ![p](https://elsewhere.example/p.png)",
        panels=[],
    )

    response = viewer.get(address("study", study))

    html = response.content.decode()
    assert "<script>alert" not in html
    assert "javascript:alert" not in re.findall(r'href="([^"]*)"', html)
    assert "<img" not in html


def test_chart_with_a_bad_filter_reports_it_and_the_study_is_shown(viewer: Client, measured: None) -> None:
    study = make_study(
        panels=[{"kind": "scaling", "query": "q=speed:9&x=volume_count", "title": "Odd", "text": ""}]
    )

    response = viewer.get(address("study", study))

    assert response.status_code == 200
    assert "Unknown filter" in Page(response).words


def test_chart_is_saved_as_a_new_study_of_the_user() -> None:
    person = make_user(Role.EDITOR)

    response = sign_in(person).post(
        reverse("add_study"),
        {"kind": "scaling", "query": f"?{QUERY}&after=x", "title": " Reads  of db-1 ", "text": "So *so*."},
    )

    study = Study.objects.get()
    assert response.headers["Location"] == address("study", study)
    assert (study.title, study.text, study.owner) == ("Reads of db-1", "So *so*.", person)
    assert study.panels == [{"kind": "scaling", "query": QUERY, "title": "", "text": ""}]


@pytest.mark.parametrize("study_id", [7, 30_000_000_001])
def test_chart_is_appended_to_an_own_study(study_id: int) -> None:
    person = make_user(Role.EDITOR)
    study = make_study(owner=person, pk=study_id)

    sign_in(person).post(
        reverse("add_study"), {"kind": "scaling", "query": "x=iodepth", "title": "Depth", "into": study.pk}
    )

    study.refresh_from_db()
    assert [panel["title"] for panel in study.panels] == ["Reads", "Depth"]
    assert study.title == "Disks"


def test_proposed_title_is_not_stored(measured: None) -> None:
    person = make_user(Role.EDITOR)
    study = make_study(owner=person, panels=[])
    said = "IOPS over 1–4 volumes: is linear"
    given = {"kind": "scaling", "query": QUERY, "title": said, "proposed": said, "into": study.pk}

    sign_in(person).post(reverse("add_study"), given)

    study.refresh_from_db()
    assert [panel["title"] for panel in study.panels] == [""]


def test_digit_other_than_ascii_selects_no_study(editor: Client) -> None:
    editor.post(reverse("add_study"), {"kind": "scaling", "query": QUERY, "title": "Disks", "into": "²"})

    assert Study.objects.get().title == "Disks"


def test_chart_is_not_added_to_a_study_of_someone_else(editor: Client) -> None:
    study = make_study(owner=make_user(Role.EDITOR))

    response = editor.post(
        reverse("add_study"), {"kind": "scaling", "query": "x=iodepth", "title": "Depth", "into": study.pk}
    )

    study.refresh_from_db()
    assert (response.status_code, len(study.panels)) == (403, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"title": " "}, "the title is required"),
        ({"title": "x" * 201}, "201 characters; at most 200"),
        ({"text": "x" * 20_001}, "20001 characters; at most 20000"),
        ({"kind": "song"}, "Valid values: scaling, matrix, history, compare"),
        ({"query": "x" * 4001}, "4001 characters; at most 4000"),
        ({"query": "&".join(["a=1"] * 101)}, "the address has more than 100 parameters"),
        ({"query": "q=\x07"}, "control characters"),
    ],
)
def test_invalid_study_is_rejected_and_the_input_is_shown_again(
    editor: Client, changes: dict[str, str], words: str
) -> None:
    given = {"kind": "scaling", "query": QUERY, "title": "Disks", "text": "typed"} | changes

    response = editor.post(reverse("add_study"), given)

    assert response.status_code == 400
    assert words in Page(response).words
    assert Study.objects.count() == 0


def edit(client: Client, study: Study, **given: str) -> Any:
    form = {"title": study.title, "text": study.text, "version": study.updated_at.isoformat(), "do": "save"}
    return client.post(address("edit_study", study), {**form, **given})


def test_owner_changes_text_and_panels() -> None:
    person = make_user(Role.EDITOR)
    study = make_study(owner=person)

    response = edit(sign_in(person), study, title="New", text="- a", **{"title-0": "Other", "text-0": "*b*"})

    study.refresh_from_db()
    assert response.headers["Location"] == address("study", study)
    assert (study.title, study.text) == ("New", "- a")
    assert study.panels == [{"kind": "scaling", "query": QUERY, "title": "Other", "text": "*b*"}]


@pytest.mark.parametrize(
    ("button", "titles"),
    [
        ("up:1", ["B", "A", "C"]),
        ("up:0", ["A", "B", "C"]),
        ("down:1", ["A", "C", "B"]),
        ("down:2", ["A", "B", "C"]),
        ("remove:1", ["A", "C"]),
        ("remove:7", ["A", "B", "C"]),
        ("sing:1", ["A", "B", "C"]),
    ],
)
def test_panels_are_reordered_and_removed(admin: Client, button: str, titles: list[str]) -> None:
    study = make_study(
        panels=[{"kind": "scaling", "query": "", "title": title, "text": ""} for title in ("A", "B", "C")]
    )

    response = edit(admin, study, do=button)

    study.refresh_from_db()
    assert response.headers["Location"] == address("edit_study", study)
    assert [panel["title"] for panel in study.panels] == titles


def test_change_of_an_outdated_version_is_rejected(admin: Client) -> None:
    study = make_study()

    response = edit(admin, study, version="2020-01-01T00:00:00+00:00", title="Late")

    study.refresh_from_db()
    assert (response.status_code, study.title) == (409, "Disks")
    assert "changed by someone else" in Page(response).words


def test_rejected_change_shows_the_input_again(admin: Client) -> None:
    study = make_study()

    page = Page(edit(admin, study, title="", text="much typing"))

    assert "title is required" in page.words
    assert "much typing" in page.words


def test_form_shows_the_settings_of_a_chart_as_they_are_typed(admin: Client) -> None:
    panel = {"kind": "scaling", "query": "q=host%3Adb-1+volume_type%3Agp3&x=iodepth", "title": "", "text": ""}
    study = make_study(panels=[panel])

    words = Page(admin.get(address("edit_study", study))).words

    assert "q=host:db-1 volume_type:gp3 · x=iodepth" in words


def test_study_of_someone_else_cannot_be_edited(editor: Client) -> None:
    study = make_study(owner=make_user(Role.EDITOR, username="grace"), share_token="s" * 43)

    page = Page(editor.get(address("study", study)))
    refusal = editor.post(address("share_study", study), {"share": "yes"})

    assert address("edit_study", study) not in page.links
    assert "s" * 43 not in page.words
    assert refusal.status_code == 403
    assert "This report belongs to grace" in Page(refusal).words


def test_owner_without_the_role_editor_can_only_read() -> None:
    person = make_user(Role.VIEWER)
    study = make_study(owner=person)

    assert sign_in(person).get(address("study", study)).status_code == 200
    assert sign_in(person).post(address("remove_study", study)).status_code == 403


def test_study_is_deleted(admin: Client) -> None:
    study = make_study()

    response = admin.post(address("remove_study", study))

    assert response.headers["Location"] == reverse("studies")
    assert Study.objects.count() == 0


def test_shared_link_is_created_and_revoked(admin: Client) -> None:
    study = make_study()

    admin.post(address("share_study", study), {"share": "yes"})
    study.refresh_from_db()
    token = study.share_token
    assert token is not None and len(token) == 43
    admin.post(address("share_study", study), {"share": "yes"})
    assert share_study(study.pk) == token
    assert f"/shared/{token}/" in Page(admin.get(address("study", study))).words
    admin.post(address("share_study", study), {"share": "no"})

    assert Client().get(f"/shared/{token}/").status_code == 404


def test_chart_of_an_unknown_kind_is_reported(viewer: Client) -> None:
    study = make_study(panels=[{"kind": "hologram", "query": "", "title": "", "text": ""}])

    page = Page(viewer.get(address("study", study)))

    assert "hologram" in page.words
    assert "Chart not available." in page.words


def test_link_to_save_a_chart_contains_its_address(visitor: Callable[[Role], Client], measured: None) -> None:
    form = Page(
        visitor(Role.EDITOR).get(reverse("add_study"), {"kind": "scaling", "query": QUERY, "title": "T"})
    )

    fields = {tag.get("name"): tag.get("value") for name, tag in form.tags if name == "input"}
    assert (fields["kind"], fields["query"], fields["title"]) == ("scaling", QUERY, "T")


@pytest.mark.parametrize("kind", ["matrix", "history"])
def test_other_kinds_of_charts_are_rendered_in_a_study(kind: str, viewer: Client, measured: None) -> None:
    study = make_study(panels=[{"kind": kind, "query": "q=host:db-1", "title": "", "text": ""}])

    response = viewer.get(address("study", study))

    page = Page(response)
    assert any("data-matrix" in tag or "data-history" in tag for _, tag in page.tags)
    assert f"/{kind}/?q=host:db-1" in page.links


@pytest.mark.parametrize("kind", ["matrix", "history"])
def test_other_kinds_of_charts_report_a_bad_filter(kind: str, viewer: Client, measured: None) -> None:
    study = make_study(panels=[{"kind": kind, "query": "q=speed:9", "title": "", "text": ""}])

    response = viewer.get(address("study", study))

    assert response.status_code == 200
    assert "Unknown filter" in Page(response).words


@pytest.mark.parametrize(
    "given",
    [
        "q=host:a&x=iodepth",
        "?q=host:a&x=iodepth",
        "/scaling/?q=host:a&x=iodepth",
        "https://b.example/?q=host:a&x=iodepth",
    ],
)
def test_whole_address_of_a_chart_is_accepted(given: str, editor: Client) -> None:
    editor.post(reverse("add_study"), {"kind": "scaling", "query": given, "title": "T"})

    assert Study.objects.get().panels[0]["query"] == "q=host:a&x=iodepth"


@pytest.mark.parametrize("name", ["scaling", "matrix", "history"])
def test_chart_pages_offer_editors_to_save_the_chart(
    name: str, editor: Client, viewer: Client, measured: None
) -> None:
    def offers(client: Client) -> list[str]:
        links = Page(client.get(reverse(name), {"q": "host:db-1"})).links
        return [link for link in links if link.startswith(reverse("add_study"))]

    (offer,) = offers(editor)
    fields = {tag.get("name"): tag.get("value") for _, tag in Page(editor.get(offer)).tags if "name" in tag}
    assert offers(viewer) == []
    assert fields["kind"] == name
    assert "host:db-1" in (fields["query"] or "").replace("%3A", ":")


def make_comparison(query: str = "a=volume_count:1&b=volume_count:4&metric=iops") -> Study:
    return make_study(panels=[{"kind": "compare", "query": query, "title": "", "text": ""}])


def test_comparison_is_rendered_with_its_table(measured: None, viewer: Client) -> None:
    page = Page(viewer.get(address("study", make_comparison())))

    assert "volume_count:4 vs. volume_count:1: 1 value not decided, " in page.words
    assert "3.123" in page.words
    assert any("data-comparison" in tag for _, tag in page.tags)


def test_invalid_comparison_reports_the_reason(viewer: Client) -> None:
    page = Page(viewer.get(address("study", make_comparison("a=depth:lots&b=host:x"))))

    assert "A: iodepth:lots is not a valid number" in page.words
