"""One execution in two formats is one document."""

from msgspec.structs import replace

from benchapp.fio.merging.jobs import Executions, roll_up
from benchapp.fio.report import Direction, Document, Format, Job, Notes


def make_document(
    fmt: Format,
    *,
    name: str = "a",
    total_ios: int | None = 1000,
    runtime_s: float = 2.0,
    io_bytes: int = 4_096_000,
) -> Document:
    read = Direction("read", io_bytes, total_ios, 500.0, 2_048_000.0, runtime_s)
    job = Job(0, name, 0, None, 0, 1, {}, (read,), has_all_options=False)
    return regroup(Document(fmt, "fio-3.33", None, None, (job,), ()))


def regroup(document: Document) -> Document:
    groups = roll_up(document.jobs, where="", is_partial=document.is_partial, notes=Notes())
    return replace(document, groups=groups)


def choose(preferred: Document, other: Document) -> tuple[list[str], list[str]]:
    notes = Notes()
    return [document.format for document in join([preferred], [other], notes)], [
        note.code for note in notes.list_all()
    ]


def join(preferred: list[Document], others: list[Document], notes: Notes) -> list[Document]:
    executions = Executions(notes)
    executions.add(preferred)
    executions.add(others)
    return executions.documents


def test_text_of_the_same_execution_is_skipped_with_a_note() -> None:
    assert choose(make_document("json"), make_document("normal")) == (["json"], ["same-run-other-format"])


def test_same_job_run_again_in_another_format_is_another_execution() -> None:
    again = make_document("normal", total_ios=1001)

    assert choose(make_document("json"), again) == (["json", "normal"], [])


def test_terse_counts_no_ios_and_is_compared_by_time_and_bytes() -> None:
    terse = make_document("terse", total_ios=None, io_bytes=4_095_000)

    assert choose(make_document("json"), terse)[0] == ["json"]
    assert choose(make_document("json"), replace_runtime(terse, 2.001))[0] == ["json", "terse"]


def replace_runtime(document: Document, runtime_s: float) -> Document:
    (job,) = document.jobs
    directions = (replace(job.directions[0], runtime_s=runtime_s),)
    return regroup(replace(document, jobs=(replace(job, directions=directions),)))


def test_complete_report_is_preferred_to_a_truncated_one() -> None:
    cut = replace(make_document("json"), is_partial=True)

    assert choose(cut, make_document("normal"))[0] == ["normal"]


def test_terse_gets_options_and_clones_from_the_text() -> None:
    text = make_document("normal")
    (job,) = text.jobs
    text = regroup(replace(text, jobs=(replace(job, options={"rw": "randread", "bs": "4096"}, clones=4),)))

    (kept,) = join([make_document("terse", total_ios=None)], [text], Notes())

    assert kept.format == "terse"
    assert kept.groups[0].options == {"rw": "randread", "bs": "4096"}
    assert kept.groups[0].numjobs == 4


def test_documents_of_different_jobs_are_all_kept() -> None:
    assert choose(make_document("json"), make_document("normal", name="b"))[0] == ["json", "normal"]


def test_each_of_many_executions_of_one_job_is_found_in_the_other_format() -> None:
    executions = Executions(Notes())
    executions.add([make_document("json", total_ios=number) for number in range(1, 301)])
    newest = [make_document("normal", total_ios=number) for number in range(250, 301)]

    assert not executions.add(newest)
    assert executions.add([make_document("normal", total_ios=301)])
    assert len(executions.documents) == 301
