"""The small-files test, in the formats of shells and time(1)."""

import pytest

from benchapp.fio import read_output
from benchapp.fio.report import Job, Notes, Reading, UnreadableOutput
from benchapp.fio.shell_time import Kind, count_files, find_kind, read_timing
from benchapp.fio.workload import read_workload
from tests.corpus import SEEDS

CLASSIC = """\
$ time for i in {0..1000}; do echo 'test' > "test${i}.txt"; done

real    0m0.142s
user    0m0.031s
sys     0m0.104s

$ time for i in {0..1000}; do cat "test${i}.txt" > /dev/null; done

real    0m2.875s
user    0m1.104s
sys     0m1.512s
"""
WRITE = CLASSIC.partition("\n")[0] + "\n"


def read(text: str) -> tuple[Reading, list[str]]:
    notes = Notes()
    reading = read_timing(text, notes)
    return reading, [note.code for note in notes.list_all()]


def list_jobs(text: str) -> list[Job]:
    return [job for found in read(text)[0].documents for job in found.jobs]


def list_times(text: str) -> list[tuple[str, float | None]]:
    return [(job.name, job.directions[0].elapsed_s) for job in list_jobs(text)]


def test_classic_recipe_is_read_to_the_last_digit() -> None:
    (document,) = read(CLASSIC)[0].documents

    assert (document.format, document.fio_version) == ("time", "")
    assert list_times(CLASSIC) == [("write", 0.142), ("read", 2.875)]
    assert [job.directions[0].name for job in document.jobs] == ["write", "read"]
    assert document.jobs[0].options == {"rw": "write", "ioengine": "shell", "nrfiles": "1001"}
    assert document.jobs[0].cpu_user_percent == pytest.approx(21.830986)
    assert document.jobs[1].cpu_system_percent == pytest.approx(52.591304)
    assert [group.directions[0].elapsed_s for group in document.groups] == [0.142, 2.875]


@pytest.mark.corpus
def test_seed_document_is_read_to_the_last_digit() -> None:
    assert list_times((SEEDS / "smallfiles-time.txt").read_text()) == [("write", 0.116), ("read", 3.118)]


def test_only_the_elapsed_time_is_known() -> None:
    direction = list_jobs(CLASSIC)[0].directions[0]

    assert (direction.iops, direction.bandwidth_bytes_per_s, direction.io_bytes) == (None, None, None)
    assert set(direction.missing.values()) == {"not-in-format"}
    assert {"iops", "latency", "percentiles", "total_ios"} <= direction.missing.keys()
    assert direction.sources == {"elapsed_s": "real time, as the shell or time(1) printed it"}


def test_workload_has_files_and_no_block_size() -> None:
    group = read(CLASSIC)[0].documents[0].groups[0]

    workload = read_workload(group)

    assert (workload.rw, workload.engine, workload.extra) == ("write", "shell", {"nrfiles": "1001"})
    assert (workload.block_size_bytes, workload.block_size_text) == (None, "")
    assert (workload.iodepth, workload.numjobs) == (1, 1)


def test_read_output_reads_it_too() -> None:
    (document,) = read_output(CLASSIC.encode()).documents

    assert [group.directions[0].elapsed_s for group in document.groups] == [0.142, 2.875]


@pytest.mark.parametrize(
    ("times", "elapsed_s"),
    [
        ("real\t0m0,116s\nuser\t0m0,025s\nsys\t0m0,091s\n", 0.116),
        ("real 0.12\nuser 0.02\nsys 0.09\n", 0.12),
        ("\r\nreal\t1h2m3.4s\r\nuser\t0m0.025s\r\nsys\t0m0.091s\r\n", 3723.4),
        ("real\t1m0.116s\nuser\t0m0.025s\nsys\t0m0.091s\n", 60.116),
        ("0.02s user 0.09s system 97% cpu 0.116 total\n", 0.116),
        ("0,02s user 0,09s system 97% cpu 1:02,116 total\n", 62.116),
        ("0.02user 0.09system 0:00.11elapsed 98%CPU (0avgtext+0avgdata 1234maxresident)k\n", 0.11),
        ("0.02user 0.09system 1:00:02.11elapsed 98%CPU (0avgtext+0avgdata 1234maxresident)k\n", 3602.11),
        ("        0.11 real         0.02 user         0.09 sys\n", 0.11),
        ("    0m0.12s real     0m0.02s user     0m0.09s system\n", 0.12),
    ],
)
def test_format_of_every_shell_is_read(times: str, elapsed_s: float) -> None:
    assert list_times(WRITE + times) == [("write", elapsed_s)]


def test_zsh_names_the_command_before_its_times() -> None:
    text = "( for i in {0..9}; do; echo test > $i; done; )  0.02s user 0.09s system 97% cpu 0.116 total\n"

    (job,) = list_jobs(text)
    assert (job.name, job.options["nrfiles"], job.directions[0].elapsed_s) == ("write", "10", 0.116)


def test_loop_over_several_lines_is_one_command() -> None:
    text = "$ time for ((i=0;i<1000;i++))\n> do\n>   cat f$i 2>&1\n> done\ntest\nreal 0.12\nuser 0.02\nsys 0.09\n"

    (job,) = list_jobs(text)
    assert (job.name, job.options["nrfiles"]) == ("read", "1000")
    assert read(text)[0].rest.split() == ["test"]


def test_two_times_without_commands_are_writing_and_reading_with_a_note() -> None:
    text = "real 0m1s\nuser 0m0s\nsys 0m0s\n\nreal 0m2s\nuser 0m0s\nsys 0m0s\n"

    assert list_times(text) == [("write", 1.0), ("read", 2.0)]
    assert [job.has_all_options for job in list_jobs(text)] == [False, False]
    assert read(text)[1] == ["commands-not-shown"]


@pytest.mark.parametrize("count", [1, 3])
def test_other_numbers_of_times_without_commands_are_skipped(count: int) -> None:
    text = "real 0m1s\nuser 0m0s\nsys 0m0s\n" * count

    reading, codes = read(text)

    assert (reading.documents, reading.rest) == ((), text)
    assert codes == ["unreadable-timing"] * count


@pytest.mark.parametrize(
    "text",
    [
        "real 0m0s\n",
        "real 0m0s\nuser 0m0s\nfoo\nsys 0m0s\n",
        "$ time fio job.fio > log\nreal 0m1s\nuser 0m0s\nsys 0m0s\n",
        "the real thing, elapsed, s system total",
        "real " + "9" * 100_000,
        "1" * 50_000 + "user 1.0system elapsed",
        "time " * 20_000 + "real",
    ],
)
def test_foreign_text_is_not_a_timing(text: str) -> None:
    reading, codes = read(text)

    assert (reading.documents, reading.rest, codes) == ((), text, [])


@pytest.mark.parametrize(
    "block", ["real 0m0.1s\n", "real 0m0.1s\nuser 0m0s\nsys 0m0s\n", "0.02user 0.09system 0:00.11elapsed\n"]
)
def test_more_than_a_thousand_timings_are_refused(block: str) -> None:
    read(block * 1000)

    with pytest.raises(UnreadableOutput, match="more than 1000 ") as refusal:
        read(block * 1001)

    assert refusal.value.code == "too-many-timings"


def test_recipe_that_ran_twice_is_two_documents() -> None:
    reading, _ = read(CLASSIC + "\nagain\n" + CLASSIC)

    assert [len(found.jobs) for found in reading.documents] == [2, 2]
    assert reading.rest.split() == ["again"]


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("for i in {0..9}; do echo x > f$i; done", "write"),
        ("for i in {0..9}; do echo x >> f$i; done", "write"),
        ("touch f{0..9}", "write"),
        ("for i in 1 2; do dd if=/dev/zero of=x$i bs=1M count=5; done", "write"),
        ("for i in 1 2; do dd if=x$i of=/dev/null bs=1M; done", "read"),
        ("dd if=/dev/zero of=x bs=1M count=5", None),
        ("dd if=x of=/dev/null bs=1M", None),
        ("cat f* > /dev/null", "read"),
        ("cat f* >/dev/null 2>&1", "read"),
        ("while read f; do wc -l < $f; done", "read"),
        ("wc -l < f1", None),
        ("cp a b", None),
        ("make all 2>&1", None),
        ("fio --output=x job.fio > y", None),
        ("", None),
    ],
)
def test_commands_are_classified(command: str, kind: Kind | None) -> None:
    assert find_kind(command) == kind


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("for i in {0..1000}; do", 1001),
        ("for i in {1..1000}; do", 1000),
        ("for i in {0001..1000}; do", 1000),
        ("for i in {0..1000..2}; do", 501),
        ("for i in {10..1}; do", 10),
        ("for i in $(seq 0 1000); do", 1001),
        ("for i in `seq 1000`; do", 1000),
        ("for i in $(seq -w 0 2 10); do", 6),
        ("for ((i=0;i<1000;i++)); do", 1000),
        ("for (( i = 1; i <= 1000; i++ )); do", 1000),
        ("cat *", None),
    ],
)
def test_files_of_a_loop_are_counted(command: str, count: int | None) -> None:
    assert count_files(command) == count
