"""fio's text among other lines, repeated, truncated, and from several hosts."""

import re

import pytest

from benchapp.fio import read_output
from benchapp.fio.report import Notes, UnreadableOutput
from benchapp.fio.text_report.reader import read_normal
from tests.fio.outputs import read_bytes
from tests.fio.text_report.texts import (
    END,
    HEADER,
    JOB_LINE,
    SUMMARY,
    list_codes,
    make_text,
    read_document,
    read_file,
    read_text,
)


def drop_lines(text: str, word: str) -> str:
    """Return the text without the lines that begin with a word."""
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if not line.lstrip().startswith(word)]
    assert len(kept) < len(lines)
    return "".join(kept)


CLAT = "    clat (usec): min=366, max=27978, avg=483.59, stdev=91.34"


def test_foreign_lines_are_returned_in_order() -> None:
    text = make_text(SUMMARY, "fio: pid=1, err=28/file:io_u.c:1, func=x, error=No space", CLAT)

    reading = read_text(f"$ ./bench.sh\n{text}\nreal 0m0.116s\n")

    assert reading.rest.splitlines() == [
        "$ ./bench.sh",
        "fio: pid=1, err=28/file:io_u.c:1, func=x, error=No space",
        "real 0m0.116s",
    ]
    assert reading.documents[0].jobs[0].directions[0].completion.mean_ns == 483590


def test_lines_of_the_report_are_not_returned() -> None:
    reading = read_text(read_bytes("generated/54_eta_always_normal.out").decode())

    assert (len(reading.documents), reading.rest) == (1, "")


@pytest.mark.parametrize(
    "name",
    [
        "generated/01_normal.out",
        "generated/17_randrw7030_normal.out",
        "generated/26_fdatasync_normal.out",
        "generated/61_client_normal.out",
        "generated/63_client_two_normal.out",
        "generated/72_steadystate_normal.out",
        "generated/74_latency_target_normal.out",
        "generated/81_multi_job_normal.out",
        "generated/99_cmdprio_normal.out",
        "versions/fio-2.0/normal_group2.txt",
        "versions/fio-2.1.3/json_client.json",
        "versions/fio-2.16/normal.txt",
        "versions/fio-2.20/normal.txt",
        "versions/fio-3.36/normal.txt",
    ],
)
def test_no_line_of_a_clean_report_is_foreign(name: str) -> None:
    assert read_text(read_bytes(name).decode()).rest == ""


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_other_line_endings_give_the_same_report(ending: str) -> None:
    text = read_bytes("generated/17_randrw7030_normal.out").decode()

    assert read_document(text.replace("\n", ending)) == read_document(text)


@pytest.mark.parametrize(
    "prefix",
    [
        "fio_1  | ",
        "> ",
        "2026-11-21T10:00:{:02}.12Z ",
        "Nov 21 10:00:{:02} host fio[77]: ",
        "| ",
        "[pod/fio-{}/fio] ",
    ],
)
def test_prefix_of_every_line_is_removed(prefix: str) -> None:
    text = read_bytes("generated/17_randrw7030_normal.out").decode()
    prefixed = "".join(
        prefix.format(number % 60) + line for number, line in enumerate(text.splitlines(keepends=True))
    )

    reading = read_text(prefixed)

    assert list(reading.documents) == [read_document(text)]
    assert reading.rest == ""


def test_status_line_may_run_into_the_job_line() -> None:
    text = make_text(SUMMARY, job=f"Jobs: 1 (f=1): [w(1)][100.0%][w=7856KiB/s][eta 00m:00s]{JOB_LINE}")

    assert read_document(text).jobs[0].name == "job"


def test_last_of_several_snapshots_is_used() -> None:
    notes = Notes()

    reading = read_normal(read_bytes("generated/51_status_interval_normal.out").decode(), notes)

    (found,) = reading.documents
    assert (found.fio_version, found.jobs[0].directions[0].total_ios) == ("fio-3.33", 55623)
    assert found.jobs[0].options["bs"] == "4096"
    assert [note.code for note in notes.list_all()] == ["text-precision", "cumulative-snapshots"]
    assert reading.rest == ""


def test_last_complete_snapshot_is_used_if_the_last_is_truncated() -> None:
    text = read_bytes("generated/51_status_interval_normal.out").decode()

    document = read_document(text[: text.rindex("  cpu  ")])

    assert (document.is_partial, document.jobs[0].directions[0].total_ios) == (False, 53986)


def test_consecutive_executions_are_separate_documents() -> None:
    text = make_text(SUMMARY, CLAT)

    reading = read_text(f"first\n{text}\nsecond\n{text}")

    assert [found.jobs[0].options["bs"] for found in reading.documents] == ["4096", "4096"]
    assert list_codes(text + text) == []


def test_executions_without_headers_are_separated_by_their_processes() -> None:
    first = make_text(SUMMARY, header="")
    second = first.replace("pid=1891", "pid=1892")

    assert len(read_text(first + second).documents) == 2
    assert len(read_text(first + first).documents) == 1


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 1),
        ({"(112MiB/1001msec)": "(12.0MiB/501msec)"}, 2),
        ({"1001msec)": "501msec)"}, 2),
        # As many bytes in more time.
        ({"1001msec)": "1701msec)", "avg=83158.73": "avg=93158.73"}, 2),
        ({"1001msec)": "2001msec)", "total=28588,12251": "total=28587,32251"}, 2),
        ({"1001msec)": "2001msec)", "total=28588,12251": "total=48588,32251"}, 1),
    ],
)
def test_report_without_headers_is_a_snapshot_only_if_it_has_grown(
    changes: dict[str, str], count: int
) -> None:
    body = read_bytes("versions/fio-3.36/normal.txt").decode().partition("8MiB)\n\n")[2]
    again = body
    for before, after in changes.items():
        assert before in again
        again = again.replace(before, after)

    assert len(read_text(body + again).documents) == count


def test_snapshot_may_lose_a_carry_but_not_a_tenth_of_its_bytes() -> None:
    first = make_text(SUMMARY.replace("469MiB", "11.9MiB"), CLAT, header="", version="fio-3.19")
    later = first.replace("60001msec", "61001msec").replace("total=0,119984", "total=0,119999")

    assert len(read_text(first + later.replace("11.9MiB", "11.0MiB")).documents) == 1
    assert len(read_text(first + later.replace("11.9MiB", "10.0MiB")).documents) == 2


def test_other_execution_with_the_same_process_id_gets_no_options() -> None:
    text = make_text(SUMMARY, CLAT)
    again = text[text.index("job: (groupid") :].replace("60001msec", "50001msec")

    first, second = (found.jobs[0] for found in read_text(text + again).documents)

    assert (first.options["bs"], second.options) == ("4096", {})


def test_headers_of_an_execution_without_jobs_are_not_used_for_the_next() -> None:
    idle = f"{HEADER.replace('4096B', '512B')}\nfio-3.28\nStarting 1 process\n\n{END}\n"

    reading = read_text(idle + make_text(SUMMARY))

    assert [found.jobs[0].options["bs"] for found in reading.documents] == ["4096"]
    assert reading.rest.splitlines()[0] == HEADER.replace("4096B", "512B")


def test_output_truncated_after_a_complete_job_keeps_that_job() -> None:
    text = read_bytes("generated/81_multi_job_normal.out").decode()
    cut = text[: text.index("  write: IOPS=7213")]

    document = read_document(cut)

    assert document.is_partial
    assert [job.name for job in document.jobs] == ["seqread", "randwrite", "randrw"]
    assert list_codes(cut) == ["truncated-report", "incomplete-job"]
    read, write = document.jobs[2].directions
    assert (read.name, read.iops, read.runtime_s) == ("read", 10700, 1.001)
    assert (write.name, write.total_ios, write.iops, write.missing["iops"]) == (
        "write",
        None,
        None,
        "not-reported",
    )


def test_values_of_a_group_with_missing_clones_are_withheld() -> None:
    text = read_bytes("generated/14_numjobs4_normal.out").decode()
    cut = text[: text.index("Run status group")].rpartition("rw: (groupid=")[0]

    (group,) = read_document(cut).groups

    assert (group.directions[0].iops, group.directions[0].missing["iops"]) == (None, "clones-missing")
    assert list_codes(cut) == ["truncated-report", "clones-missing"]


def test_text_truncated_within_a_clone_withholds_the_group_if_no_header_lists_clones() -> None:
    text = read_bytes("generated/14_numjobs4_normal.out").decode()
    body = text[text.index("rw: (groupid=") :]
    cut = body[: body.rindex("     issued")]

    (group,) = read_document(cut).groups

    assert (group.directions[0].iops, group.directions[0].missing["iops"]) == (None, "clones-missing")


def test_output_truncated_before_the_first_result_has_no_document() -> None:
    text = make_text(SUMMARY, CLAT)
    cut = text[: text.index("BW=")]

    assert read_text(cut).documents == ()
    assert list_codes(cut) == ["truncated-report"]


@pytest.mark.parametrize(
    "name",
    [
        "generated/17_randrw7030_normal.out",
        "generated/81_multi_job_normal.out",
        "versions/fio-2.2.10/normal.txt",
        "versions/fio-3.36/normal.txt",
    ],
)
def test_job_without_the_issued_line_is_read_from_its_other_lines(name: str) -> None:
    text = read_bytes(name).decode()
    whole = read_document(text)

    document = read_document(drop_lines(text, "issued"))

    assert (whole.is_partial, document.is_partial) == (False, True)
    assert list_codes(drop_lines(text, "issued")) == ["incomplete-job"]
    assert [job.name for job in document.jobs] == [job.name for job in whole.jobs]
    for job, like in zip(document.jobs, whole.jobs, strict=True):
        assert job.latency_shares == like.latency_shares
        for direction, other in zip(job.directions, like.directions, strict=True):
            # As printed: the counts would have given more digits.
            assert direction.iops == pytest.approx(other.iops, rel=2e-3)
            assert direction.bandwidth_bytes_per_s == pytest.approx(other.bandwidth_bytes_per_s, rel=2e-3)
            assert direction.io_bytes == pytest.approx(other.io_bytes, rel=5e-3)
            assert direction.runtime_s == other.runtime_s
            assert direction.completion == other.completion
            assert direction.total == other.total
            assert (direction.total_ios, direction.missing["total_ios"]) == (None, "not-reported")


def test_results_without_header_and_end_are_a_partial_report() -> None:
    text = f"{JOB_LINE}\n{SUMMARY}\n\nthe next day:\n\n{JOB_LINE.replace('1891', '77')}\n{SUMMARY}\n"

    report = read_output(text.encode())

    (document,) = report.documents
    assert document.is_partial
    assert {note.code for note in report.warnings} >= {"truncated-report", "incomplete-job"}
    assert [job.directions[0].iops for job in document.jobs] == [1999, 1999]
    assert document.jobs[0].directions[0].missing["latency"] == "not-reported"
    assert report.messages == ("the next day:",)


def test_possibly_truncated_number_at_the_end_of_the_text_is_not_read() -> None:
    text = f"{JOB_LINE}\n{SUMMARY}\n{CLAT}"

    cut, whole = (read_document(end).jobs[0].directions[0] for end in (text[:-1], f"{text}\n"))

    assert (cut.iops, cut.completion, cut.missing["latency"]) == (1999, None, "not-reported")
    assert whole.completion.stddev_ns == 91340


def test_message_about_a_job_without_results_does_not_mention_a_full_disk() -> None:
    with pytest.raises(UnreadableOutput) as refusal:
        read_output(f"{JOB_LINE}\n  cpu          : usr=2.04%\n".encode())

    assert refusal.value.code == "truncated-report"
    assert "disk" not in str(refusal.value)


def test_snapshots_without_issued_lines_are_one_execution() -> None:
    text = drop_lines(read_bytes("generated/51_status_interval_normal.out").decode(), "issued")

    document = read_document(text)

    assert document.jobs[0].directions[0].runtime_s == 3.003


@pytest.mark.parametrize(
    ("name", "jobs", "total_ios"),
    [
        ("generated/61_client_normal.out", 2, [60915]),
        ("generated/63_client_two_normal.out", 4, [23469, 27041]),
        ("versions/fio-2.1.3/json_client.json", 1, [144]),
    ],
)
def test_sum_over_clients_is_counted_once(name: str, jobs: int, total_ios: list[int]) -> None:
    document = read_file(name)

    assert {group.hostname for group in document.groups} == {"vm"}
    assert sum(group.numjobs for group in document.groups) == jobs
    assert [group.directions[0].total_ios for group in document.groups] == total_ios
    assert [job.is_aggregate for job in document.jobs] == [False] * jobs + [True] * (
        len(document.jobs) - jobs
    )


def test_host_before_every_line_is_that_of_the_job() -> None:
    text = read_bytes("generated/17_randrw7030_normal.out").decode()
    (plain,) = read_document(text).jobs

    reading = read_text("".join(f"<10.0.0.7> {line}" for line in text.splitlines(keepends=True)))

    (job,) = reading.documents[0].jobs
    assert (job.hostname, job.directions, reading.rest) == ("10.0.0.7", plain.directions, "")


def test_version_of_a_server_is_in_its_greeting() -> None:
    assert read_file("generated/61_client_normal.out").fio_version == "fio-3.33"


def test_sum_over_clients_has_figures_without_a_unit() -> None:
    aggregate = read_file("generated/63_client_two_normal.out").jobs[-1]

    assert (aggregate.hostname, aggregate.directions[0].bandwidth_bytes_per_s) == (None, 98.5 * 2**20)


def test_equal_percents_are_skipped() -> None:
    completion = read_file("versions/fio-2.1.3/json_client.json").jobs[0].directions[0].completion

    # 99.5 to 99.99 all print as "100th".
    assert completion.percentiles[-1] == (99.0, 119000)
    assert len(completion.percentiles) == 13
    assert "text-percents-rounded" in list_codes(read_bytes("versions/fio-2.1.3/json_client.json").decode())


def test_interrupted_run_is_complete() -> None:
    reading = read_text(read_bytes("generated/B1_interrupted_normal.out").decode())

    assert reading.documents[0].is_partial is False
    assert reading.rest == "fio: terminating on signal 2\n"


def test_too_many_jobs_are_refused() -> None:
    text = make_text(SUMMARY).replace(JOB_LINE, f"{JOB_LINE}\n" * 20_001)

    with pytest.raises(UnreadableOutput, match="20001 jobs") as refusal:
        read_text(text)

    assert refusal.value.code == "too-many-jobs"


def test_too_many_reports_are_refused() -> None:
    with pytest.raises(UnreadableOutput) as refusal:
        read_text(f"fio-3.1\n{JOB_LINE}\n" * 10_001)

    assert refusal.value.code == "too-many-reports"


@pytest.mark.parametrize("start", range(0, 1000, 50))
def test_text_truncated_anywhere_has_no_job_without_directions(start: int) -> None:
    text = read_bytes("generated/81_multi_job_normal.out").decode()

    for end in range(start * 8, start * 8 + 400, 7):
        document = next((found for found in read_text(text[start:end]).documents), None)
        assert document is None or all(job.directions for job in document.jobs)


@pytest.mark.parametrize(
    "lost", ["", "Starting 1 process\n", "\n$ fio again\n", "fio-3.40\nStarting 1 process\n"]
)
@pytest.mark.parametrize("rw", ["randread", "randwrite", "randrw"])
def test_options_are_those_of_the_last_header_before_the_results(rw: str, lost: str) -> None:
    text = read_bytes("versions/fio-3.36/normal_fsync.txt").decode()
    header, _, rest = text.partition("\n")
    earlier = re.sub("rw=[a-z]+", f"rw={rw}", header.replace("iodepth=4", "iodepth=77"))
    assert earlier != header

    document = read_document(f"{earlier}\n{lost}{header}\n{rest}")

    assert document == read_document(text)


def test_options_are_those_of_the_last_header_if_the_starting_line_is_missing() -> None:
    text = make_text(SUMMARY).replace("Starting 1 process\n", "")
    earlier = HEADER.replace("rw=randwrite", "rw=randrw")

    (job,) = read_document(f"{earlier}\n{text}").jobs

    assert (job.options["rw"], [direction.name for direction in job.directions]) == ("randwrite", ["write"])


def test_two_jobs_of_one_name_have_separate_headers() -> None:
    second = HEADER.replace("rw=randwrite", "rw=write")
    text = make_text(SUMMARY, header=f"{HEADER}\n{second}").replace(
        "Starting 1 process", "Starting 2 processes"
    )
    block = text[text.index(JOB_LINE) : text.index(END)]

    document = read_document(text.replace(block, block + block.replace("pid=1891", "pid=1892")))

    assert [job.options["rw"] for job in document.jobs] == ["randwrite", "write"]


def test_header_with_other_directions_than_the_job_is_not_used() -> None:
    header = HEADER.replace("rw=randwrite", "rw=randread")

    (job,) = read_document(make_text(SUMMARY, header=header)).jobs

    assert (job.options, [direction.name for direction in job.directions]) == ({}, ["write"])


@pytest.mark.parametrize(
    ("printed", "emphasized"),
    [
        ("write: IOPS=1999, BW", "write: **IOPS=1999**, BW"),
        ("write: IOPS=1999, BW", "**write: IOPS=1999**, BW"),
        ("write: IOPS=1999, BW", "write: *IOPS=1999*, BW"),
        ("write: IOPS=1999, BW", "write: `IOPS=1999`, BW"),
        ("  write: IOPS=1999, BW", "<b>write: IOPS=1999</b>, BW"),
        ("  write: IOPS=1999, BW", "<b>write:</b> IOPS=1999, BW"),
        ("write: IOPS=1999, BW", 'write: <span class="red">IOPS=1999</span>, BW'),
        ("write: IOPS=1999, BW", "write: [b]IOPS=1999[/b], BW"),
        ("avg=483.59", "**avg=483.59**"),
        ("avg=483.59", "<strong>avg=483.59</strong>"),
    ],
)
def test_emphasis_changes_no_value(printed: str, emphasized: str) -> None:
    text = make_text(SUMMARY, CLAT)
    assert printed in text

    reading = read_text(text.replace(printed, emphasized))

    assert reading.documents[0] == read_document(text)
    assert (reading.documents[0].jobs[0].hostname, reading.rest) == (None, "")


def test_emphasis_in_a_description_stays() -> None:
    text = make_text("  Description  : [a **bold** `one`]", SUMMARY)

    assert read_document(text).jobs[0].description == "a **bold** `one`"


def test_unreadable_line_of_results_has_a_note() -> None:
    text = make_text(CLAT.replace("clat", "slat"), SUMMARY.replace("IOPS=", "[IOPS="), CLAT)

    document = read_document(text)

    assert list_codes(text) == ["incomplete-job", "unreadable-direction"]
    (write,) = document.jobs[0].directions
    assert (document.is_partial, write.name, write.total_ios) == (True, "write", 119984)
    assert (write.iops, write.missing["iops"], write.missing["latency"]) == (
        None,
        "not-reported",
        "not-reported",
    )


@pytest.mark.parametrize("name", ["versions/fio-3.36/normal.txt", "versions/fio-2.2.10/normal.txt"])
def test_latencies_without_a_direction_line_are_not_assigned_to_the_previous_direction(name: str) -> None:
    text = read_bytes(name).decode()
    whole, _ = read_document(text).jobs[0].directions

    document = read_document(drop_lines(text, "write:"))

    read, write = document.jobs[0].directions
    assert read == whole
    assert (document.is_partial, write.name, write.iops) == (True, "write", None)
    assert write.missing["latency"] == "not-reported"
    assert list_codes(drop_lines(text, "write:")) == ["incomplete-job", "unreadable-direction"]


@pytest.mark.parametrize(
    "command",
    [
        "$ fio --name=job --rw=randwrite ",
        "root@host:~# sudo fio --name=job ",
        "[root@host ~]# /usr/bin/fio jobs/job.fio ",
        "fio -name=job ",
    ],
)
@pytest.mark.parametrize("line", [HEADER, JOB_LINE])
def test_command_on_the_line_of_a_header_or_a_job_is_not_part_of_its_name(command: str, line: str) -> None:
    text = make_text(SUMMARY)

    document = read_document(text.replace(line, f"{command}{line}"))

    assert document == read_document(text)
    assert list_codes(text.replace(line, f"{command}{line}")) == []


def test_name_of_a_job_may_have_blanks_and_the_word_fio() -> None:
    text = make_text(
        SUMMARY, header=HEADER.replace("job:", "my fio test:"), job=JOB_LINE.replace("job:", "my fio test:")
    )

    (job,) = read_document(text).jobs

    assert (job.name, job.options["rw"]) == ("my fio test", "randwrite")
