"""A run of published numbers on the pages and in the API: the source stands there, and nothing leads nowhere."""

from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.posts.submissions import IncomingSubmission, accept_submission
from benchapp.models import Host, Kind, Measurement, Run, Submission
from tests.pages import Page
from tests.reported import ID, pack_reported
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def run() -> Run:
    host = Host.objects.create(name="ebs")
    accept_submission(IncomingSubmission(host.pk, Kind.REPORTED, pack_reported(), UUID(ID)))
    normalize_batch()
    return Run.objects.get()


def test_run_page_shows_source_and_notes(viewer: Client, run: Run) -> None:
    page = Page(viewer.get(reverse("run", args=[run.pk])))

    assert "4k randread" in page.words
    assert "Published in “A blog on disks”, not measured here. Note: hard to read." in page.words
    assert "A. Writer" in page.words
    assert "https://blog.example/disks" in page.links
    assert "not reported" in page.words


def test_run_page_offers_no_output_of_fio(viewer: Client, run: Run) -> None:
    page = Page(viewer.get(reverse("run", args=[run.pk])))

    assert reverse("run_output", args=[run.pk]) not in page.links
    assert reverse("run_report", args=[run.pk]) not in page.links
    assert "exit status" not in page.words


def test_output_and_report_of_such_a_run_say_that_there_is_none(viewer: Client, run: Run) -> None:
    report = viewer.get(reverse("run_report", args=[run.pk]))

    assert viewer.get(reverse("run_output", args=[run.pk])).status_code == 404
    assert report.status_code == 409
    assert "without fio output" in Page(report).words
    assert reverse("run_output", args=[run.pk]) not in Page(report).links


def test_lists_and_the_series_bear_the_badge(viewer: Client, run: Run) -> None:
    series_id = Measurement.objects.first().series_id  # type: ignore[union-attr]

    pages = (
        reverse("runs"),
        f"{reverse('series_list')}?view=table",
        reverse("series", args=[series_id]),
    )
    for address in pages:
        assert "/docs/badges#reported" in Page(viewer.get(address)).links


def test_upload_is_named_what_it_is(viewer: Client, editor: Client, run: Run) -> None:
    raw = editor.get(reverse("upload_raw", args=[ID]))

    assert "published results" in Page(viewer.get(reverse("upload", args=[ID]))).words
    assert raw.content == pack_reported()
    assert f"{ID}.json" in raw["Content-Disposition"]


def test_table_as_csv_has_what_was_published(viewer: Client, run: Run) -> None:
    lines = viewer.get(reverse("run_table", args=[run.pk])).content.decode().splitlines()

    assert len(lines) == 3
    assert '"24490"' in lines[1]


def test_api_tells_source_kind_and_badge(viewer: Client, run: Run) -> None:
    body = viewer.get(f"/api/v1/runs/{run.pk}").json()

    assert (body["format"], body["badges"], body["submission"]["kind"]) == (
        "reported",
        ["reported"],
        "reported",
    )
    assert body["command"]["source"]["title"] == "A blog on disks"
    assert body["measurements"][0]["missing"]["latency_p99_ns"] == "not-reported"


def test_api_hands_out_the_document_and_no_output_of_fio(viewer: Client, run: Run) -> None:
    document = viewer.get(f"/api/v1/runs/{run.pk}/output")
    part = viewer.get(f"/api/v1/runs/{run.pk}/output?part=fio")
    report = viewer.get(f"/api/v1/runs/{run.pk}/report")

    assert (document.status_code, document["Content-Type"]) == (200, "application/json")
    assert document.content == pack_reported()
    assert (part.status_code, part.json()["code"]) == (404, "not-found")
    assert (report.status_code, report.json()["code"]) == (409, "report-unreadable")


def test_hostile_words_of_a_source_are_text(viewer: Client) -> None:
    host = Host.objects.create(name="ebs")
    hostile = "<img src=x onerror=alert(1)>"
    body = pack_reported(source={"title": hostile, "author": hostile, "note": hostile})
    accept_submission(IncomingSubmission(host.pk, Kind.REPORTED, body, UUID(ID)))
    normalize_batch()

    html = viewer.get(reverse("run", args=[Run.objects.get().pk])).content.decode()

    assert "<img" not in html
    assert Submission.objects.get().state == "stored"
