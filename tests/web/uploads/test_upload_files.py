"""Files handed over: several at once, with their logs, by form and by script, with the answers of the API."""

import gzip
from typing import Any

import orjson
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from benchapp.models import Kind, Role, State, Submission
from benchapp.pipeline.intake.submissions import unpack
from tests.envelopes import read_fio
from tests.factories import make_host, make_user
from tests.web.pages import Page

OUTPUT = read_fio("07_json.out").encode()
OTHER = read_fio("08_jsonplus.out").encode()
LOG = b"500, 8000, 0, 0\n1000, 8100, 0, 0\n"


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the wake-ups."""
    calls: list[int] = []
    monkeypatch.setattr("benchapp.web.uploads.upload_files.wake_up", lambda: calls.append(1))
    return calls


@pytest.fixture
def host(db: Any) -> Any:
    return make_host("db-01")


def post(client: Client, files: dict[str, bytes], *, wants_json: bool = True, **fields: str) -> Any:
    uploads = [SimpleUploadedFile(name, content) for name, content in files.items()]
    headers = {"Accept": "application/json"} if wants_json else {}
    return client.post(
        reverse("upload_files"), {"host": "db-01", "layout": "", **fields, "file": uploads}, headers=headers
    )


def answers(response: Any) -> list[tuple[str, int, str]]:
    return [(row["name"], row["status"], row["code"]) for row in response.json()["files"]]


def test_several_files_of_one_form_are_listed_on_the_next_page(editor: Client, host: Any) -> None:
    post(editor, {"b.json": OTHER}, wants_json=False)
    response = post(editor, {"a.json": OUTPUT, "b.json": OTHER, "c.txt": b"hello"}, wants_json=False)

    page = Page(editor.get(response["Location"]))

    assert response.status_code == 302
    for words in (
        "a.json accepted",
        "b.json already uploaded",
        "c.txt rejected no fio report found",
        "(no-report)",
    ):
        assert words in page.words
    assert {reverse("upload", args=[row.pk]) for row in Submission.objects.all()} <= set(page.links)


def test_list_of_outcomes_is_shown_once(editor: Client, host: Any) -> None:
    response = post(editor, {"a.json": OUTPUT, "b.json": OTHER}, wants_json=False)

    first, second = (editor.get(response["Location"]).content.decode() for _ in range(2))

    assert 'id="results"' in first
    assert 'id="results"' not in second


def test_script_is_answered_as_the_api_answers(editor: Client, host: Any, no_broker: list[int]) -> None:
    first, second = post(editor, {"a.json": OUTPUT}), post(editor, {"renamed.json": OUTPUT})

    row = Submission.objects.get()
    assert answers(first) == [("a.json", 202, "")]
    assert answers(second) == [("renamed.json", 200, "")]
    assert first.json()["files"][0]["id"] == second.json()["files"][0]["id"] == str(row.pk)
    assert (row.state, len(no_broker)) == (State.RECEIVED, 1)


@pytest.mark.parametrize(
    ("name", "content", "status", "code"),
    [
        ("a.txt", b"hello", 422, "no-report"),
        ("a.json", b"", 400, "body-empty"),
        ("a.json", b" \n", 400, "body-empty"),
        ("a.json", read_fio("B3_truncated_json.out").encode(), 422, "truncated-report"),
        ("a.gz", gzip.compress(OUTPUT)[:-9], 400, "gzip-invalid"),
        ("a.gz", gzip.compress(b" " * 40 * 2**20), 413, "body-too-big"),
        ("a_bw.1.log", LOG, 422, "log-alone"),
    ],
)
def test_file_is_refused_with_the_code_of_the_api(
    name: str, content: bytes, status: int, code: str, editor: Client, host: Any
) -> None:
    response = post(editor, {name: content})

    assert answers(response) == [(name, status, code)]
    assert len(response.json()["files"][0]["detail"]) > 20
    assert not Submission.objects.exists()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"host": "nobody"}, "Unknown host"),
        ({"layout": "volume_sort=gp3"}, "parameter 'volume_sort' is unknown"),
        ({"layout": "volume_count=many"}, "volume_count"),
    ],
)
def test_wrong_field_is_a_400_in_words(fields: dict[str, str], words: str, editor: Client, host: Any) -> None:
    response = post(editor, {"a.json": OUTPUT}, **fields)

    assert (response.status_code, response.json()["code"]) == (400, "form-invalid")
    assert words in response.json()["detail"]
    assert not Submission.objects.exists()


def test_packed_file_is_the_same_as_the_plain_one(editor: Client, host: Any) -> None:
    post(editor, {"a.json": OUTPUT})

    assert answers(post(editor, {"a.json.gz": gzip.compress(OUTPUT)})) == [("a.json.gz", 200, "")]


def test_logs_go_with_the_one_output(editor: Client, host: Any) -> None:
    response = post(
        editor,
        {"job_bw.1.log": LOG, "a.json": OUTPUT, "job_lat.1.log": LOG},
        layout="volume_type=gp3\nname=data\nlabel.rack=r12",
    )

    row = Submission.objects.get()
    envelope = orjson.loads(unpack(bytes(row.body)))
    assert response.json()["files"][0]["log_count"] == 2
    assert (row.kind, sorted(envelope["logs"])) == (Kind.ENVELOPE, ["job_bw.1.log", "job_lat.1.log"])
    assert envelope["target"] == {"volume_type": "gp3", "name": "data"}
    assert envelope["labels"] == {"rack": "r12"}


def test_output_may_have_as_many_logs_as_an_envelope(editor: Client, host: Any) -> None:
    logs = {f"job_bw.{number}.log": LOG for number in range(200)}

    response = post(editor, {"a.json": OUTPUT, **logs})

    assert response.json()["files"][0]["log_count"] == 200


def test_small_gzips_together_have_the_room_of_one_body(editor: Client, host: Any, settings: Any) -> None:
    settings.UNPACKED_LIMIT_BYTES = 3 * 2**20
    bomb = gzip.compress(b"groupid= " * 2**17 + b"hello " * 2**16)

    response = post(editor, {f"{number}.gz": bomb for number in range(4)})

    assert sorted(row[2] for row in answers(response)) == [""] * 2 + ["body-too-big"] * 2


def test_files_of_one_name_are_both_taken_in(editor: Client, host: Any) -> None:
    uploads = [SimpleUploadedFile("a.json", content) for content in (OUTPUT, OTHER)]

    response = editor.post(
        reverse("upload_files"), {"host": "db-01", "file": uploads}, headers={"Accept": "application/json"}
    )

    assert answers(response) == [("a.json", 202, ""), ("a.json (2)", 202, "")]


def test_no_file_at_all_is_said(editor: Client, host: Any) -> None:
    response = post(editor, {}, wants_json=False)

    assert response.status_code == 400
    assert "This field is required" in response.content.decode()


@pytest.mark.django_db
def test_post_without_the_token_against_forgery_is_refused(host: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user(Role.EDITOR))

    assert post(client, {"a.json": OUTPUT}).status_code == 403
    assert not Submission.objects.exists()


def test_viewer_hands_nothing_in(viewer: Client, host: Any) -> None:
    assert post(viewer, {"a.json": OUTPUT}).status_code == 403
    assert viewer.get(reverse("upload_files")).status_code == 403


def test_page_tells_the_script_the_limits(editor: Client) -> None:
    page = Page(editor.get(reverse("upload_files")))

    form = next(named for tag, named in page.tags if tag == "form" and "data-upload-form" in named)
    assert (form["data-body-limit"], form["data-unpacked-limit"]) == ("8388608", "33554432")
