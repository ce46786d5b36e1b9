"""Output of fio in the strings of other tools: Ansible's results, Docker's logs, Python's repr."""

import json
import time
from collections.abc import Callable
from itertools import zip_longest
from random import Random

import pytest

from benchapp.fio import UnreadableOutput, read_output
from benchapp.fio.report import Document
from benchapp.fio.wrappers import unwrap_output
from tests.fio.mutations import mutate
from tests.fio.outputs import read_bytes
from tests.fio.test_hostile import read_or_refuse

JSON, NORMAL, TERSE = "generated/08_jsonplus.out", "generated/01_normal.out", "generated/02_terse_v3.out"
OF_ALL_FORMATS = (JSON, NORMAL, TERSE, "versions/fio-2.16/json.json", "generated/80_multi_job_json.out")


def in_ansible(text: str) -> str:
    """Return what `ansible -v` prints of a task: its standard output as a string, and as a list of lines."""
    bare = text.rstrip("\n")
    result = {"changed": True, "cmd": "fio 'a'", "stdout": bare, "stdout_lines": bare.splitlines()}
    return f"changed: [db1] => {json.dumps(result)}\n"


def in_ansible_over_lines(text: str) -> str:
    bare = text.rstrip("\n")
    result = {"changed": True, "cmd": ["fio"], "stdout": bare, "stdout_lines": bare.splitlines()}
    return f"db1 | CHANGED => {json.dumps(result, indent=4)}\n"


def in_ansible_lines(text: str) -> str:
    return f"ok: [db1] => {json.dumps({'fio.stdout_lines': text.splitlines()}, indent=4)}\n"


def in_docker(text: str) -> str:
    lines = ({"log": line, "stream": "stdout", "time": "T"} for line in text.splitlines(keepends=True))
    return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)


def in_python_bytes(text: str) -> str:
    return f"{text.encode()!r}\n"


def in_python_text(text: str) -> str:
    return repr(text)


def in_python_process(text: str) -> str:
    return f"CompletedProcess(args=['fio'], returncode=0, stdout={text.encode()!r}, stderr=b'')\n"


def in_python_lines(text: str) -> str:
    return repr(text.splitlines(keepends=True))


def in_all(text: str) -> str:
    return in_ansible(in_docker(in_python_bytes(text)))


WRAPPERS = [
    in_ansible,
    in_ansible_over_lines,
    in_ansible_lines,
    in_docker,
    in_python_bytes,
    in_python_text,
    in_python_process,
    in_python_lines,
    in_all,
]


def read_documents(output: bytes) -> tuple[Document, ...]:
    return read_output(output).documents


@pytest.mark.parametrize("name", OF_ALL_FORMATS)
@pytest.mark.parametrize("wrap", WRAPPERS)
def test_wrapped_output_gives_the_same_report_as_without_the_wrapper(
    wrap: Callable[[str], str], name: str
) -> None:
    output = read_bytes(name)

    report = read_output(wrap(output.decode()).encode())

    assert report.documents == read_documents(output)
    assert report.warnings[0].code == "unwrapped-output"


@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        (in_ansible, "Ansible's stdout"),
        (in_ansible_lines, "Ansible's stdout_lines"),
        (in_docker, "a JSON log, such as Docker's"),
        (in_python_bytes, "Python literal"),
    ],
)
def test_warning_names_the_wrapper(wrap: Callable[[str], str], name: str) -> None:
    report = read_output(wrap(read_bytes(NORMAL).decode()).encode())

    assert name in report.warnings[0].message


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_truncated_wrapped_output_gives_its_complete_jobs(wrap: Callable[[str], str]) -> None:
    text = read_bytes("generated/80_multi_job_json.out").decode()
    whole = wrap(text)
    beginning, first, second, third = whole.split("jobname")[:4]
    output = "jobname".join((beginning, first, second, third[:100])).encode()

    (document,) = read_documents(output)

    names = [job.name for job in read_documents(text.encode())[0].jobs]
    assert (document.is_partial, [job.name for job in document.jobs]) == (True, names[:2])


def test_names_in_any_script_survive_nested_python_escapes() -> None:
    text = read_bytes(TERSE).decode().replace(";rr;", ';näme\'s "日本" \U0001f4bd\\t;')

    assert read_documents(in_python_bytes(text).encode()) == read_documents(text.encode())
    assert read_documents(in_python_text(text).encode()) == read_documents(text.encode())


def test_results_of_several_hosts_are_several_documents() -> None:
    texts = [read_bytes(f"versions/fio-3.{minor}/json.json").decode() for minor in (28, 36)]

    documents = read_documents("".join(map(in_ansible, texts)).encode())

    assert [document.fio_version for document in documents] == ["fio-3.28", "fio-3.36"]


def test_standard_error_between_lines_of_dockers_log_does_not_split_a_report() -> None:
    text = read_bytes(JSON).decode()
    lines = in_docker(text).splitlines(keepends=True)
    complaint = '{"log":"fio: a complaint\\n","stream":"stderr","time":"T"}\n'

    report = read_output("".join((*lines[:40], complaint, *lines[40:])).encode())

    assert report.documents == read_documents(text.encode())
    assert report.messages == ("fio: a complaint",)


def test_text_outside_of_strings_is_preferred_to_text_in_strings() -> None:
    text = read_bytes(JSON).decode()

    report = read_output((text + in_ansible(text.replace('"jobname" : "', '"jobname" : "other-'))).encode())

    assert report.documents == read_documents(text.encode())
    assert "unwrapped-output" not in [note.code for note in report.warnings]


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ('b\'{\\q\\n  "fio version" : "fio-3.33"\'', "Python literal"),
        ("b'\\xzz3;fio-3.33;rr;0;0;1.0%=71;'", "Python literal"),
        ('{"log":1,"stream":"stdout"}\n{"log":2}\n', "a JSON log, such as Docker's"),
    ],
)
def test_damaged_wrapper_is_named_in_the_refusal(output: str, name: str) -> None:
    with pytest.raises(UnreadableOutput, match=name):
        read_output(output.encode())


@pytest.mark.parametrize(
    "output", [b"", b"'", b'"fio version"', b"it's 5%=5", b'{"stdout": "ok\\n"}', b"[[[["]
)
def test_text_without_wrapped_output_is_not_changed(output: bytes) -> None:
    assert unwrap_output(output) is None


@pytest.mark.parametrize("seed", range(len(WRAPPERS)))
def test_damaged_wrapped_outputs_are_read_or_refused(seed: int) -> None:
    chance = Random(seed)

    for name in OF_ALL_FORMATS * 4:
        wrapped = WRAPPERS[seed](read_bytes(name).decode()).encode()
        started = time.process_time()
        read_or_refuse(mutate(wrapped, chance))
        assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "piece",
    [
        "'",
        '"',
        "b'",
        '"\\"',
        "'\\",
        "['a',",
        '["a"',
        "[",
        "\\\\",
        "'\"",
        '"stdout":"',
        '{"log":"',
        '{"log":"a"}\n',
    ],
)
@pytest.mark.parametrize(
    "head", ["", "(groupid=1 1%=1", "'(groupid=1", '["(groupid=1",', '{"log":"(groupid=1"}\n']
)
def test_time_is_proportional_to_the_length_of_the_text(piece: str, head: str) -> None:
    output = (head + piece * (2**17 // len(piece))).encode()
    started = time.process_time()

    read_or_refuse(output)

    # 128 KiB take some 10 ms; a quadratic step would take from a second to minutes.
    assert time.process_time() - started < 1


@pytest.mark.parametrize("field", ["pod_name", "kubernetes", "server"])
def test_any_field_separates_the_sources_of_a_log_of_json_lines(field: str) -> None:
    texts = [
        read_bytes("generated/17_randrw7030_normal.out").decode(),
        read_bytes("generated/01_normal.out").decode(),
    ]
    lines = [
        line for pair in zip_longest(*[text.splitlines() for text in texts], fillvalue="") for line in pair
    ]
    log = "".join(
        json.dumps({field: {"n": n % 2}, "ts": n, "message": line}) + "\n" for n, line in enumerate(lines)
    )

    documents = [document for text in texts for document in read_output(text.encode()).documents]

    assert list(read_output(log.encode()).documents) == documents
