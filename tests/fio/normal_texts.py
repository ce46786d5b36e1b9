"""Small texts of fio for tests: a whole report around the lines that a test is about."""

from benchapp.fio.normal import read_normal
from benchapp.fio.notes import Notes
from benchapp.fio.reading import Reading
from benchapp.fio.report import Direction, Document, Job
from tests.fio.outputs import read_bytes

HEADER = "job: (g=0): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=1"
SUMMARY = "  write: IOPS=1999, BW=7999KiB/s (8191kB/s)(469MiB/60001msec); 0 zone resets"
ISSUED = "     issued rwts: total=0,119984,0,0 short=0,0,0,0 dropped=0,0,0,0"
JOB_LINE = "job: (groupid=0, jobs=1): err= 0: pid=1891: Wed Dec 21 14:56:37 2022"
OLD_HEADER = "job: (g=0): rw=randrw, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=64"
END = "Run status group 0 (all jobs):"


def make_text(
    *lines: str, header: str = HEADER, version: str = "fio-3.28", job: str = JOB_LINE, issued: str = ISSUED
) -> str:
    """Return a report of one job with these lines in its block."""
    head = [header, version, "Starting 1 process", ""] if header else []
    return "\n".join([*head, job, *lines, issued, "", END, ""])


def make_old_text(*lines: str, issued: str, version: str = "fio-2.2.10", header: str = OLD_HEADER) -> str:
    return make_text(*lines, header=header, version=version, issued=f"     issued    : {issued}")


def read_text(text: str) -> Reading:
    return read_normal(text, Notes())


def read_document(text: str) -> Document:
    (found,) = read_text(text).found
    return found.document


def read_job(text: str) -> Job:
    return read_document(text).jobs[0]


def read_direction(text: str) -> Direction:
    return read_job(text).directions[0]


def read_file(name: str) -> Document:
    return read_document(read_bytes(name).decode())


def list_codes(text: str) -> list[str]:
    """Return the codes of all notes but the one that every text gets."""
    notes = Notes()
    read_normal(text, notes)
    return [note.code for note in notes.list_all() if note.code != "text-precision"]
