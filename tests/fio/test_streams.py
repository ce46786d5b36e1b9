"""Lines of several processes in one text are separated by what precedes them."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from benchapp.fio import read_output
from benchapp.fio.report import Document
from benchapp.fio.wrappers import separate_streams
from tests.fio.outputs import read_bytes

TEXT = read_bytes("generated/17_randrw7030_normal.out").decode()
OTHER = TEXT.replace("IOPS=14.9k", "IOPS=13.9k").replace(": pid=", ": pid=9").replace("07:37:38", "07:39:38")
JSON = read_bytes("generated/07_json.out").decode()
CLIENT = read_bytes("generated/63_client_two_normal.out").decode()


def at(line: int, form: str) -> str:
    return (datetime(2026, 11, 30, 23, 59, 50) + timedelta(milliseconds=700 * line)).strftime(form)


Prefix = Callable[[str, int], str]

PREFIXES: dict[str, Prefix] = {
    "docker compose": lambda name, line: f"fio-{name}  | ",
    "kubectl --prefix --timestamps": lambda name, line: (
        f"[pod/fio-{name}/fio] {at(line, '%Y-%m-%dT%H:%M:%S.%fZ')} "
    ),
    "syslog with a host": lambda name, line: f"{at(line, '%b %d %H:%M:%S')} n{name} fio[12]: ",
    "syslog with a process": lambda name, line: f"{at(line, '%b %d %H:%M:%S')} host fio[{name}]: ",
    "RFC 5424": lambda name, line: f"<14>1 {at(line, '%Y-%m-%dT%H:%M:%SZ')} n{name} fio 12 - - ",
    "12-hour clock": lambda name, line: f"{at(line, '%m/%d/%Y %I:%M:%S %p')} n{name} ",
    "glog": lambda name, line: f"I{at(line, '%m%d %H:%M:%S.%f')}   {name} fio.go:31] ",
    "pdsh with addresses": lambda name, line: f"10.0.0.{name}: ",
    "mpirun --tag-output": lambda name, line: f"[1,{name}]<stdout>: ",
    "GNU parallel --tag": lambda name, line: f"{name}\t",
    "grep -n": lambda name, line: f"run{name}.log:{line + 1}:",
    "grep -n over dates": lambda name, line: f"run{name}.log:{line + 1}:{at(line, '%Y-%m-%dT%H:%M:%SZ')} ",
    "dmesg": lambda name, line: f"[{100 + line * 0.013:12.6f}] disk{name}: ",
    "quotes": lambda name, line: "> " * int(name),
    "diff": lambda name, line: "-+"[int(name) - 1],
}


def put_before(text: str, prefix: Prefix, name: str) -> list[str]:
    return [prefix(name, line) + content for line, content in enumerate(text.splitlines(keepends=True))]


def alternate(first: list[str], second: list[str]) -> str:
    """Return the lines of both, two of the one after two of the other."""
    parts = []
    for place in range(0, max(len(first), len(second)), 2):
        parts += first[place : place + 2] + second[place : place + 2]
    return "".join(parts)


def read_documents(text: str) -> list[Document]:
    return list(read_output(text.encode()).documents)


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("text", [TEXT, JSON, CLIENT], ids=["text", "JSON", "client"])
def test_one_stream_is_read_as_without_its_prefix(prefix: Prefix, text: str) -> None:
    assert read_documents("".join(put_before(text, prefix, "1"))) == read_documents(text)


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_alternating_streams_are_runs_of_their_own(prefix: Prefix) -> None:
    text = alternate(put_before(TEXT, prefix, "1"), put_before(OTHER, prefix, "2"))

    assert read_documents(text) == [*read_documents(TEXT), *read_documents(OTHER)]


def test_counters_of_four_streams_are_not_their_names() -> None:
    texts = [
        TEXT.replace("pid=", f"pid={number}").replace("IOPS=14.9k", f"IOPS=1{number}.9k") for number in "1234"
    ]
    streams = [put_before(text, PREFIXES["grep -n"], name) for text, name in zip(texts, "1234", strict=True)]
    lines = "".join(line for group in zip(*streams, strict=True) for line in group)

    assert read_documents(lines) == [document for text in texts for document in read_documents(text)]


def test_text_without_prefixes_is_one_stream() -> None:
    assert [stream.text for stream in separate_streams(TEXT)] == [TEXT]


def test_warning_names_the_prefixes() -> None:
    text = alternate(
        put_before(TEXT, PREFIXES["docker compose"], "1"), put_before(OTHER, PREFIXES["docker compose"], "2")
    )

    (note,) = [note for note in read_output(text.encode()).warnings if note.code == "separate-streams"]

    assert note.message == "lines were read separately by what precedes them: “fio-1  |”, “fio-2  |”"


def test_lines_of_others_between_are_messages() -> None:
    lines = put_before(TEXT, PREFIXES["docker compose"], "1")
    lines.insert(5, "cadvisor  | housekeeping took long\n")

    report = read_output("".join(lines).encode())

    assert list(report.documents) == read_documents(TEXT)
    assert report.messages == ("cadvisor  | housekeeping took long",)
