"""Parsing in another process: results and errors are the same; one that hangs or crashes leaves the web process."""

import os
import re
import signal
from typing import NoReturn

import pytest

from benchapp.fio import UnreadableOutput, read_output
from benchapp.intake.normalize import parsing_process
from benchapp.intake.normalize.parsing_process import ParsingFailed, call_in_process


def multiply(one: int, *, by: int) -> tuple[int, int]:
    return one * by, os.getpid()


def fail() -> None:
    raise LookupError("no such job")


def spin(*_: object, **__: object) -> NoReturn:
    while True:
        pass


def match_badly(*_: object) -> None:
    re.fullmatch(r"(a+)+b", "a" * 60)


def end() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_result_comes_from_another_process() -> None:
    product, pid = call_in_process(multiply, 6, by=7)

    assert product == 42
    assert pid != os.getpid()


def test_error_of_the_function_is_raised_with_its_place() -> None:
    with pytest.raises(LookupError, match="no such job") as caught:
        call_in_process(fail)

    assert "in fail" in caught.value.__notes__[0]


def test_each_call_has_a_process_of_its_own() -> None:
    assert call_in_process(multiply, 1, by=1)[1] != call_in_process(multiply, 1, by=1)[1]


@pytest.mark.parametrize("function", [spin, match_badly])
def test_call_that_takes_too_long_is_ended(function: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing_process, "DOCUMENT_LIMIT_S", 0.2)

    with pytest.raises(ParsingFailed, match="parsing took more than 0 s") as caught:
        call_in_process(function)  # type: ignore[arg-type]

    assert caught.value.code == "took-too-long"


def test_process_that_is_killed_is_a_fault_of_the_reader() -> None:
    with pytest.raises(ParsingFailed, match="exceeded a limit of time or memory, or crashed") as caught:
        call_in_process(end)

    assert caught.value.code == "reader-fault"
    assert call_in_process(multiply, 2, by=2)[0] == 4


def test_template_that_was_killed_is_started_again() -> None:
    call_in_process(multiply, 1, by=1)
    process = parsing_process._TEMPLATE._process
    assert process is not None
    process.kill()
    process.wait()

    assert call_in_process(multiply, 2, by=3)[0] == 6


def test_text_that_is_unreadable_there_is_unreadable_here() -> None:
    with pytest.raises(UnreadableOutput) as here:
        read_output(b"hello")
    with pytest.raises(UnreadableOutput) as there:
        call_in_process(read_output, b"hello")

    assert (there.value.code, there.value.detail) == (here.value.code, here.value.detail)
