"""Hand files over in a real browser: choose, drop, watch, cancel, try again."""

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection

from tests.browser.test_every_page import check_everywhere
from tests.browser.watch import Watched

Visit = Callable[..., Watched]
OUTPUTS = Path(__file__).parents[1] / "data" / "fio" / "generated"
DROP = """([name, text]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([text], name));
  for (const kind of ["dragover", "drop"]) {
    document.querySelector("[data-drop-zone]").dispatchEvent(
      new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }
}"""


@pytest.fixture
def database(server: str) -> Iterator[Any]:
    """Reach the rows that the server commits; what was handed over is removed in the end."""
    known = connection.settings_dict
    with psycopg.connect(
        host=known["HOST"], user=known["USER"], dbname=known["NAME"], autocommit=True
    ) as reached:
        before = [row[0] for row in reached.execute("SELECT id FROM benchapp_submission").fetchall()]
        yield reached
        reached.execute("DELETE FROM benchapp_submission WHERE NOT id = ANY(%s)", [before])


@pytest.fixture
def page(visit: Visit, database: Any) -> Any:
    watched = visit("/uploads/add")
    watched.page.get_by_label("Host", exact=True).fill("db-01")
    return watched.page


def choose(page: Any, *names: str) -> None:
    page.set_input_files("input[name=file]", [str(OUTPUTS / name) for name in names])


def upload(page: Any) -> None:
    page.get_by_role("button", name="Upload", exact=True).click()


def wait_for_row(page: Any, name: str, words: str) -> Any:
    row = page.locator("[data-batches] tbody tr", has_text=name).filter(has_text=words)
    row.wait_for()
    return row


def read_id(row: Any) -> UUID:
    return UUID(row.get_by_role("link", name="View upload").get_attribute("href").split("/")[2])


def settle(database: Any, submission_id: UUID, **fields: str) -> None:
    """Do what a worker would; there is none here."""
    values = {"reason_code": "", "reason": "", **fields}
    database.execute(
        "UPDATE benchapp_submission SET state = %(state)s, settled_at = now(), reason_code = %(reason_code)s,"
        " reason = %(reason)s WHERE id = %(id)s",
        {**values, "id": submission_id},
    )


def test_members_of_an_archive_are_previewed_and_followed_one_by_one(page: Any, tmp_path: Path) -> None:
    report = json.loads((OUTPUTS / "07_json.out").read_bytes())
    report["jobs"][0]["job options"]["filename"] = "/dev/sda:/dev/sdb"
    with zipfile.ZipFile(tmp_path / "r.zip", "w") as archive:
        archive.writestr("sda/a.json", json.dumps(report))
        archive.writestr("sdb/b.txt", "nothing of fio")
    page.set_input_files("input[name=file]", str(tmp_path / "r.zip"))

    page.get_by_role("button", name="Preview").click()
    previewed = wait_for_row(page, "r.zip", "new series").inner_text()
    upload(page)
    wait_for_row(page, "r.zip/sda/a.json", "accepted")
    wait_for_row(page, "r.zip/sdb/b.txt", "rejected")

    assert "The job opened 2 targets: sda, sdb." in previewed
    assert "r.zip/sdb/b.txt: problem: no fio report found" in previewed
    assert page.locator("[data-batches] tbody tr").count() == 2


def test_each_file_is_followed_until_it_is_stored_or_rejected(page: Any, database: Any) -> None:
    choose(page, "07_json.out", "11_numjobs4_json.out")
    upload(page)

    good = read_id(wait_for_row(page, "07_json.out", "accepted"))
    bad = read_id(wait_for_row(page, "11_numjobs4_json.out", "accepted"))
    settle(database, good, state="stored")
    settle(database, bad, state="rejected", reason_code="reader-fault", reason="it broke")

    wait_for_row(page, "07_json.out", "stored")
    wait_for_row(page, "11_numjobs4_json.out", "rejected it broke (reader-fault)")
    page.get_by_role("status").filter(has_text="2 files: 1 stored (0 runs), 1 rejected").wait_for()


def test_preview_names_series_until_the_form_changes(page: Any) -> None:
    choose(page, "07_json.out")
    page.get_by_label("Volumes", exact=True).fill("16")
    page.get_by_role("button", name="Preview").click()

    row = wait_for_row(page, "07_json.out", "new series")
    assert "ready" in row.inner_text()
    page.get_by_label("Volumes", exact=True).fill("8")
    row = wait_for_row(page, "07_json.out", "ready")
    assert "new series" not in row.inner_text()


def test_preview_shows_a_problem_and_upload_leaves_the_file_out(page: Any) -> None:
    choose(page, "07_json.out")
    page.evaluate(DROP, ["notes.txt", "buy disks"])
    page.get_by_role("button", name="Preview").click()

    wait_for_row(page, "notes.txt", "problem").get_by_text("no-report").wait_for()
    wait_for_row(page, "07_json.out", "new series")
    page.get_by_role("status").filter(has_text="2 files: 1 ready, 1 with a problem").wait_for()
    page.get_by_role("button", name="Upload 1 of 2 files").click()

    wait_for_row(page, "07_json.out", "accepted")
    wait_for_row(page, "notes.txt", "problem")
    assert page.get_by_role("button", name="Upload", exact=True).is_disabled()


def test_file_that_was_there_says_so(page: Any, database: Any) -> None:
    choose(page, "07_json.out")
    upload(page)
    settle(database, read_id(wait_for_row(page, "07_json.out", "accepted")), state="stored")
    wait_for_row(page, "07_json.out", "stored")

    page.get_by_role("button", name="Remove finished rows").click()
    choose(page, "07_json.out")
    upload(page)

    wait_for_row(page, "07_json.out", "already uploaded")


def test_dropped_file_is_refused_with_its_reason_and_can_be_sent_again(page: Any) -> None:
    page.evaluate(DROP, ["notes.txt", "buy disks"])
    wait_for_row(page, "notes.txt", "ready")
    upload(page)

    row = wait_for_row(page, "notes.txt", "begins: buy disks (no-report)")
    row.get_by_role("button", name="Retry notes.txt").press("Enter")

    wait_for_row(page, "notes.txt", "begins: buy disks (no-report)")


def test_logs_are_sent_with_their_output(page: Any, tmp_path: Path) -> None:
    log = tmp_path / "07_json_bw.1.log"
    log.write_text("500, 8000, 0, 0\n")
    page.set_input_files("input[name=file]", [str(OUTPUTS / "07_json.out"), str(log)])

    wait_for_row(page, "07_json.out", "with 1 log")
    upload(page)

    wait_for_row(page, "07_json.out", "accepted")


def test_big_file_is_packed_on_its_way(page: Any, database: Any, tmp_path: Path) -> None:
    big = tmp_path / "big.json"
    big.write_text((OUTPUTS / "07_json.out").read_text() + " " * 9 * 2**20)
    page.set_input_files("input[name=file]", str(big))

    upload(page)

    taken = read_id(wait_for_row(page, "big.json", "accepted"))
    size = database.execute("SELECT body_bytes FROM benchapp_submission WHERE id = %s", [taken]).fetchone()
    assert size == (big.stat().st_size,)


def test_sending_can_be_stopped_and_begun_again(page: Any) -> None:
    # What is never answered hangs, as on a line that is down.
    page.route("**/uploads/add", lambda route: None)
    choose(page, "07_json.out", "11_numjobs4_json.out", "12_numjobs4_group_json.out")
    upload(page)
    wait_for_row(page, "12_numjobs4_group_json.out", "queued")
    # Of the two that are sent at once.
    assert page.get_by_role("progressbar").count() == 2

    page.get_by_role("button", name="Cancel 07_json.out").click()
    wait_for_row(page, "07_json.out", "canceled")
    wait_for_row(page, "12_numjobs4_group_json.out", "uploading")
    page.get_by_role("button", name="Cancel 11_numjobs4_json.out").click()
    page.get_by_role("button", name="Cancel 12_numjobs4_group_json.out").click()
    page.unroute("**/uploads/add")
    page.get_by_role("button", name="Retry 07_json.out").click()

    wait_for_row(page, "07_json.out", "accepted")


def test_nothing_is_sent_without_a_host(page: Any) -> None:
    page.get_by_label("Host", exact=True).fill("")
    choose(page, "07_json.out")

    upload(page)

    wait_for_row(page, "07_json.out", "ready")
    assert page.evaluate("document.activeElement.name") == "host"


def test_wrong_field_is_said_in_the_row(page: Any) -> None:
    page.get_by_label("Host", exact=True).fill("nobody")
    choose(page, "07_json.out")

    upload(page)

    row = wait_for_row(page, "07_json.out", "failed")
    assert "This host does not exist" in row.inner_text()


def test_form_works_without_script(visit: Visit, database: Any) -> None:
    page = visit("/uploads/add", java_script_enabled=False).page
    page.get_by_label("Host", exact=True).fill("db-01")
    choose(page, "07_json.out", "33_err_bad_option_json.err")

    upload(page)

    table = page.get_by_role("region", name="Uploaded files").inner_text()
    assert "07_json.out" in table
    assert "rejected no fio report found" in table


def test_page_is_sound_empty_and_filled(visit: Visit, database: Any) -> None:
    watched = visit("/uploads/add")
    check_everywhere(watched)
    watched.page.get_by_label("Host", exact=True).fill("db-01")
    choose(watched.page, "07_json.out", "33_err_bad_option_json.err", "C0_log_bw.1.log")

    upload(watched.page)
    wait_for_row(watched.page, "33_err_bad_option_json.err", "rejected")

    check_everywhere(watched)
