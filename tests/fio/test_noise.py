"""Reports are found among any other text."""

import json

import pytest

from benchapp.fio import UnreadableOutput, read_output
from tests.fio.outputs import make_content, make_job, make_output, read_bytes, read_fixture, read_single

ERROR_28 = "fio: pid=21331, err=28/file:io_u.c:1876, func=io_u error, error=No space left on device"


def list_codes(output: bytes) -> list[str]:
    return [note.code for note in read_output(output).warnings]


def test_error_line_of_fio_before_the_report_becomes_a_message() -> None:
    report = read_fixture("generated/B0_interrupted_json.out")

    assert report.messages == ("fio: terminating on signal 2",)
    assert report.warnings == ()
    assert report.documents[0].groups[0].directions[0].iops == 37917.168675


def test_lines_after_the_report_become_messages() -> None:
    report = read_output(make_output() + b"\nfio: all done\n}\nbye\n")

    assert (len(report.documents), report.messages) == (1, ("fio: all done", "bye"))


def test_text_of_the_same_run_after_the_report_is_not_a_message() -> None:
    report = read_fixture("generated/09_json_normal.out")

    assert ([document.format for document in report.documents], report.messages) == (["json"], ())
    assert [note.code for note in report.warnings] == ["same-run-other-format"]


def test_lines_of_a_client_before_the_report_become_messages() -> None:
    report = read_fixture("generated/D1_client_format_before.out")

    assert report.messages[1] == "<vm> Starting 1 process"
    assert report.documents[0].groups[0].hostname == "127.0.0.1:8911"


def test_error_lines_do_not_hide_the_jobs() -> None:
    report = read_fixture("generated/42_err_enospc_two_jobs_json.out")

    assert ERROR_28 in report.messages
    assert [(job.name, job.error) for job in report.documents[0].jobs] == [("full", 28), ("ok", 0)]


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-le"),
        lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: ("[" + text + "]").encode(),
        lambda text: ("\x1b[32mok\x1b[0m\n" + text).encode(),
        lambda text: ('{"results": ' + text + "}").encode(),
        lambda text: json.dumps(json.loads(text), sort_keys=True).encode(),
        lambda text: ("Jobs: 1 (f=1): [r(1)][50.0%][eta 00m:01s]\r" * 5 + text).encode(),
        lambda text: ("note\n" + json.dumps(json.loads(text), separators=(",", ":"))).encode(),
    ],
    ids=[
        "byte order mark",
        "UTF-16",
        "UTF-16 without mark",
        "UTF-16 big endian",
        "CRLF",
        "in a list",
        "ANSI colors",
        "in an object",
        "sorted keys",
        "status lines",
        "one line",
    ],
)
def test_same_report_is_read_from_every_wrapper(encode) -> None:
    output = read_bytes("generated/07_json.out")

    report = read_output(encode(output.decode()))

    assert report.documents == read_output(output).documents
    assert report.warnings == ()


@pytest.mark.parametrize("prefix", ["fio_1  | ", "2026-11-21T10:00:{:02}.{}Z stdout F ", "line {1}: "])
def test_prefix_of_every_line_is_removed(prefix: str) -> None:
    lines = read_bytes("generated/07_json.out").decode().splitlines()

    report = read_output("\n".join(prefix.format(n % 60, n) + line for n, line in enumerate(lines)).encode())

    assert report.documents == read_fixture("generated/07_json.out").documents


def test_status_lines_are_not_messages() -> None:
    text = b"Jobs: 1 (f=1): [r(1)][50.0%][eta 00m:01s]\r<vm> Jobs: 1 (f=1)\rlaid out\n" + make_output()

    assert read_output(text).messages == ("laid out",)


def test_number_of_messages_is_limited_and_the_rest_counted() -> None:
    report = read_output(b"noise\n" * 1000 + make_output())

    assert len(report.messages) == 200
    assert [(note.code, note.message) for note in report.warnings] == [
        ("more-messages", "800 more lines around the reports were omitted")
    ]


def test_tab_and_newline_in_a_description_are_kept() -> None:
    (job,) = read_single("generated/A8_odd_description_json.out").jobs

    assert job.description == "tab\there\nnewline"


def test_quotes_backslash_and_accents_in_a_name_are_kept() -> None:
    (job,) = read_single("generated/A7_odd_name_json.out").jobs

    assert job.name == 'a"b\\c é'


def test_last_of_duplicate_options_is_used() -> None:
    (job,) = read_single("generated/D5_duplicate_option_keys.out").jobs

    assert (job.options["rw"], job.options["bs"]) == ("randread", "4k")


@pytest.mark.parametrize("number", ["nan", "-nan", "inf", "NaN", "Infinity", "-Infinity"])
def test_invalid_number_is_absent_and_the_rest_is_read(number: str) -> None:
    output = make_output().replace(b'"iops": 50.0', f'"iops" : {number}'.encode())

    (direction,) = read_output(output).documents[0].groups[0].directions

    assert (direction.iops, direction.missing["iops"]) == (None, "not-a-number")
    assert direction.bandwidth_bytes_per_s == 204800


def test_string_truncated_by_an_old_fio_is_closed() -> None:
    output = b'{\n"fio version" : "fio-2.3",\n"global options" : {\n"filename" : "' + b"x" * 1010
    output += b',\n"bs" : "4k"\n},\n"jobs" : [{"jobname" : "a", "job options" : {"rw" : "read"}}]\n}\n'

    report = read_output(output)

    assert report.documents[0].jobs[0].options["bs"] == "4k"
    assert [note.code for note in report.warnings] == ["repaired-json", "values-missing"]


def test_nul_and_lone_surrogates_are_replaced() -> None:
    output = make_output(make_job("x")).replace(
        b'"jobname": "x"', b'"jobname": "a\\u0000b\\ud83dc\\ud83d\\ude00"'
    )

    (job,) = read_output(output).documents[0].jobs

    assert job.name == "a\ufffdb\ufffdc\N{GRINNING FACE}"
    assert list_codes(output) == ["unstorable-characters"]


def test_escaped_backslash_before_u0000_is_not_a_nul() -> None:
    output = make_output(make_job("x")).replace(b'"jobname": "x"', b'"jobname": "a\\\\u0000"')

    assert read_output(output).documents[0].jobs[0].name == "a\\u0000"
    assert list_codes(output) == []


def test_nul_bytes_before_the_report_are_skipped() -> None:
    output = b"\x00" * 4096 + b"\n" + make_output()

    assert len(read_output(output).documents) == 1
    assert list_codes(output) == ["unstorable-characters"]


def test_invalid_utf8_is_replaced() -> None:
    output = make_output(make_job("x")).replace(b'"jobname": "x"', b'"jobname": "\xff"')

    assert read_output(output).documents[0].jobs[0].name == "\ufffd"
    assert list_codes(output) == ["invalid-encoding"]


def test_report_truncated_within_its_third_job_keeps_two() -> None:
    text = json.dumps(make_content(make_job("a"), make_job("b"), make_job("c")), indent=2)

    report = read_output(text[: text.index('"c"') + 50].encode())

    assert [job.name for job in report.documents[0].jobs] == ["a", "b"]
    assert report.documents[0].is_partial
    assert [(note.code, note.where) for note in report.warnings] == [("truncated-report", "document 0")]


def test_report_truncated_after_its_jobs_keeps_all_of_them() -> None:
    text = json.dumps(make_content(make_job("a"), disk_util=[{"name": "vda"}]), indent=2)

    report = read_output(text[:-8].encode())

    assert [job.name for job in report.documents[0].jobs] == ["a"]
    assert report.documents[0].is_partial


def test_truncated_report_does_not_hide_the_one_appended_to_it() -> None:
    whole = make_output(make_job("b"))

    report = read_output(make_output(make_job("a"))[:300] + b"\n" + whole)

    assert [document.jobs[0].name for document in report.documents] == ["b"]
    assert [note.code for note in report.warnings] == ["truncated-report"]


INVALID = """{
  "fio version" : "fio-3.33",
  "jobs" : [
    {
      "jobname" : "a",
      "job options" : { "directory" : "DIRECTORY" },
      "read" : { "iops" : IOPS,
        "bw" : 24 SEPARATOR
        "runtime" : 1000
      }
    }
  ]
}
"""
VALID = {"DIRECTORY": "/mnt", "IOPS": "6.0", "SEPARATOR": ","}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        # A path of Windows that something unescaped.
        ({"DIRECTORY": "C:\\data"}, 'line 6, column 42 (Invalid \\escape, found: \\data" },'),
        (
            {"SEPARATOR": ", // KiB/s"},
            "line 8, column 21 (Expecting property name enclosed in double quotes, found: // KiB/s",
        ),
        ({"SEPARATOR": ""}, "line 9, column 9 (Expecting ',' delimiter, found: \"runtime\""),
        ({"IOPS": "6,0"}, "line 7, column 29 (Expecting property name enclosed in double quotes, found: 0,"),
    ],
)
def test_invalid_json_is_reported_with_its_place(changes: dict[str, str], words: str) -> None:
    text = INVALID
    for name, value in (VALID | changes).items():
        text = text.replace(name, value)

    with pytest.raises(UnreadableOutput) as caught:
        read_output(text.encode())

    assert caught.value.code == "invalid-json"
    assert words in str(caught.value)


def test_jobs_before_invalid_json_are_read() -> None:
    text = json.dumps(make_content(make_job("a"), make_job("b")), indent=2)
    at = text.rindex('"b"')

    report = read_output((text[:at] + text[at:].replace('"b"', "b")).encode())

    assert [job.name for job in report.documents[0].jobs] == ["a"]
    (note,) = [note for note in report.warnings if note.code == "invalid-json"]
    assert f"at line {text.count(chr(10), 0, at) + 1}, column" in note.message
    assert note.message.endswith(": 1 complete job was read, the rest was skipped")


@pytest.mark.parametrize(
    ("output", "code", "words"),
    [
        (b"", "empty-output", "was fio killed?"),
        (b" \r\n\x00", "empty-output", "empty"),
        (read_bytes("generated/B2_killed_json.out"), "empty-output", "was fio killed?"),
        (read_bytes("generated/B3_truncated_json.out"), "truncated-report", "cut off"),
        (read_bytes("generated/30_err_missing_dir_json.out"), "no-report", "No such file or directory"),
        (read_bytes("generated/A6_zero_io_json.out"), "no-jobs", "stats=0"),
        (make_output(jobs=[]), "no-jobs", "empty"),
        (b"{" * 1000, "no-report", "begins: {{{"),
        (b"\x1f\x8b\x08\x00", "no-report", "gzip"),
        (b'{"hello": "world"}', "no-report", 'begins: {"hello"'),
        (b"[1, 2]", "no-report", "begins: [1, 2]"),
        (b'{"fio version": "fio-3.33"}', "no-jobs", "empty"),
        (b'{"fio version": "x", "jobs": [' + b"[" * 100_000, "truncated-report", "cut off"),
        (b'{"fio version":' * 10_001, "too-many-reports", "10001 reports"),
        (b'{"fio version":"x","jobs":[' + b"{}," * 20_000 + b"{}]}", "too-many-jobs", "20001 jobs"),
        (b'{"fio version":"x","jobs":[' + b"{}," * 20_001, "too-many-jobs", "20001 jobs"),
    ],
)
def test_unreadable_output_has_a_reason(output: bytes, code: str, words: str) -> None:
    with pytest.raises(UnreadableOutput) as caught:
        read_output(output)

    assert caught.value.code == code
    assert words in caught.value.detail
    assert str(caught.value) == caught.value.detail
