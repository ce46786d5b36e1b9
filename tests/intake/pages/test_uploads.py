"""Uploads: what came in, what became of it, another try."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from msgspec import to_builtins

from benchapp.accounts.write.tokens import issue_token
from benchapp.fio import PARSER_VERSION
from benchapp.intake.api.body import Wire
from benchapp.intake.api.documents import Post
from benchapp.intake.api.posts import answer_post
from benchapp.intake.api.submissions import describe_validation
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.pages import views
from benchapp.intake.pages.views import HEIGHT, make_hours_chart
from benchapp.models import Kind, Measurement, Run, Scope, State, Submission
from tests.factories import NOON, make_host, make_run, make_submission
from tests.pages import Page

OUTPUTS = Path(__file__).parents[2] / "data" / "fio" / "generated"


def make_rejected(**fields):
    return make_submission(state=State.REJECTED, attempts=1, **fields)


def test_page_counts_and_says_what_became_of_each(viewer: Client) -> None:
    run = make_run()
    make_rejected(
        reason_code="truncated-report", reason="the report ends in job 2 of 4", received_at=timezone.now()
    )
    make_submission(state=State.RECEIVED, received_at=timezone.now())

    page = Page(viewer.get(reverse("uploads")))

    assert "Uploads: 1 rejected, 1 waiting" in page.words
    assert "the report ends in job 2 of 4" in page.words
    assert reverse("run", args=[run.pk]) in page.links


def test_chart_of_uploads_appears_with_the_first(viewer: Client) -> None:
    assert "Uploads per hour" not in Page(viewer.get(reverse("uploads"))).words

    make_submission()

    assert "Uploads per hour" in Page(viewer.get(reverse("uploads"))).words


def test_state_and_reason_narrow_the_list(viewer: Client) -> None:
    make_rejected(reason_code="no-jobs", host=make_host("db-01"))
    make_rejected(reason_code="no-report", host=make_host("db-02"))
    make_submission(make_host("db-03"))

    text = Page(viewer.get(reverse("uploads"), {"state": "rejected", "reason": "no-jobs"})).links

    assert "/hosts/db-01/" in text
    assert "/hosts/db-02/" not in text
    assert "/hosts/db-03/" not in text


def test_unknown_state_is_an_error_and_shows_none(viewer: Client) -> None:
    make_submission(make_host("db-03"))

    response = viewer.get(reverse("uploads"), {"state": "lost"})

    assert response.status_code == 400
    assert "lost is not one of the available choices" in response.content.decode()
    assert "/hosts/db-03/" not in Page(response).links


def test_older_uploads_are_on_the_next_page_and_none_is_lost(viewer: Client, monkeypatch) -> None:
    monkeypatch.setattr("benchapp.intake.pages.views.UPLOADS_ON_A_PAGE", 2)
    made = {str(make_submission(received_at=NOON).pk) for _ in range(5)}
    url, seen = reverse("uploads"), set()

    while url:
        page = Page(viewer.get(url))
        seen |= {
            link.split("/")[2] for link in page.links if link.startswith("/uploads/") and link.count("/") == 3
        }
        url = next((reverse("uploads") + link for link in page.links if "after=" in link), None)

    assert made <= seen


def test_list_asks_as_much_for_many_as_for_one(editor: Client, django_assert_num_queries) -> None:
    for _ in range(4):
        make_rejected()

    with django_assert_num_queries(9):  # session, person, rows with their runs, three counts, readiness (2)
        editor.get(reverse("uploads"))


def test_rejected_upload_is_tried_again(editor: Client) -> None:
    upload = make_rejected()

    response = editor.post(reverse("retry_upload", args=[upload.pk]))

    upload.refresh_from_db()
    assert (response.status_code, upload.state, upload.reason_code) == (302, State.RECEIVED, "")
    assert "Queued again" in editor.get(response["Location"]).content.decode()


def test_stored_upload_is_not_tried_again(editor: Client) -> None:
    upload = make_submission()

    response = editor.post(reverse("retry_upload", args=[upload.pk]))

    assert "Cannot retry" in editor.get(response["Location"]).content.decode()


def test_all_of_a_kind_are_tried_again_and_no_others(editor: Client) -> None:
    for reason in ("no-jobs", "no-jobs", "no-report"):
        make_rejected(reason_code=reason)

    editor.post(reverse("retry_uploads"), {"reason": "no-jobs"})

    assert Submission.objects.filter(state=State.RECEIVED).count() == 2
    assert Submission.objects.get(state=State.REJECTED).reason_code == "no-report"


def test_viewer_reads_but_has_no_buttons(viewer: Client) -> None:
    upload = make_rejected()

    page = viewer.get(reverse("uploads")).content.decode()

    assert "Retry" not in page
    assert viewer.post(reverse("retry_upload", args=[upload.pk])).status_code == 403
    assert viewer.post(reverse("retry_uploads"), {"reason": "output-empty"}).status_code == 403
    assert viewer.get(reverse("upload_raw", args=[upload.pk])).status_code == 403


def test_upload_says_why_and_what_to_do(viewer: Client) -> None:
    upload = make_rejected(reason_code="truncated-report", reason="the report ends in job 2 of 4")

    words = Page(viewer.get(reverse("upload", args=[upload.pk]))).words

    assert "the report ends in job 2 of 4" in words
    assert "the output was truncated" in words


def test_exact_bytes_can_be_downloaded(editor: Client) -> None:
    upload = make_rejected(body=b"\xff\x00 not json", kind=Kind.ENVELOPE)

    response = editor.get(reverse("upload_raw", args=[upload.pk]))

    assert response.content == b"\xff\x00 not json"
    assert response["Content-Disposition"] == f'attachment; filename="{upload.pk}.json"'
    assert response["Content-Type"] == "application/octet-stream"


def test_body_that_retention_removed_is_said_so(editor: Client) -> None:
    upload = make_rejected(body=None)

    response = editor.get(reverse("upload_raw", args=[upload.pk]))

    assert response.status_code == 404
    assert "after the retention period" in response.content.decode()
    assert "removed by retention" in editor.get(reverse("upload", args=[upload.pk])).content.decode()


def test_page_of_the_answer_to_a_post_shows_the_result(viewer: Client) -> None:
    """CONTRIBUTING.md, "Tasks and clicks": the result of a file that was sent with curl is found without a click."""
    _, token = issue_token(scope=Scope.INGEST, host=make_host("db-01"))
    wire = Wire((OUTPUTS / "07_json.out").read_bytes(), False)
    post = Post("/api/v1/fio", "volume_type=gp3", {"authorization": f"Bearer {token}"}, wire)
    answer = answer_post(post, validate=describe_validation)
    normalize_batch()

    page = Page(viewer.get(to_builtins(answer.body)["page"]))

    measurement = Measurement.objects.get(position=0)
    assert reverse("run", args=[measurement.run_id]) in page.links
    assert reverse("series", args=[measurement.series_id]) in page.links
    assert f"{measurement.iops:,.0f}".replace(",", "\u202f") in page.words


def test_runs_of_an_upload_beyond_those_with_results_are_links(viewer: Client, monkeypatch) -> None:
    monkeypatch.setattr(views, "RUNS_WITH_RESULTS", 1)
    first = make_run()
    second = make_run(submission=first.submission, document=1)

    page = Page(viewer.get(reverse("upload", args=[first.submission_id])))

    assert "Runs2" in page.words
    assert reverse("run", args=[second.pk]) in page.links
    assert "Other runs of this upload" in page.words


def make_hour(at: datetime, **counts: int) -> dict[str, Any]:
    return {"hour_at": at, "received": 0, "stored": 0, "rejected": 0, **counts}


def test_bars_stack_from_the_floor_and_a_single_one_is_seen() -> None:
    hours = [
        make_hour(NOON + timedelta(hours=place), stored=1000 if place == 3 else 0, rejected=1)
        for place in range(24)
    ]

    chart = make_hours_chart(hours)

    stored, rejected = chart["bars"][3]["segments"]
    assert chart["peak"] == 1001
    assert (stored["kind"], stored["y"] + stored["height"]) == ("stored", HEIGHT)
    assert rejected["height"] >= 2
    assert rejected["y"] + rejected["height"] == pytest.approx(stored["y"])


def test_day_without_uploads_draws_no_bars() -> None:
    chart = make_hours_chart([make_hour(NOON)])

    assert chart["bars"][0]["segments"] == ()


@pytest.fixture(autouse=True)
def no_broker(monkeypatch) -> None:
    monkeypatch.setattr("benchapp.intake.pages.upload_files.wake_up", lambda: False)


def post_upload(client: Client, content: bytes, **fields: str):
    file = SimpleUploadedFile("fio.json", content)
    return client.post(reverse("upload_files"), {"host": "db-01", "layout": "", **fields, "file": file})


def test_file_of_a_person_is_taken_in_like_a_post_of_a_host(editor: Client) -> None:
    make_host("db-01")
    output = (OUTPUTS / "07_json.out").read_bytes()

    response = post_upload(
        editor,
        output,
        layout="volume_type=gp3\r\n\r\nvolume_count=4\r\nprofile=nightly\r\nlabel.rack=r12\r\n",
    )

    upload = Submission.objects.get()
    normalize_batch()
    run = Run.objects.get()
    assert response["Location"] == reverse("upload", args=[upload.pk])
    assert (run.host.name, run.profile, run.labels) == ("db-01", "nightly", {"rack": "r12"})
    assert (run.target.volume_type, run.target.volume_count) == ("gp3", 4)


def test_same_file_twice_is_one_upload(editor: Client) -> None:
    make_host("db-01")
    output = (OUTPUTS / "07_json.out").read_bytes()

    first, second = post_upload(editor, output), post_upload(editor, output)

    assert first["Location"] == second["Location"]
    assert "already uploaded for this host" in editor.get(second["Location"]).content.decode()


@pytest.mark.parametrize(
    ("content", "fields", "words"),
    [
        (b"hello", {}, "fio.json: no fio"),
        (b"{}", {"host": "nobody"}, "This host does not exist"),
        (b"{}", {"layout": "volume_sort=gp3"}, "parameter &#x27;volume_sort&#x27; is unknown"),
        (b"{}", {"layout": "volume_count=many"}, "volume_count"),
        (b"", {}, "fio.json: the file is empty"),
    ],
)
def test_file_that_cannot_be_taken_in_says_why(content, fields, words: str, editor: Client) -> None:
    make_host("db-01")

    response = post_upload(editor, content, **fields)

    assert response.status_code == 400
    assert words.lower() in response.content.decode().lower()
    assert not Submission.objects.exists()


@pytest.mark.parametrize(
    ("is_automatic", "words"),
    [(True, "Workers are parsing them again"), (False, "Run manage.py renormalize --only-older")],
)
def test_admin_is_told_of_what_an_older_parser_read(
    is_automatic: bool, words: str, admin: Client, settings, django_assert_num_queries
) -> None:
    settings.AUTO_RENORMALIZE = is_automatic
    for _ in range(2):
        make_submission(parser_version=1)

    with django_assert_num_queries(10):  # as for others, and the count, new incidents of the bar
        page = Page(admin.get(reverse("uploads")))

    assert (
        f"2 submissions were parsed by an older parser version and may have different values. {words}"
        in page.words
    )


def test_many_older_readings_are_counted_up_to_a_bound(admin: Client, monkeypatch) -> None:
    monkeypatch.setattr("benchapp.intake.pages.views.OUTDATED_MAXIMUM", 2)
    for _ in range(3):
        make_submission(parser_version=1)

    assert (
        "At least 2 submissions were parsed by an older parser" in Page(admin.get(reverse("uploads"))).words
    )


def test_older_readings_are_told_to_admins_only_and_not_where_there_are_none(
    admin: Client, editor: Client
) -> None:
    make_submission(parser_version=PARSER_VERSION)
    assert "older parser" not in Page(admin.get(reverse("uploads"))).words

    make_submission(parser_version=1)
    assert "older parser" not in Page(editor.get(reverse("uploads"))).words
