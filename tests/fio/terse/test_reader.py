"""fio's terse format, versions 2 to 5, of every fio version of the test data."""

from pathlib import Path

import pytest

from benchapp.fio.json.documents import find_documents
from benchapp.fio.json.report import read_document
from benchapp.fio.report import Direction, Document, Notes, Reading
from benchapp.fio.terse.reader import read_terse
from benchapp.fio.text import decode_output
from tests.corpus import PUBLIC
from tests.fio.outputs import OUTPUTS, read_bytes
from tests.fio.terse.terse_table import ROWS

V2 = (OUTPUTS / "generated/03_terse_v2.out").read_text().strip()
V3 = (OUTPUTS / "generated/02_terse_v3.out").read_text().strip()
V5 = (OUTPUTS / "generated/05_terse_v5.out").read_text().strip()


def read(text: str) -> tuple[Reading, list[str]]:
    notes = Notes()
    reading = read_terse(text, notes)
    return reading, [note.code for note in notes.list_all()]


def read_file(name: str) -> tuple[Reading, list[str]]:
    return read(decode_output(read_bytes(name), Notes()))


def read_single(name: str) -> Document:
    (found,) = read_file(name)[0].documents
    return found


def find(document: Document, name: str, *, job: int = 0) -> Direction:
    return next(direction for direction in document.jobs[job].directions if direction.name == name)


def with_field(place: int, value: str, line: str = V3) -> str:
    fields = line.split(";")
    fields[place] = value
    return ";".join(fields)


def test_the_table_holds_every_terse_file_of_every_version() -> None:
    names = [f"{path.parent.name}/{path.name}" for path in OUTPUTS.glob("versions/*/*") if is_terse(path)]

    assert sorted(names) == sorted(name for name, *_ in ROWS)


def is_terse(path: Path) -> bool:
    return path.name.startswith(("terse_v", "minimal")) and path.suffix == ".txt" and path.stat().st_size > 0


@pytest.mark.parametrize(("name", "fields", "reads", "writes"), ROWS)
def test_columns_are_read_as_they_are_in_every_version(
    name: str,
    fields: int,
    reads: tuple[int, int, int, str, int],
    writes: tuple[int, int, int, str, int],
) -> None:
    document = read_single(f"versions/{name}")

    for direction, (io_bytes, iops, runtime_ms, mean_us, p99_us) in zip(
        document.jobs[0].directions, (reads, writes), strict=True
    ):
        assert (direction.io_bytes, direction.iops) == (io_bytes, iops)
        assert direction.runtime_s == runtime_ms / 1000
        assert direction.completion
        assert direction.completion.mean_ns == pytest.approx(float(mean_us) * 1000, abs=0.001)
        assert dict(direction.completion.percentiles)[99.0] == p99_us * 1000


@pytest.mark.parametrize(
    ("name", "version", "fio_version", "disks"),
    [
        ("fio-2.0/terse_v2.txt", 2, "", 0),
        ("fio-2.0/terse_v3.txt", 3, "2.0", 1),
        ("fio-2.0.8/terse_v3.txt", 3, "2.0.8", 1),
        ("fio-2.0.10/terse_v4.txt", 4, "fio-2.0.10", 1),
        ("fio-2.1.14/terse_v3.txt", 3, "fio-2.1.14", 0),
        ("fio-3.39/terse_v5.txt", 5, "fio-3.39", 1),
    ],
)
def test_versions_and_disks_are_read(name: str, version: int, fio_version: str, disks: int) -> None:
    document = read_single(f"versions/{name}")

    assert (document.format, document.format_version) == ("terse", version)
    assert (document.fio_version, len(document.disks)) == (fio_version, disks)
    assert [len(group.directions) for group in document.groups] == [2]


def test_terse_agrees_with_the_json_of_the_same_run() -> None:
    notes = Notes()
    findings = find_documents(read_bytes("generated/10_normal_json_terse.out").decode(), notes)
    json = read_document(findings.reports[0].content, where="", is_partial=False, notes=notes)
    of_json, of_terse = find(json, "read"), find(read_single("generated/10_normal_json_terse.out"), "read")

    assert of_terse.io_bytes == of_json.io_bytes == 227782656
    assert of_terse.runtime_s == of_json.runtime_s == 2.001
    assert of_terse.iops == int(of_json.iops or 0) == 27791
    assert of_terse.bandwidth_bytes_per_s == pytest.approx(of_json.bandwidth_bytes_per_s, abs=1)
    assert of_terse.bandwidth_samples and of_json.bandwidth_samples
    assert of_terse.bandwidth_samples.mean == pytest.approx(of_json.bandwidth_samples.mean, abs=1)
    for terse, exact in (
        (of_terse.submission, of_json.submission),
        (of_terse.completion, of_json.completion),
        (of_terse.total, of_json.total),
    ):
        assert terse and exact and terse.minimum_ns is not None and exact.minimum_ns is not None
        assert (terse.mean_ns, terse.stddev_ns) == pytest.approx((exact.mean_ns, exact.stddev_ns), abs=0.001)
        # Extremes and percentiles are truncated to whole µs.
        assert terse.minimum_ns == exact.minimum_ns // 1000 * 1000
        assert terse.percentiles == tuple((p, ns // 1000 * 1000) for p, ns in exact.percentiles)


def test_every_field_of_a_line_is_read() -> None:
    (job,) = read_single("generated/05_terse_v5.out").jobs

    write = find(read_single("generated/05_terse_v5.out"), "write")
    assert (job.name, job.groupid, job.error, job.has_all_options) == ("rr", 0, 0, False)
    assert (job.cpu_user_percent, job.cpu_system_percent) == (1.85, 23.8)
    assert (job.context_switches, job.major_faults, job.minor_faults) == (26528, 0, 14)
    assert job.depth == {"1": 0.1, "2": 0.1, "4": 100.0, "8": 0.0, "16": 0.0, "32": 0.0, ">=64": 0.0}
    assert job.latency_shares[5:7] == ((100_000, 69.53), (250_000, 24.3))
    assert [bound for bound, _ in job.latency_shares[-3:]] == [1_000_000_000, 2_000_000_000, None]
    assert write.iops_samples and write.bandwidth_samples
    assert (write.iops_samples.minimum, write.iops_samples.maximum, write.iops_samples.count) == (
        10722,
        12628,
        3,
    )
    assert write.bandwidth_samples.minimum == 42888 * 1024


def test_disk_is_read_with_its_times_in_seconds() -> None:
    (disk,) = read_single("generated/05_terse_v5.out").disks

    assert (disk.name, disk.read_ios, disk.write_ios, disk.utilisation_percent) == (
        "vda",
        22319,
        22124,
        45.37,
    )
    assert (disk.read_merges, disk.write_merges) == (1, 0)
    assert (disk.read_busy_s, disk.write_busy_s, disk.queued_s) == (1.712, 1.49, 3.455)


def test_average_of_the_members_of_an_array_is_not_listed() -> None:
    disks = ";md0;10;0;0;0;5;0;5;50.00%;slaves;5;0;0;0;2;0;2;40.00%;sda;5;0;0;0;2;0;2;40.00%"

    (found,) = read(V3.rpartition(";vda")[0] + disks)[0].documents

    assert [disk.name for disk in found.disks] == ["md0", "sda"]


def test_bandwidth_is_exact_where_the_printed_one_agrees() -> None:
    read = find(read_single("generated/02_terse_v3.out"), "read")

    assert read.bandwidth_bytes_per_s == 175060 * 1024 * 1000 / 2001
    assert read.sources["bandwidth_bytes_per_s"].startswith("io in KiB × 1024 / runtime")


def test_fio_2_0_prints_bandwidth_in_units_of_1000_bytes() -> None:
    read = find(read_single("versions/fio-2.0/terse_v3.txt"), "read")

    assert read.bandwidth_bytes_per_s == pytest.approx(111_246_052, abs=1)
    assert "1000 bytes" in read.sources["bandwidth_bytes_per_s"]


def test_bandwidth_that_does_not_agree_is_kept_as_printed() -> None:
    (found,) = read(with_field(6, "90000"))[0].documents

    read_direction = find(found, "read")
    assert read_direction.bandwidth_bytes_per_s == 90000 * 1024
    assert read_direction.sources["bandwidth_bytes_per_s"].startswith("bw in KiB/s")


def test_values_that_terse_does_not_have_are_not_in_format() -> None:
    read = find(read_single("generated/02_terse_v3.out"), "read")

    assert read.missing == {"total_ios": "not-in-format", "iops_samples": "not-in-format"}


def test_rate_below_one_operation_per_second_is_unknown() -> None:
    (found,) = read(with_field(7, "0"))[0].documents

    read_direction = find(found, "read")
    assert (read_direction.iops, read_direction.missing["iops"]) == (None, "not-in-format")


def test_unified_reporting_gives_mixed_alone_or_with_the_others() -> None:
    alone, beside = (
        read_single("generated/21_unified_mixed_terse.out"),
        read_single("generated/22_unified_both_terse.out"),
    )

    assert [(d.name, d.iops) for d in alone.jobs[0].directions] == [("mixed", 23502)]
    assert [(d.name, d.iops) for d in beside.jobs[0].directions] == [
        ("read", 9798),
        ("write", 9811),
        ("mixed", 19609),
    ]


def test_job_name_may_hold_semicolons() -> None:
    (job,) = read_single("generated/A9_semicolon_name_terse.out").jobs

    assert (job.name, job.groupid, job.directions[0].iops) == ("a;b", 0, 16000)


def test_error_number_and_message_of_fio_are_read() -> None:
    reading, _ = read_file("generated/45_err_enospc_terse.out")

    assert reading.documents[0].groups[0].error == 28
    assert reading.rest.startswith("fio: pid=22139, err=28/file:io_u.c:1876")


def test_nan_of_a_job_without_io_is_not_a_share() -> None:
    (job,) = read_single("generated/D0_terse_nan.out").jobs

    assert (job.error, job.directions) == (22, ())
    assert 2000 not in dict(job.latency_shares)
    assert len(job.latency_shares) == 21


def test_invalid_latency_is_missing_with_a_reason() -> None:
    (found,) = read(with_field(15, "-nan"))[0].documents

    read_direction = find(found, "read")
    assert read_direction.completion and read_direction.completion.mean_ns is None
    assert read_direction.missing["completion"] == "not-a-number"


def test_description_may_have_semicolons_and_is_on_a_second_line_in_version_2() -> None:
    with_name = read_single("terse/description_v4.out").jobs
    (alone,) = read_single("terse/description_v2.out").jobs

    assert [job.description for job in with_name] == ["one;two", None]
    assert alone.description == "one;two"


def test_description_follows_the_disks() -> None:
    document = read_single("generated/82_multi_job_terse.out")

    assert [job.name for job in document.jobs] == ["seqread", "randwrite", "randrw"]
    assert [job.groupid for job in document.jobs] == [0, 1, 2]
    assert document.jobs[2].description == 'a "quoted" description'
    assert [disk.name for disk in document.disks] == ["vda"]


def test_empty_second_line_of_version_2_is_not_a_message() -> None:
    reading, codes = read_file("versions/fio-2.0.8/terse_v2.txt")

    assert (reading.rest.strip(), codes) == ("", [])


def test_only_the_last_snapshot_is_used() -> None:
    reading, codes = read_file("generated/52_status_interval_terse.out")

    (found,) = reading.documents
    assert find(found, "read").runtime_s == 3.001
    assert codes == ["cumulative-snapshots"]


def test_clones_in_snapshots_are_distinguished_from_snapshots() -> None:
    reading, codes = read_file("terse/status_interval_clones.out")

    (group,) = reading.documents[0].groups
    assert (group.numjobs, group.directions[0].iops) == (2, 1999)
    assert codes == ["cumulative-snapshots", "clones-assumed"]


def test_clones_of_one_report_are_one_group() -> None:
    reading, codes = read_file("terse/clones.out")

    (group,) = reading.documents[0].groups
    assert (group.numjobs, group.directions[0].io_bytes) == (3, 3 * 2**20)
    assert codes == ["clones-assumed"]


def test_same_job_with_other_disk_counters_is_another_execution() -> None:
    again = V3.replace(";175060;", ";170000;").replace(";vda;41062;", ";vda;40000;")

    reading, codes = read(f"{V3}\n{again}\n")

    assert [find(found, "read").io_bytes for found in reading.documents] == [
        175060 * 1024,
        170000 * 1024,
    ]
    assert codes == []


def test_same_jobs_in_order_again_are_another_execution() -> None:
    a, b = V3.rpartition(";vda")[0], V3.rpartition(";vda")[0].replace(";rr;", ";other;")

    reading, _ = read("\n".join((a, b, a.replace(";2001;", ";2000;"), b.replace(";2001;", ";2000;"))))

    assert [len(found.jobs) for found in reading.documents] == [2, 2]


def test_text_pasted_twice_is_one_document() -> None:
    two = V5 + "\n" + V5.replace(";rr;", ";other;") + "\n"

    for text, jobs in ((V5 + "\n", 1), (two, 2)):
        reading, codes = read(text + text)
        assert ([len(found.jobs) for found in reading.documents], codes) == (
            [jobs],
            ["cumulative-snapshots"],
        )


def run_slower(line: str) -> str:
    """Return another execution of the same size: 700 ms longer, with a greater maximum and more switches."""
    for place, value in {6: "57000", 7: "14200", 8: "1701", 14: "999999"}.items():
        line = with_field(place, value, line)
    return line


@pytest.mark.parametrize(("disks", "documents"), [("vda;21606;9248", 1), ("vda;21606;9249", 2), ("", 2)])
def test_same_bytes_in_more_time_are_not_a_snapshot(disks: str, documents: int) -> None:
    """The disks, if any, distinguish clones (which share their counters) from another execution."""
    line = read_bytes("versions/fio-3.36/terse_v3.txt").decode().strip()
    again = run_slower(line).replace("vda;21606;9248", disks)
    if not disks:
        line, again = line.partition(";vda;")[0], again.partition(";;")[0]

    reading, codes = read(f"{line}\n{again}\n")

    assert (len(reading.documents), codes) == (documents, [])
    assert sum(len(found.jobs) for found in reading.documents) == 2


def test_finished_direction_stays_the_same_in_snapshots() -> None:
    line = read_bytes("versions/fio-3.36/terse_v3.txt").decode().strip()
    # Of the two directions, only the second (write) goes on.
    again = with_field(49, "2001", with_field(46, "99999", line)).replace("vda;21606;9248", "vda;21606;19248")

    reading, codes = read(f"{line}\n{again}\n")

    assert (len(reading.documents), codes) == (1, ["cumulative-snapshots"])


@pytest.mark.parametrize(
    ("length", "iops"), [(len("3;fio-3.33;r"), None), (60, None), (len("3;fio-3.33;o"), 21871)]
)
def test_group_of_a_line_with_possibly_missing_clones_has_no_values(length: int, iops: float | None) -> None:
    other = V3 if iops is None else V3.replace(";rr;", ";other;")

    reading, codes = read(f"{V3}\n{other[:length]}")

    (read_direction,) = reading.documents[0].groups[0].directions
    assert read_direction.iops == iops
    assert codes == ["truncated-report", *(["clones-missing"] if iops is None else [])]


def test_sum_of_all_clients_is_in_no_group() -> None:
    reading, _ = read_file("generated/66_client_terse.out")

    document = reading.documents[0]
    assert [job.is_aggregate for job in document.jobs] == [False, False, True]
    assert [(group.numjobs, group.directions[0].iops) for group in document.groups] == [(2, 28000)]
    assert [disk.name for disk in document.disks] == ["vda"]
    assert reading.rest.startswith("Jobs: 0 (f=0)\r")


def test_host_before_a_line_is_the_jobs_host() -> None:
    (found,) = read(f"<10.0.0.1> {V3}\n<10.0.0.2> {V3}")[0].documents

    assert [job.hostname for job in found.jobs] == ["10.0.0.1", "10.0.0.2"]
    assert len(found.groups) == 2


@pytest.mark.parametrize("status", ["Jobs: 1 (f=1): [R(1)][eta 00m:00s]", "[w=544 IOPS][eta 04", "web_1  | "])
def test_line_after_a_status_line_or_a_collectors_mark_is_read(status: str) -> None:
    reading, _ = read(status + V3)

    assert (len(reading.documents), reading.rest) == (1, status)


@pytest.mark.parametrize("line", [V2, V3])
@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("`{}`", " \r"),
        ("x\n```{}```\ny", "x\n   \r\r\r\ny"),
        ("- result: ` {} ` (slow)\n", "- result:   \r\r (slow)\n"),
        ("```\n{}\n```\n", "```\n\n```\n"),
    ],
)
def test_line_in_backticks_is_read(line: str, text: str, rest: str) -> None:
    reading, codes = read(text.format(line))

    assert list(reading.documents) == list(read(line)[0].documents)
    assert (reading.rest, codes) == (rest, [])


def test_complete_lines_in_one_pair_of_backticks_are_read() -> None:
    other = V3.replace(";rr;", ";other;")

    reading, codes = read(f"`{V3}\n{other}`")
    cut, cut_codes = read(f"`{V3}`\n`{other[:300]}")

    assert [(job.name, job.description) for found in reading.documents for job in found.jobs] == [
        ("rr", None),
        ("other", None),
    ]
    assert codes == []
    assert ([job.name for job in cut.documents[0].jobs], cut_codes) == (["rr"], ["truncated-report"])


def test_other_lines_around_are_the_rest() -> None:
    reading, _ = read(f"begin\r\n{V3}\r\nend")

    assert len(reading.documents) == 1
    assert reading.rest == "begin\r\n\r\nend"


def test_line_with_missing_fields_is_skipped_with_a_note() -> None:
    notes = Notes()
    short = ";".join(V3.split(";")[:100])

    reading = read_terse(f"x\n{short}\n{V3}\n", notes)

    (note,) = notes.list_all()
    assert (note.code, note.where) == ("unreadable-terse", "line 2")
    assert "terse version 3 with 100 fields, 121 or more expected" in note.message
    assert len(reading.documents) == 1 and short in reading.rest


@pytest.mark.parametrize("line", [V2, V3, V5])
@pytest.mark.parametrize("version", ["2", "3", "4", "5"])
def test_line_without_its_beginning_is_not_a_job_named_by_a_number(line: str, version: str) -> None:
    fields = line.split(";")

    for place in range(5, len(fields)):
        reading, _ = read(";".join((version, *fields[place:])) + "\n")

        assert reading.documents == ()


def test_line_without_its_first_percentiles_is_skipped_with_a_note() -> None:
    notes = Notes()
    front = V2[V2.index("2;99.5") :]

    reading = read_terse(f"{front}\n{V2}\n", notes)

    (note,) = notes.list_all()
    assert (note.code, note.where) == ("unreadable-terse", "line 1")
    assert "neither group nor error" in note.message
    assert [job.name for job in reading.documents[0].jobs] == ["rr"]


@pytest.mark.parametrize("value", ["soon", "1." + "1" * 40])
def test_line_with_text_or_too_many_digits_in_place_of_a_number_is_skipped_with_a_note(value: str) -> None:
    reading, codes = read(with_field(8, value) + "\n")

    assert (reading.documents, codes) == ((), ["unreadable-terse"])


@pytest.mark.parametrize("length", [12, 60, 700, len(V3) - 30, len(V3) - 3, len(V3) + 2])
def test_truncated_last_line_has_a_note_and_the_other_lines_are_read(length: int) -> None:
    other = V3.replace(";rr;", ";other;")

    reading, codes = read(f"{V3}\n{other[:length]}")

    (found,) = reading.documents
    assert (find(found, "read").iops, found.is_partial) == (21871, True)
    assert codes == ["truncated-report"]


def test_line_without_newline_is_complete() -> None:
    reading, codes = read(V3)

    assert (reading.documents[0].is_partial, codes) == (False, [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3;4;5\n2;a;b\n",
        "read: IOPS=5; 0 zone resets",
        "2;" * 100_000,
        ";" * 100_000,
        "3;fio-" + "9" * 100_000,
        "%=;" * 50_000,
    ],
)
def test_foreign_text_is_not_changed(text: str) -> None:
    reading, _ = read(text)

    assert (reading.documents, reading.rest) == ((), text)


@pytest.mark.corpus
def test_public_terse_files_are_read() -> None:
    text = (PUBLIC / "jtulak__fio-parser/fio-test.out").read_text()

    (found,) = read(text)[0].documents

    groups = [(group.name, group.numjobs, group.directions[0].iops) for group in found.groups]
    assert groups[0] == ("test-multi-file-io-4", 4, 2704)
    assert [len(group.jobs) for group in found.groups] == [4, 4, 4]
