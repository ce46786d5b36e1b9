"""Format check: fio output of any format is accepted, other input is rejected with a reason."""

from typing import Any

import pytest

from benchapp.intake.posts import format_check as peek
from benchapp.intake.posts.format_check import Fault, check_format, check_format_quickly
from tests.envelopes import pack_envelope, read_fio


@pytest.mark.parametrize(
    "name",
    [
        "01_normal.out",
        "03_terse_v2.out",
        "02_terse_v3.out",
        "04_terse_v4.out",
        "05_terse_v5.out",
        "06_minimal.out",
        "07_json.out",
        "08_jsonplus.out",
        "09_json_normal.out",
        "10_normal_json_terse.out",
        "60_client_json.out",
        "61_client_normal.out",
        "54_eta_always_normal.out",
    ],
)
def test_every_format_is_let_in(name: str) -> None:
    assert check_format(read_fio(name).encode()) is None


def test_document_with_output_in_it_is_no_output() -> None:
    """Read as output it would have no layout."""
    for output in (pack_envelope(), pack_envelope(fio_output="x" * 2**20)):
        for check in (check_format, check_format_quickly):
            fault = check(output)
            assert fault is not None and (fault.code, fault.is_foreign) == ("document", False)


def test_timing_of_the_shell_is_let_in() -> None:
    output = b"""$ time for i in {0..1000}; do echo 'test' > "test${i}.txt"; done
real 0m0.116s
user 0m0.025s
sys 0m0.091s
"""

    assert check_format(output) is None


@pytest.mark.parametrize(
    ("output", "code", "is_foreign"),
    [
        (b"hello", "no-report", True),
        (b"", "empty-output", True),
        (b'{"jobs": 7}', "no-report", True),
        (b'{"fio version": "fio-3.33", "jobs": []}', "no-jobs", False),
        (read_fio("B3_truncated_json.out").encode(), "truncated-report", False),
    ],
)
def test_fault_has_the_code_of_the_reader(output: bytes, code: str, is_foreign: bool) -> None:
    fault = check_format(output)

    assert fault is not None
    assert (fault.code, fault.is_foreign) == (code, is_foreign)


def count_bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    read: list[int] = []
    reader = peek.read_output

    def count(output: bytes) -> Any:
        read.append(len(output))
        return reader(output)

    monkeypatch.setattr(peek, "read_output", count)
    return read


def test_clean_json_is_known_without_reading_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    read = count_bytes_read(monkeypatch)

    assert check_format(read_fio("83_multi_job_jsonplus.out").encode()) is None
    assert read == []


def test_of_a_long_text_the_beginning_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    read = count_bytes_read(monkeypatch)
    output = read_fio("01_normal.out").encode() + b"a line of a log\n" * 40_000

    assert check_format(output) is None
    assert read == [256 * 1024]


def test_report_at_the_end_of_a_long_text_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    output = b"a line of a log\n" * 40_000 + read_fio("01_normal.out").encode()

    assert check_format(output) is None


@pytest.mark.parametrize(
    ("output", "sizes"),
    [
        # Short: read whole, the only time.
        (b"a line of a log\n" * 16_000, [256_000]),
        # No trace of fio, in the beginning or anywhere: not read further.
        (b"a line of a log\n" * 20_000, [262_144]),
        (b"a line of a log\n" * 20_000 + b"groupid=", [262_144]),
        # A trace: read whole up to 1 MiB, and not beyond.
        (b"3;fio-3.33;a;0;0;1%=2\n" * 30_000, [262_144, 660_000]),
        (b"3;fio-3.33;a;0;0;1%=2\n" * 80_000, [262_144]),
        (b"fio: pid=1, err=2/file:x\n" + b"a line of a log\n" * 20_000 + b"groupid=", [262_144, 320_033]),
        (b"real 0m0.1s\n" * 2_000_000, [262_144]),
    ],
)
def test_work_at_the_door_is_bounded(
    output: bytes, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = count_bytes_read(monkeypatch)

    check_format_quickly(output)

    assert read == sizes


@pytest.mark.parametrize(
    ("output", "code"),
    [
        (b"hello", "no-report"),
        (b"a line of a log\n" * 20_000, "no-report"),
        (b"a line of a log\n" * 20_000 + b"groupid=", None),
        (("a line of a log\n" * 20_000 + "groupid=").encode("utf-16"), None),
        (b"3;fio-3.33;a;0;0;1%=2\n" * 30_000, "unreadable-terse"),
        (b"3;fio-3.33;a;0;0;1%=2\n" * 80_000, None),
        (b"real 0m0.1s\n" * 100_000, "too-many-timings"),
        (read_fio("01_normal.out").encode() + b"a line of a log\n" * 80_000, None),
        (b'{"fio version": 1}\n' * 80_000, "too-many-reports"),
    ],
)
def test_what_is_not_read_whole_is_left_to_the_worker(output: bytes, code: str | None) -> None:
    fault = check_format_quickly(output)

    assert (fault.code if fault else None) == code


def test_fault_of_the_reader_is_no_fault_of_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(output: bytes) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(peek, "read_output", fail)

    assert check_format(b"hello") is None
    assert Fault("no-report", "x").is_foreign
