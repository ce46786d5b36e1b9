"""Files handed over: several at once, with their logs, by form and by script, with the answers of the API."""

import gzip
import io
import lzma
import tarfile
import zipfile
from typing import Any

import orjson
import pytest
import zstandard
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from benchapp.intake.normalize import parsing_process, preview
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.pages import upload_files
from benchapp.intake.posts.submissions import unpack
from benchapp.models import Kind, Role, Series, State, Submission
from tests.envelopes import read_fio
from tests.factories import make_host, make_target, make_user
from tests.intake.normalize.test_parsing_process import spin
from tests.pages import Page

OUTPUT = read_fio("07_json.out").encode()
OTHER = read_fio("08_jsonplus.out").encode()
LOG = b"500, 8000, 0, 0\n1000, 8100, 0, 0\n"


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the wake-ups."""
    calls: list[int] = []
    monkeypatch.setattr("benchapp.intake.pages.upload_files.wake_up", lambda: calls.append(1))
    return calls


@pytest.fixture
def host(db: Any) -> Any:
    return make_host("db-01")


def post(client: Client, files: dict[str, bytes], *, wants_json: bool = True, **fields: Any) -> Any:
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
        ({"host": "nobody"}, "This host does not exist"),
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


def test_preview_names_the_series_that_a_file_joins_and_stores_nothing(editor: Client, host: Any) -> None:
    fields = {"volume_count": "4", "layout": "volume_type=gp3"}
    post(editor, {"a.json": OUTPUT}, **fields)
    normalize_batch()
    (series,) = Series.objects.all()
    stored = Submission.objects.count()

    joined = post(editor, {"c.json": OUTPUT + b"\n"}, do="preview", **fields).json()["files"][0]
    known = post(editor, {"a.json": OUTPUT}, do="preview", **fields).json()["files"][0]
    other = post(editor, {"c.json": OUTPUT}, do="preview", layout="volume_type=gp3", volume_count="8").json()
    bad = post(editor, {"c.txt": b"hello"}, do="preview").json()["files"][0]

    assert [(each["series"], each["nearest"]) for each in joined["series"]] == [(series.pk, None)]
    assert (joined["status"], joined["id"], known["state"]) == (200, "", "known")
    (new,) = other["files"][0]["series"]
    assert (new["series"], new["nearest"]) == (None, series.pk)
    assert new["differences"] == "Volumes 8 instead of 4"
    assert (bad["status"], bad["code"], bad["series"]) == (422, "no-report", None)
    assert Submission.objects.count() == stored


@pytest.mark.parametrize(
    ("layout", "end"),
    [
        ("raid_level=raid0\nfilesystem=xfs", "Filesystem xfs instead of not stated"),
        (
            "raid_level=raid0\nstripe_count=2\nfilesystem=xfs",
            "Stripes 2 instead of not stated, and 1 more difference",
        ),
    ],
)
def test_preview_names_three_differences(editor: Client, host: Any, layout: str, end: str) -> None:
    post(editor, {"a.json": OUTPUT}, volume_count="1")
    normalize_batch()

    answer = post(editor, {"b.json": OUTPUT}, do="preview", volume_count="2", layout=layout).json()

    (new,) = answer["files"][0]["series"]
    assert new["differences"] == f"Volumes 2 instead of 1, RAID level raid0 instead of not stated, {end}"


def test_file_that_is_too_big_for_a_preview_is_no_problem(editor: Client, host: Any) -> None:
    (answer,) = post(editor, {"a.json": OUTPUT + b" " * 2**21}, do="preview").json()["files"]

    assert (answer["status"], answer["code"], answer["series"]) == (503, "", None)
    assert "the file can be uploaded" in answer["detail"]


def test_preview_of_a_file_that_takes_too_long_to_parse_is_a_problem(
    editor: Client, host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing_process, "DOCUMENT_LIMIT_S", 0.2)
    monkeypatch.setattr(preview, "plan_or_reject", spin)

    (answer,) = post(editor, {"a.json": OUTPUT}, do="preview").json()["files"]

    assert (answer["status"], answer["code"], answer["series"]) == (422, "took-too-long", None)
    assert answer["detail"] == "parsing took more than 0 s: split the result"


def test_third_preview_at_the_same_time_is_asked_to_come_back(editor: Client, host: Any) -> None:
    with upload_files._PREVIEWS, upload_files._PREVIEWS:
        (answer,) = post(editor, {"a.json": OUTPUT}, do="preview").json()["files"]

    assert (answer["name"], answer["status"], answer["code"]) == ("a.json", 503, "busy")
    assert post(editor, {"a.json": OUTPUT}, do="preview").json()["files"][0]["status"] == 200


def test_preview_without_script_is_on_the_same_page_with_the_form(editor: Client, host: Any) -> None:
    page = Page(post(editor, {"a.json": OUTPUT}, wants_json=False, do="preview", volume_count="4"))

    assert "Preview: nothing was stored" in page.words
    assert "new series:" in page.words
    assert any(tag.get("name") == "volume_count" and tag.get("value") == "4" for _, tag in page.tags)
    assert not Submission.objects.exists()


def test_values_of_earlier_layouts_can_be_selected(editor: Client, host: Any) -> None:
    make_target(volume_type="io2", filesystem="xfs")
    make_target(volume_type="gp3")

    html = editor.get(reverse("upload_files")).content.decode()
    post(editor, {"a.json": OUTPUT}, volume_type="gp3", volume_size_bytes="500GiB", layout="label.rack=r1")

    assert html.index('value="gp3"') < html.index('value="io2"')
    parameters = Submission.objects.get().parameters
    assert parameters["target"]["volume_type"] == "gp3"
    assert parameters["target"]["volume_size_bytes"] == 500 * 2**30
    assert parameters["labels"] == {"rack": "r1"}


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"volume_count": "many"}, "volume_count: expected a whole number"),
        (
            {"volume_count": "4", "layout": "volume_count=8"},
            "volume_count: parameter 'volume_count' is given twice",
        ),
        ({"layout": "disk=1"}, "layout: parameter 'disk' is unknown"),
        ({"name_pattern": "{disk}"}, "name_pattern: parameter 'disk' is unknown"),
    ],
)
def test_field_that_is_wrong_is_named(editor: Client, host: Any, fields: dict[str, str], part: str) -> None:
    response = post(editor, {"a.json": OUTPUT}, **fields)

    assert response.status_code == 400
    assert part in response.json()["detail"]


def test_layout_of_each_file_is_that_of_its_name_and_its_row(editor: Client, host: Any) -> None:
    table = SimpleUploadedFile(
        "t.csv", b"file,volume_count,label.rack\ngp3-a.json,8,r1\nio2-b.json,,r2\ngp2-c.json,x,\n"
    )
    files = {
        "gp3-a.json": OUTPUT,
        "io2-b.json": OTHER,
        "gp2-c.json": OTHER,
        "gp2-d.json": OTHER,
        "e.json": OTHER,
    }

    response = post(editor, files, name_pattern="{volume_type}-*", table=table, volume_count="2")

    assert answers(response) == [
        ("gp3-a.json", 202, ""),
        ("io2-b.json", 202, ""),
        ("gp2-c.json", 422, "parameter-invalid"),
        ("gp2-d.json", 422, "file-unknown"),
        ("e.json", 422, "file-unknown"),
    ]
    stored = {row.parameters["labels"]["rack"]: row.parameters["target"] for row in Submission.objects.all()}
    assert [stored["r1"][name] for name in ("volume_type", "volume_count")] == ["gp3", 8]
    assert [stored["r2"][name] for name in ("volume_type", "volume_count")] == ["io2", 2]


def test_parameters_of_files_with_one_name_are_those_of_that_name(editor: Client, host: Any) -> None:
    table = SimpleUploadedFile("t.csv", b"file,label.rack\nrun-gp3.json,r1\n")
    uploads = [SimpleUploadedFile("run-gp3.json", content) for content in (OUTPUT, OTHER)]

    response = editor.post(
        reverse("upload_files"),
        {"host": "db-01", "layout": "", "name_pattern": "*-{volume_type}", "table": table, "file": uploads},
        headers={"Accept": "application/json"},
    )

    assert answers(response) == [("run-gp3.json", 202, ""), ("run-gp3.json (2)", 202, "")]
    stored = [row.parameters for row in Submission.objects.all()]
    assert [(row["target"]["volume_type"], row["labels"]) for row in stored] == [("gp3", {"rack": "r1"})] * 2


def test_table_that_cannot_be_read_is_an_error_of_the_form(editor: Client, host: Any) -> None:
    for content, part in (
        (b"file\xff", "Not valid UTF-8 at byte 4"),
        (b"a,b\n", "line 1: one column must be file"),
    ):
        response = post(editor, {"a.json": OUTPUT}, table=SimpleUploadedFile("t.csv", content))

        assert (response.status_code, part in response.json()["detail"]) == (400, True)


def make_archive(name: str, members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    if name.endswith(".zip"):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members.items():
                archive.writestr(member, content)
        return file.getvalue()
    with tarfile.open(fileobj=file, mode="w") as tape:
        for member, content in members.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            tape.addfile(entry, io.BytesIO(content))
    packers = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstandard.compress}
    return packers.get(name.rpartition(".")[2], bytes)(file.getvalue())


@pytest.mark.parametrize("name", ["r.zip", "r.tar", "r.tar.gz", "r.tar.xz", "r.tar.zst"])
def test_members_of_an_archive_are_files_of_their_folders(name: str, editor: Client, host: Any) -> None:
    members = {"nvme0n1/a.json": OUTPUT, "nvme0n1/a_bw.1.log": LOG, "sda/a.json": OTHER, "sda/.hidden": b"x"}

    response = post(editor, {name: make_archive(name, members)}, name_pattern="{name}/*")
    normalize_batch()

    assert answers(response) == [(f"{name}/nvme0n1/a.json", 202, ""), (f"{name}/sda/a.json", 202, "")]
    assert response.json()["files"][0]["log_count"] == 1
    assert set(Series.objects.values_list("target__target_name", flat=True)) == {"nvme0n1", "sda"}


@pytest.mark.parametrize(
    ("members", "code", "words"),
    [
        (
            {f"{number}.json": b"" for number in range(501)},
            "body-too-big",
            "more than 500 members: unpack it",
        ),
        (
            {"a.json": bytes(33 * 2**20)},
            "body-too-big",
            "exceeds 32 MiB unpacked: unpack it and add its folder",
        ),
    ],
)
def test_archive_that_is_too_large_names_the_way_out(
    members: dict[str, bytes], code: str, words: str, editor: Client, host: Any
) -> None:
    response = post(editor, {"r.zip": make_archive("r.zip", members)})

    assert answers(response) == [("r.zip", 413, code)]
    assert words in response.json()["files"][0]["detail"]


def test_fault_of_one_member_leaves_the_others(editor: Client, host: Any) -> None:
    response = post(
        editor, {"r.zip": make_archive("r.zip", {"a.json": OUTPUT, "b.json": b"", "c.txt": b"x"})}
    )

    codes = {name: (status, code) for name, status, code in answers(response)}
    assert codes == {
        "r.zip/a.json": (202, ""),
        "r.zip/b.json": (400, "body-empty"),
        "r.zip/c.txt": (422, "no-report"),
    }
