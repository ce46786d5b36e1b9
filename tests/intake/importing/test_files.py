"""`manage.py import`: files and folders in, each result once, and the truth at the end."""

import gzip
import io
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.db import DataError

from benchapp.intake.importing import checking
from benchapp.intake.importing import files as importing
from benchapp.intake.importing.checking import FileParameters, ImportOptions, is_log, pair_logs
from benchapp.intake.importing.discovery import UnreadableFile, find_folders, read_file
from benchapp.intake.importing.files import ImportSummary, import_files
from benchapp.intake.normalize import batch, plan
from benchapp.intake.posts.submissions import unpack
from benchapp.management.progress import Progress, describe, draw_bar
from benchapp.models import Host, Kind, Run, State, Submission
from tests.corpus import PUBLIC
from tests.envelopes import read_fio
from tests.factories import make_host

LOG = b"500, 8000, 0, 0\n1000, 8100, 0, 0\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "results"
    path.mkdir()
    return path


def put(folder: Path, name: str, output: str = "07_json.out") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(read_fio(output), errors="surrogateescape")
    return path


def run_import(*places: Path, **options: object) -> ImportSummary:
    order = ImportOptions(options.pop("host_id", None) or make_host().pk, FileParameters(), **options)  # type: ignore[arg-type]
    *_, summary = import_files(find_folders(places), order)
    return summary


def command(*arguments: object, **options: object) -> tuple[int, str]:
    out = io.StringIO()
    try:
        call_command("import", *map(str, arguments), stdout=out, stderr=io.StringIO(), **options)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


def names(summary: ImportSummary, pile: str, code: str) -> list[str]:
    return [Path(name).name for name, _ in getattr(summary, pile)[code].first]


# --- finding ---


def test_folders_are_walked_by_name_without_what_is_hidden(folder: Path) -> None:
    for name in ("b.json", "a.json", ".hidden.json", "sub/c.json", ".git/d.json"):
        put(folder, name)

    found = find_folders([folder])

    assert [[path.name for path in one.files] for one in found] == [["a.json", "b.json"], ["c.json"]]


def test_link_that_leads_back_is_followed_once(folder: Path) -> None:
    put(folder, "sub/a.json")
    (folder / "sub" / "again").symlink_to(folder)
    (folder / "itself").symlink_to("itself")

    found = find_folders([folder])

    assert [path.name for one in found for path in one.files] == ["a.json"]


def test_pipe_in_a_folder_is_passed_over(folder: Path) -> None:
    os.mkfifo(folder / "pipe")

    assert find_folders([folder]) == []


def test_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file or folder: .*/nothing"):
        find_folders([tmp_path / "nothing"])


def test_gzip_is_unpacked_by_what_it_is_and_not_by_its_name(folder: Path) -> None:
    (folder / "a.gz").write_bytes(gzip.compress(b"one", mtime=0) + gzip.compress(b" two", mtime=0))
    (folder / "b.gz").write_bytes(b"plain")

    assert read_file(folder / "a.gz", limit=10) == b"one two"
    assert read_file(folder / "b.gz", limit=10) == b"plain"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"x" * 11, "body-too-big"),
        (gzip.compress(b"\0" * 10_000_000, mtime=0), "body-too-big"),
        (gzip.compress(b"whole", mtime=0)[:-3], "gzip-invalid"),
        (b"\x1f\x8bnone", "gzip-invalid"),
    ],
)
def test_unreadable_file_has_a_reason(content: bytes, code: str, folder: Path) -> None:
    (folder / "a").write_bytes(content)

    with pytest.raises(UnreadableFile) as refused:
        read_file(folder / "a", limit=10)

    assert refused.value.code == code


# --- which log belongs to which output ---


@pytest.mark.parametrize(
    ("name", "beginning", "is_one"),
    [
        ("job_bw.1.log", b"500, 8000, 0, 0\n", True),
        ("job_clat_hist.12.log.gz", b"500, 0, 4096, 0", True),
        ("job_lat.log", b"", True),
        ("job_lat.log", b"job: (g=0): rw=read", False),
        ("_bw.log", b"500, 8000", False),
        ("job_latency.log", b"500, 8000", False),
    ],
)
def test_log_is_known_by_its_name_and_first_line(name: str, beginning: bytes, is_one: bool) -> None:
    assert is_log(name, beginning) is is_one


@pytest.mark.parametrize(
    ("outputs", "log", "owner"),
    [
        (["any.json"], "job_bw.1.log", "any.json"),
        (["read.json", "write.json"], "read_bw.1.log", "read.json"),
        (["read.json", "write.json"], "read-seq_bw.1.log", "read.json"),
        (["d-1.json", "d-16.json"], "d-16_bw.1.log", "d-16.json"),
        (["d.json", "d-16.json.gz"], "d-16_bw.1.log", "d-16.json.gz"),
        (["d-1.json", "other.json"], "d-16_bw.1.log", None),
        (
            ["randread-1-1.json", "randread-16-1.json"],
            "randread-iodepth-16-numjobs-1_clat.1.log",
            "randread-16-1.json",
        ),
        (["read.json", "read.txt"], "read_bw.1.log", None),
        ([], "read_bw.1.log", None),
    ],
)
def test_log_is_paired_by_name_or_with_the_only_output(
    outputs: list[str], log: str, owner: str | None
) -> None:
    logs_of, unmatched = pair_logs(outputs, [log])

    assert logs_of == ({owner: [log]} if owner else {})
    assert (log in unmatched) is (owner is None)


# --- taking in ---


@pytest.mark.django_db
def test_folder_is_stored_at_once_and_counted(folder: Path) -> None:
    put(folder, "one.json")
    put(folder, "sub/four.json", "80_multi_job_json.out")

    summary = run_import(folder)

    assert (summary.files, summary.stored, summary.runs) == (2, 2, 2)
    assert Submission.objects.filter(state=State.STORED).count() == 2
    assert not summary.rejected


@pytest.mark.django_db
def test_same_content_is_there_already_whatever_its_name_and_packing(folder: Path) -> None:
    host = make_host()
    run_import(put(folder, "one.json"), host_id=host.pk)
    (folder / "again.out.gz").write_bytes(gzip.compress((folder / "one.json").read_bytes()))

    summary = run_import(folder, host_id=host.pk)

    assert (summary.stored, summary.already_there) == (0, 2)
    assert Run.objects.count() == 1


@pytest.mark.django_db
def test_strange_file_is_excused_in_a_folder_and_refused_where_it_was_named(folder: Path) -> None:
    (folder / "notes.txt").write_text("buy disks")
    (folder / "empty.out").touch()

    walked, named = run_import(folder), run_import(folder / "notes.txt")

    assert names(walked, "foreign", "no-report") == ["notes.txt"]
    assert names(walked, "foreign", "empty-output") == ["empty.out"]
    assert not walked.rejected
    assert names(named, "rejected", "no-report") == ["notes.txt"]


@pytest.mark.django_db
def test_damaged_output_is_rejected_wherever_it_was_found(folder: Path) -> None:
    put(folder, "cut.json", "B3_truncated_json.out")

    summary = run_import(folder)

    assert names(summary, "rejected", "truncated-report") == ["cut.json"]
    assert not Submission.objects.exists()


@pytest.mark.django_db
def test_test_file_of_fio_is_foreign_and_a_large_output_is_rejected(
    folder: Path, settings: LazySettings
) -> None:
    settings.UNPACKED_LIMIT_BYTES = 1000
    (folder / "job.0.0").write_bytes(b"\x00" * 5000)
    put(folder, "one.json")

    summary = run_import(folder)

    assert [list(summary.foreign), list(summary.rejected)] == [["no-report"], ["body-too-big"]]


@pytest.mark.django_db
def test_logs_are_stored_with_their_output_in_an_envelope(folder: Path) -> None:
    output = put(folder, "one.json")
    (folder / "job_bw.1.log").write_bytes(LOG)
    (folder / "job_lat.1.log.gz").write_bytes(gzip.compress(LOG, mtime=0))
    host = make_host()

    first, second = run_import(folder, host_id=host.pk), run_import(folder, host_id=host.pk)

    submission = Submission.objects.get()
    envelope = orjson.loads(unpack(bytes(submission.body)))
    assert (submission.kind, submission.state) == (Kind.ENVELOPE, State.STORED)
    assert envelope["fio_output"] == output.read_text()
    assert envelope["logs"] == {"job_bw.1.log": LOG.decode(), "job_lat.1.log": LOG.decode()}
    assert (first.files, first.stored, first.attached_logs) == (3, 1, 2)
    assert (second.already_there, second.attached_logs) == (1, 0)


@pytest.mark.django_db
def test_log_without_an_output_is_reported(folder: Path) -> None:
    put(folder, "one.json")
    put(folder, "two.json", "08_jsonplus.out")
    (folder / "other_bw.1.log").write_bytes(LOG)

    walked, named = run_import(folder), run_import(folder / "other_bw.1.log")

    assert names(walked, "unmatched_logs", "log-alone") == ["other_bw.1.log"]
    assert walked.stored == 2
    assert names(named, "rejected", "log-alone") == ["other_bw.1.log"]


@pytest.mark.django_db
def test_output_is_stored_without_logs_that_are_too_large(folder: Path, settings: LazySettings) -> None:
    output = put(folder, "one.json")
    (folder / "one_bw.1.log").write_bytes(LOG * 1000)
    settings.UNPACKED_LIMIT_BYTES = output.stat().st_size + 2000

    summary = run_import(folder)

    assert (summary.stored, summary.files) == (1, 2)
    assert names(summary, "unmatched_logs", "logs-left-out") == ["one_bw.1.log"]


@pytest.mark.django_db
def test_what_was_rejected_once_and_reads_now_is_tried_again(folder: Path) -> None:
    host = make_host()
    put(folder, "one.json")
    run_import(folder, host_id=host.pk, is_queued=True)
    Submission.objects.update(state=State.REJECTED, reason_code="no-report", reason="an older parser")

    summary = run_import(folder, host_id=host.pk)

    assert (summary.stored, summary.runs) == (1, 1)


@pytest.mark.django_db
def test_second_of_two_equal_files_is_there_already(folder: Path) -> None:
    put(folder, "a.json")
    put(folder, "b.json")

    summary = run_import(folder)

    assert (summary.stored, summary.already_there) == (1, 1)


@pytest.mark.django_db
def test_equal_files_that_are_rejected_are_counted_each(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a.json")
    put(folder, "b.json")

    def crash(output: bytes, **_: object) -> None:
        raise RuntimeError("a bug\x00")

    monkeypatch.setattr(plan, "read_output", crash)

    summary = run_import(folder)

    row = Submission.objects.get()
    assert (row.state, row.reason_code, row.attempts) == (State.REJECTED, "reader-fault", 1)
    assert row.reason == "RuntimeError: a bug\ufffd"
    assert summary.rejected["reader-fault"].count == 2


@pytest.mark.django_db
def test_results_are_processed_one_by_one_where_the_database_refuses_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a.json")
    put(folder, "b.json", "08_jsonplus.out")
    store = batch.store_plans

    def refuse_several(plans: Sequence[plan.Plan]) -> object:
        if len(plans) > 1:
            raise DataError("value out of range")
        return store(plans)

    monkeypatch.setattr(batch, "store_plans", refuse_several)

    summary = run_import(folder)

    assert (summary.stored, summary.runs) == (2, 2)


@pytest.mark.django_db
def test_result_that_waited_for_a_worker_is_processed(folder: Path) -> None:
    host = make_host()
    put(folder, "a.json")
    run_import(folder, host_id=host.pk, is_queued=True)

    summary = run_import(folder, host_id=host.pk)

    assert Submission.objects.get().state == State.STORED
    assert (summary.stored, summary.already_there) == (0, 1)


@pytest.mark.django_db
def test_queued_files_wait_for_a_worker(folder: Path) -> None:
    put(folder, "one.json")

    summary = run_import(folder, is_queued=True)

    assert (summary.waiting, summary.stored) == (1, 0)
    assert Submission.objects.get().state == State.RECEIVED


@pytest.mark.django_db
def test_modification_time_replaces_a_missing_start(folder: Path) -> None:
    path = put(folder, "one.txt", "82_multi_job_terse.out")
    os.utime(path, (1_600_000_000, 1_600_000_000))

    run_import(path, dates_by_file=True)

    assert Run.objects.get().started_at.isoformat() == "2020-09-13T12:26:40+00:00"


@pytest.mark.django_db
def test_file_that_is_gone_once_it_is_read_has_its_date_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(folder, "one.txt", "82_multi_job_terse.out")
    os.utime(path, (1_600_000_000, 1_600_000_000))
    make_submission = checking.make_submission
    monkeypatch.setattr(
        checking,
        "make_submission",
        lambda *output, **parts: path.unlink() or make_submission(*output, **parts),
    )

    summary = run_import(path, dates_by_file=True)

    assert (summary.stored, summary.rejected) == (1, {})
    assert Run.objects.get().started_at.isoformat() == "2020-09-13T12:26:40+00:00"


@pytest.mark.django_db
def test_asked_to_stop_it_settles_what_it_has_and_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "BATCH_SIZE", 1)
    for name in ("a.json", "sub/b.json", "sub/c.json"):
        put(folder, name)
    order = ImportOptions(make_host().pk, FileParameters())

    *_, summary = import_files(find_folders([folder]), order, should_stop=lambda: True)

    assert (summary.files, summary.stored) == (1, 1)


@pytest.mark.django_db
def test_groups_keep_a_few_names_and_the_whole_count(folder: Path) -> None:
    for number in range(9):
        (folder / f"{number}.txt").write_text("no report")

    pile = run_import(folder).foreign["no-report"]

    assert (pile.count, len(pile.first)) == (9, 5)


# --- the command ---


@pytest.mark.django_db
def test_command_summarizes_the_results(folder: Path) -> None:
    put(folder, "one.json")
    (folder / "notes.txt").write_text("buy disks")

    status, words = command(
        folder,
        "--host",
        "DB-7",
        "--create-host",
        "--target",
        "volume_type=gp3",
        "volume_count=4",
        "--label",
        "rack=r1",
    )

    run = Run.objects.get()
    assert status == 0
    assert "stored: 1 file (1 run)" in words
    assert "not fio output: 1 file\n  no-report: 1 file\n" in words
    assert "begins: buy disks" in words
    assert (run.host.name, run.target.volume_count, run.labels) == ("db-7", 4, {"rack": "r1"})


@pytest.mark.django_db
def test_strange_bytes_do_not_reach_the_terminal(folder: Path) -> None:
    make_host("db-7")
    (folder / "a\x1b[2J.txt").write_bytes(b"\x07bell")

    _, words = command(folder, "--host", "db-7")

    assert "a\ufffd[2J.txt: no fio report found; the output begins: \ufffdbell" in words


@pytest.mark.django_db
def test_command_fails_where_anything_was_rejected(folder: Path) -> None:
    make_host("db-7")
    put(folder, "cut.json", "B3_truncated_json.out")

    status, words = command(folder, "--host", "db-7")

    assert status == 1
    assert "rejected: 1 file\n  truncated-report: 1 file\n" in words


@pytest.mark.django_db
@pytest.mark.parametrize("quiet", [{"verbosity": 0}, {"quiet": True}])
def test_quiet_command_prints_nothing(quiet: dict[str, int], folder: Path) -> None:
    make_host("db-7")
    put(folder, "one.json")

    assert command(folder, "--host", "db-7", **quiet) == (0, "")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "nobody"], "host 'nobody' does not exist: create it with --create-host"),
        (["--host", "a/b", "--create-host"], "'a/b' is not a valid host name"),
        (["--host", "me", "--create-host"], "'me' is reserved"),
        (["--host", "gone"], "host 'gone' is retired"),
        (
            ["--host", "db-7", "--target", "volume_cuont=4"],
            "'volume_cuont' is unknown. Available: .*volume_count",
        ),
        (
            ["--host", "db-7", "--target", "volume_count=many"],
            "volume_count: expected a whole number, not 'many'",
        ),
        (["--host", "db-7", "--target", "gp3"], "--target 'gp3' is not KEY=VALUE"),
        (["--host", "db-7", "--started-at", "noon"], "'noon' is not a valid time"),
    ],
)
def test_wrong_order_is_refused_before_anything_is_read(
    arguments: list[str], words: str, folder: Path
) -> None:
    make_host("db-7")
    make_host("gone", retired_at="2026-01-01T00:00:00Z")
    put(folder, "one.json")

    with pytest.raises(CommandError, match=words):
        command(folder, *arguments)

    assert not Submission.objects.exists()
    assert not Host.objects.filter(name="nobody").exists()


# --- how far it is ---


@pytest.mark.parametrize(
    ("done", "elapsed_s", "words"),
    [
        (0, 10.0, "0 of 2000 files"),
        (120, 0.1, "120 of 2000 files"),
        (500, 2.0, "500 of 2000 files, 250/s, 6 s left"),
        (20, 20.0, "20 of 2000 files, 1.0/s, 33 min 00 s left"),
    ],
)
def test_progress_has_count_rate_and_time_left(done: int, elapsed_s: float, words: str) -> None:
    assert describe(done, 2000, elapsed_s) == words


def test_bar_fills_from_the_left() -> None:
    assert draw_bar(1, 4) == "[######..................]"


def test_progress_is_a_line_every_few_seconds_without_a_terminal() -> None:
    out, times = io.StringIO(), iter([0.0, 1.0, 5.0, 6.0, 10.0])
    progress = Progress(4, out, clock=lambda: next(times))

    for done in (1, 2, 3, 4):
        progress.show(done)

    assert out.getvalue() == "2 of 4 files, 0.4/s, 5 s left\n4 of 4 files, 0.4/s, 0 s left\n"


@pytest.mark.django_db
@pytest.mark.corpus
def test_public_outputs_are_imported_or_rejected_with_a_reason(tmp_path: Path) -> None:
    shutil.copytree(PUBLIC / "louwrentius__fio-plot", tmp_path / "plots")

    summary = run_import(tmp_path / "plots")

    groups = [*summary.rejected.values(), *summary.foreign.values(), *summary.unmatched_logs.values()]
    told = sum(pile.count for pile in groups) + summary.stored + summary.already_there + summary.attached_logs
    assert (summary.waiting, told) == (0, summary.files)
