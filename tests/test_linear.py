"""Where text of others is read, time is proportional to its length: eight times the text takes at most twelve times.

The texts are made to be read badly: signs that open what nothing closes, repetitions, reports that differ by a number.
"""

import gc
import html
import json
import quopri
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count, cycle, islice
from random import Random
from urllib.parse import parse_qsl
from uuid import UUID

import pytest

from benchapp.catalog.grammar import BadFilter, parse_filter, parse_query, parse_term
from benchapp.catalog.spelling import suggest_corrections
from benchapp.catalog.thresholds import BadThreshold, parse_threshold
from benchapp.charts.read.axes import BadAxis, BadGroup, find_axis, parse_group
from benchapp.charts.read.scaling_shapes import OPTIONS, BadLimit, parse_limit, parse_target
from benchapp.fio import UnreadableOutput, read_output
from benchapp.fio.logs import UnreadableLog, read_log, read_log_name
from benchapp.fio.redaction import remove_from_body
from benchapp.framework.api.problems import Problem
from benchapp.intake.api.body import Wire
from benchapp.intake.api.documents import Post, read_document, refuse_wrapped, suggest_address
from benchapp.intake.api.posts import split_batch
from benchapp.intake.importing.checking import (
    BadFileParameters,
    read_name_pattern,
    read_parameter_table,
)
from benchapp.intake.importing.published_csv import BadTable, read_table
from benchapp.intake.normalize.batch import plan_or_reject
from benchapp.intake.normalize.sender_context import SubmissionSource
from benchapp.intake.normalize.time_limit import TookTooLong, limit_time
from benchapp.intake.posts.envelope import BadParameter, read_parameters
from benchapp.intake.posts.format_check import check_format_quickly
from benchapp.intake.posts.metadata import BadLayout
from benchapp.intake.provenance.report import derive_body
from tests.fio.outputs import read_bytes

SHORT, LONG = 64 * 1024, 512 * 1024
RATIO_MAXIMUM = 12
# A shorter time is that of the clock and of caches as much as of the text.
FLOOR_S = 0.005
ATTEMPTS = 5
# Quadratic time would end after minutes.
LIMIT_S = 5.0
# Its place is numbered.
NUMBER = "№"
# Fits no repetition: a pattern that is matched to the end of a text fails there.
END = "!"

REFUSALS = (
    *(BadAxis, BadFileParameters, BadFilter, BadGroup, BadLayout, BadLimit, BadParameter, BadTable),
    *(BadThreshold, Problem, UnreadableLog, UnreadableOutput, ValueError),
)

Make = Callable[[int], bytes]


def measure(read: Callable[[bytes], object], text: bytes) -> float:
    """Return the CPU time of reading a text, which may be refused, in seconds."""
    gc.disable()
    started = time.process_time()
    try:
        with limit_time(LIMIT_S):
            read(text)
    except REFUSALS:
        pass
    except TookTooLong:
        # A KeyboardInterrupt, which would end all tests.
        return LIMIT_S
    finally:
        passed_s = time.process_time() - started
        gc.enable()
    return passed_s


def assert_linear(read: Callable[[bytes], object], make: Make) -> None:
    """Compare times; again, if the longer text took too long: other processes can only make a time longer."""
    short, long = make(SHORT), make(LONG)
    assert SHORT / 2 <= len(short) <= len(long) / 4
    long_s, short_s = measure(read, long), FLOOR_S
    for _ in range(ATTEMPTS):
        if long_s <= RATIO_MAXIMUM * short_s:
            return
        short_s = max(measure(read, short), FLOOR_S)
        if long_s > RATIO_MAXIMUM * short_s:
            long_s = min(long_s, measure(read, long))
    raise AssertionError(f"{len(short)} bytes: {short_s:.3f} s, {len(long)} bytes: {long_s:.3f} s")


def repeat(piece: str, size: int, *, head: str = "", tail: str = "") -> bytes:
    """Return a text of about a size that consists of a piece, numbered from 0 where it has a number."""
    start, unit, end = head.encode(), piece.encode(), tail.encode()
    room = size - len(start)
    if NUMBER not in piece:
        return start + unit * (room // len(unit)) + end
    parts = []
    for number in count():
        part = piece.replace(NUMBER, str(number))
        parts.append(part)
        room -= len(part)
        if room <= 0:
            return start + "".join(parts).encode() + end
    raise AssertionError


# fmt: off
SIGNS = [
    *"`[]({}'\"\\<&%=/|:;,.-+*_~#\x1b\x08\x00\u200b\xa0\ufeff–é \t\n\r09ak\u2003",
    "` ", '\\"', "\\n", "<a", "<a>", "> ", "&lt;", "&#", "%=", "=3D", "=\n", "..", "--", "**", "\x1b[0m",
    "\x1b]", "\x1b[", "a\x08", "\r\n", "  \n", "1.", "0x", "e9", "ns", "nan,", "KiB/s", "5%",
]
BEGINNINGS = [
    "'a", "b'", "['a',", '["', '{"', '{"a":', '{"a":[', '"a": ', '{"log":"', '{"log":"a\\n"}\n', '"a""b",',
    "<host> ", "<br>", "[b]", "hostname=", "fio-3.1\n", "fio: ", "Jan 01 00:00:00 ", "2026-01-01T00:00:00Z ",
    "h№| ", "№ ", "> ", "+ ", "3;", "3;fio-3.1;", "5;fio-3.1;a;0;0;", "2;a;0;0;", "1.0%=1;", ";vda;1;",
    "slaves;", "a: (g=0): rw=", "(groupid=", "(groupid=0, jobs=1): err=", "read: IOPS=", "lat (usec):",
    "clat percentiles (", "| 1.00th=[", "issued ", "IO depths : ", "cpu : usr=", "Run status group 0",
    "Disk stats", "  vda: ios=1/1", '"fio version" : ', '{"fio version":"x","jobs":[',
    '{"fio version" : nan, ', '"jobs" : [', '"client_stats":[', '"global options":[', '"desc" : "x',
    '"bins" : {', "real\t0m1s\n", "user\t", "$ time ", "for i in {0..9}; do ",
]
# fmt: on
HEADS = {
    "nothing": "",
    "JSON": '{"fio version" : "fio-3.1",\n"jobs" : [\n{"jobname" : "',
    "text": "a: (groupid=0, jobs=1): err= 0: pid=1: Mon Jan  1 00:00:00 2026\n  read: IOPS=1, BW=1KiB/s\n",
    "terse": "3;fio-3.1;a;0;0;",
    "log": "500, 1, 0, 4096\n",
    "CSV": "file,rw\n",
}


def make_shapes(piece: str) -> Mapping[str, Make]:
    """Return texts of a piece: behind the beginning of each format, before an end, lines, long lines."""
    return {
        **{name: partial(repeat, piece, head=head) for name, head in HEADS.items()},
        "end": partial(repeat, piece, tail=END),
        "lines": partial(repeat, f"{piece}\n"),
        "long lines": partial(repeat, piece * 200 + "\n"),
    }


TEXT = read_bytes("generated/01_normal.out").decode()
TERSE = read_bytes("generated/02_terse_v3.out").decode().splitlines()[0]
JSON = read_bytes("generated/07_json.out").decode()
CLIENTS = read_bytes("generated/62_client_two_json.out").decode()
REPORT = (
    '{"fio version":"fio-3.40","timestamp":1795246631,"jobs":[{"jobname":"a№","groupid":0,"error":0,'
    '"read":{"io_bytes":4096,"runtime":1000,"total_ios":9,"bw":1,"iops":1}}]}\n'
)
ENTRY = (
    '{"jobname":"a№","groupid":0,"error":0,"hostname":"h№","port":№,"job options":{"bs":"№"},'
    '"read":{"io_bytes":4096,"runtime":1000,"total_ios":9,"bw":1,"iops":1}},'
)
JOB = (
    "a№: (groupid=0, jobs=1): err= 0: pid=№: Sat Nov 21 07:36:55 2026\n"
    "  read: IOPS=26.3k, BW=103MiB/s (108MB/s)(205MiB/2003msec)\n"
    "    issued rwts: total=52575,0,0,0 short=0,0,0,0 dropped=0,0,0,0\n"
)
SERVER = '{"hostname":"h№","port":№,"bs":"4k"},'


def prefix(lines: str, mark: str) -> str:
    return "".join(f"{mark}{line}\n" for line in lines.splitlines())


def join(*makers: Make) -> Make:
    """Return texts one behind the other, of equal sizes."""
    return lambda size: b"".join(make(size // len(makers)) for make in makers)


def wrap_lines(wrap: Callable[[int, str], str]) -> Make:
    """Return the lines of a report, each wrapped with its number."""
    lines = TEXT.splitlines()
    size_of_line = sum(len(wrap(100, line)) + 1 for line in lines) // len(lines)

    def make(size: int) -> bytes:
        repeated = islice(cycle(lines), size // size_of_line)
        return "\n".join(wrap(number, line) for number, line in enumerate(repeated)).encode()

    return make


def enclose(begin: str, piece: str, end: str) -> Make:
    """Return a list of pieces within a document."""
    return lambda size: begin.encode() + repeat(piece, size).rstrip(b",") + end.encode()


def make_list(key: str, *, options: str = "") -> Make:
    """Return one report of JSON with many entries."""
    return enclose(f'{{"fio version":"fio-3.40","timestamp":1795246631,{options}"{key}":[', ENTRY, "]}")


def make_clients(size: int) -> bytes:
    """Return a report of as many clients as servers with global options."""
    servers = repeat(SERVER, size // 2).decode().rstrip(",")
    return make_list("client_stats", options=f'"global options":[{servers}],')(size // 2)


STRUCTURES: Mapping[str, Make] = {
    "reports of JSON": partial(repeat, REPORT),
    "reports of JSON, one job": partial(repeat, REPORT.replace(NUMBER, "")),
    "reports of JSON, other bytes": partial(repeat, REPORT.replace("4096", NUMBER).replace("a№", "a")),
    "reports of JSON of hosts": partial(repeat, prefix(json.dumps(json.loads(REPORT), indent=1), "h№| ")),
    "jobs in JSON": make_list("jobs"),
    "concurrent jobs in JSON": enclose(
        '{"fio version":"fio-3.40","jobs":[', ENTRY.replace('"hostname":"h№","port":№,', ""), "]}"
    ),
    "clients in JSON": make_list("client_stats"),
    "clients and servers in JSON": make_clients,
    "servers in JSON": enclose('{"fio version":"fio-3.40","global options":[', SERVER, '],"jobs":[]}'),
    "disks in JSON": enclose(
        '{"fio version":"x","jobs":[{"jobname":"a"}],"disk_util":[', '{"name":"v№"},', "]}"
    ),
    "bins in JSON": enclose(
        REPORT.strip().removesuffix("}}]}").replace(NUMBER, "") + ',"clat_ns":{"mean":1,"bins":{',
        '"№":1,',
        "}}}}]}",
    ),
    "options in JSON": enclose(
        '{"fio version":"x","jobs":[{"jobname":"a","job options":{', '"o№":"№",', "}}]}"
    ),
    "jobs in text": partial(repeat, JOB),
    "groups in text": partial(repeat, JOB.replace("groupid=0", "groupid=№")),
    "one job in text": partial(repeat, JOB.replace(NUMBER, "1")),
    "texts": partial(repeat, TEXT.replace("pid=", "pid=№")),
    "texts of hosts": partial(repeat, prefix(JOB, "h№| ")),
    "texts of clients": partial(repeat, prefix(JOB, "<h№> ")),
    "texts, numbered and indented": partial(repeat, prefix(TEXT, "№  ")),
    "text in emphasis": partial(repeat, "".join(f"**{line}**\n" for line in TEXT.splitlines())),
    "text in colors": partial(repeat, prefix(TEXT, "\x1b[1m")),
    "headers of text": partial(repeat, "a№: (g=№): rw=read, bs=4K-4K, ioengine=sync, iodepth=1\n"),
    "headers and jobs of text": join(partial(repeat, "a№: (g=0): rw=read, bs=4K-4K\n"), partial(repeat, JOB)),
    "groups of Run status": partial(repeat, "Run status group № (all jobs):\n   READ: bw=1KiB/s\n", head=JOB),
    "disks of text": partial(
        repeat, "  vd№: ios=1/1, merge=0/0, ticks=1/1, util=1.00%\n", head=f"{JOB}\nDisk stats:\n"
    ),
    "terse jobs": partial(repeat, TERSE.replace("rr", "a№") + "\n"),
    "terse runs": partial(repeat, TERSE + "\n"),
    "terse of hosts": partial(repeat, f"<h№> {TERSE}\n"),
    "terse disks in a line": partial(repeat, ";vd№;1;1;1;1;1;1;1;1.00%", head=TERSE),
    "terse disks of clients": partial(repeat, ";vd№;1;1;1;1;1;1;1;1.00%\n", head=f"{TERSE}\n"),
    "terse description": partial(repeat, ";a№", head=TERSE),
    "terse lines with a bad field": partial(repeat, f"{TERSE[:-30]}x\n"),
    "JSON, then text": join(partial(repeat, REPORT), partial(repeat, JOB)),
    "JSON, then text of one name": join(
        partial(repeat, REPORT.replace("a№", "a")), partial(repeat, JOB.replace("a№", "a"))
    ),
    "JSON, then terse": join(partial(repeat, REPORT), partial(repeat, TERSE.replace("rr", "a№") + "\n")),
    "JSON and terse in turn": partial(repeat, REPORT + TERSE.replace("rr", "b№") + "\n"),
    "terse, then text of its first job": join(
        partial(repeat, TERSE.replace("rr", "a№") + "\n"), partial(repeat, JOB.replace("a№", "a0"))
    ),
    "jobs in JSON, then text of the first": join(make_list("jobs"), partial(repeat, JOB.replace("a№", "a0"))),
    "timings": partial(
        repeat,
        "$ time (for i in {0..1000}; do echo 1 > $i; done)\n\nreal\t0m1.1s\nuser\t0m0.1s\nsys\t0m0.1s\n",
    ),
    "Docker": wrap_lines(lambda number, line: json.dumps({"log": f"{line}\n", "time": str(number)})),
    "journald": wrap_lines(lambda number, line: json.dumps({"MESSAGE": line, "_PID": str(number % 50)})),
    "quotations of quotations": wrap_lines(lambda number, line: f"{'> ' * (number % 90)}{line}"),
    "hosts in turn": wrap_lines(lambda number, line: f"h{number % 97} | {line}"),
    "counters": wrap_lines(
        lambda number, line: f"{' '.join(str(number // k % (k + 1)) for k in range(1, 40))} {line}"
    ),
    "JSON strings": partial(repeat, json.dumps({"stdout": TEXT}) + "\n"),
    "list of lines": lambda size: json.dumps(
        {"stdout_lines": repeat(TEXT, size).decode().splitlines()}
    ).encode(),
    "Python": lambda size: repr(repeat(TEXT, size)).encode(),
    "CSV cells": partial(repeat, 'a,"' + TEXT.replace('"', '""') + '",b\n'),
    "HTML": partial(repeat, f"<pre>{html.escape(TEXT)}</pre>\n"),
    "quoted-printable": partial(repeat, quopri.encodestring(TEXT.encode()).decode()),
    "UTF-16": lambda size: repeat(TEXT, size // 2).decode().encode("utf-16"),
    "text cut off": partial(repeat, TEXT[: len(TEXT) // 2] + "\n"),
    "JSON cut off": partial(repeat, JSON[: len(JSON) // 2] + "\n"),
    "clients cut off": partial(repeat, CLIENTS[: len(CLIENTS) // 2] + "\n"),
}


def mix(seed: int) -> Make:
    """Return lines and signs of all formats in a random order, or a random few of them repeated."""
    chance = Random(seed)
    words = [*SIGNS, *BEGINNINGS, *TEXT.splitlines(), *JSON.splitlines(), *CLIENTS.splitlines(), TERSE]
    chosen = chance.sample(words, chance.choice((2, 3, 5, 40)))
    separator = chance.choice(("", "\n", "\n", " "))
    if seed % 2:
        return partial(repeat, chance.choice(("", "h№| ", "> ", "№ ")) + separator.join(chosen) + separator)
    stretch = separator.join(chance.choices(chosen, k=3000)) + separator
    return partial(repeat, stretch[: SHORT // 2])


def plan(body: bytes) -> object:
    """Read and plan a bare output, as a worker and validate=1 do."""
    return plan_or_reject(
        SubmissionSource(UUID(int=1), 1, "host:a", "fio", body, {}, datetime(2026, 11, 27, tzinfo=UTC))
    )


def as_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda text: read(text.decode(errors="replace"))


# Readers of bodies, with what each looks for.
BODIES: Mapping[str, tuple[Callable[[bytes], object], Sequence[str]]] = {
    # As long as what it reads but the beginning of, as it may read the beginning twice.
    "check of the format": (
        lambda text: check_format_quickly(text * 8),
        ["(groupid=", '"jobs"', '"schema"  '],
    ),
    "hint": (lambda text: suggest_address(text * 8), ['{"schema":"benchapp-', "[1,", "(groupid="]),
    "document": (lambda text: read_document(text * 8, None), ['{"schema":"benchapp-', '{"schema":[']),
    "log": (
        lambda text: read_log("a_bw.1.log", text, version=(3, 33, 0)),
        ["№, 1, 0, 4096\n", "№, 1, 2, 0, 4096, 0x0\n", "1,", "0x", "1, 1, 0, 4096 \n"],
    ),
    "secrets": (
        lambda text: remove_from_body(text, is_document=True),
        [
            *(
                "password=",
                'password="',
                "password='№",
                "token='№\n",
                "--secret ",
                "s3_key=№;",
                "key",
                "pass ",
            ),
            *(
                "https://a:b@",
                "://",
                "authorization: bearer ",
                "?sig=",
                "bench_",
                'password=\\\\"',
                "secret=(removed",
            ),
        ],
    ),
    "form": (partial(refuse_wrapped, "/api/v1/fio"), ["--a\r\ncontent-type:", "a=b&", "a+", "--", "a= "]),
    "batch": (
        lambda text: split_batch(Post("/api/v1/submissions/batch", "", {}, Wire(b"", is_packed=False)), text),
        ["{}\n", "\n \n", "\n\r", "[1,"],
    ),
    "published CSV": (as_text(read_table), ["rw,iops\n", "read,№\n", "label.№,", '"a""b",', '"\n', "#\n"]),
    "table of parameters": (
        as_text(read_parameter_table),
        ["file,rw\n", "a№,gp3\n", "label.№,", '"a""b",', '"\n'],
    ),
}
TERMS = [
    "host:a,",
    "-host:",
    "host:*",
    '"host":',
    "bs:1..",
    "bs:4k ",
    "<=",
    "last 7 days ",
    "depth ",
    "random read ",
]
VALUES = ["a:", "1*n", "*n", "1 ", " : ", "MB/s", "1.5"]
PAIRS = ["a=1&", "label.№=1&", "%41", "&;", "+"]
# Readers of parameters; longer text is refused, or read.
PARAMETERS: Mapping[str, tuple[Callable[[str], object], Sequence[str]]] = {
    "filter": (parse_filter, TERMS),
    "query": (parse_query, TERMS),
    "term": (partial(parse_term, "host"), TERMS),
    "corrections": (lambda text: suggest_corrections(text, ["db-1", "gp3"]), TERMS),
    "group": (parse_group, ["a=", "= ", *TERMS]),
    "filter of a group": (lambda text: parse_group(f"a={text}"), TERMS),
    "axis": (find_axis, ["host,", "group,", " ,"]),
    "widths": (lambda text: OPTIONS["predicted"].read([text]), ["6,", "№,", " ,"]),
    "threshold": (parse_threshold, ["p99 < 5 ", "p99<", "a ", "1"]),
    "limit": (lambda text: parse_limit(text, "operations/s"), VALUES),
    "name of a limit": (lambda text: parse_limit(f"{text}:1", "operations/s"), VALUES),
    "value of a limit": (lambda text: parse_limit(f"a:1{text}", "operations/s"), VALUES),
    "name of a target": (lambda text: parse_target(f"iops:1:{text}"), VALUES),
    "value of a target": (lambda text: parse_target(f"iops:1{text}:x"), VALUES),
    "pattern of names": (read_name_pattern, ["{a}-", "*-", "{", "{a}"]),
    "name of a log": (lambda text: read_log_name(f"{text}_bw.1.log"), ["_bw.1.log", "_bw", ".1", "/a"]),
    "parameters of a POST": (lambda text: read_parameters(parse_qsl(text, keep_blank_values=True)), PAIRS),
    "size": (lambda text: read_parameters([("volume_size", f"1{text}")]), ["1", "G", "i"]),
    "time": (lambda text: read_parameters([("started_at", f"2026-01-01{text}")]), ["T00:00", "+01:00", "0"]),
    "label": (lambda text: read_parameters([("label.a", text)]), ["a"]),
}


def choose(pieces: Sequence[str], entry: str) -> list[str]:
    """Return what a reader looks for, what nearly every pattern repeats, and signs, others for each reader."""
    return [*pieces, " ", "0", "a", '"', "\\", *Random(entry).sample([*SIGNS, *BEGINNINGS], 4)]


@pytest.mark.parametrize("piece", [*SIGNS, *BEGINNINGS], ids=repr)
def test_reading_output_takes_time_in_proportion(piece: str) -> None:
    shapes = make_shapes(piece)

    for name in ("nothing", Random(piece).choice(list(shapes)[1:])):
        assert_linear(read_output, shapes[name])


@pytest.mark.parametrize("name", STRUCTURES)
def test_reading_and_planning_reports_takes_time_in_proportion(name: str) -> None:
    assert_linear(plan, STRUCTURES[name])


@pytest.mark.parametrize("name", ["jobs in JSON", "jobs in text", "terse jobs", "bins in JSON"])
def test_deriving_values_takes_time_in_proportion(name: str) -> None:
    assert_linear(partial(derive_body, number=0, has_envelope=False), STRUCTURES[name])


@pytest.mark.parametrize("seed", range(16))
def test_reading_any_mixture_takes_time_in_proportion(seed: int) -> None:
    assert_linear(plan, mix(seed))


@pytest.mark.parametrize("entry", BODIES)
def test_each_reader_of_bodies_takes_time_in_proportion(entry: str) -> None:
    read, pieces = BODIES[entry]

    for piece in choose(pieces, entry):
        shapes = make_shapes(piece)
        for name in ("nothing", Random(entry + piece).choice(list(shapes)[1:])):
            assert_linear(read, shapes[name])


@pytest.mark.parametrize("entry", PARAMETERS)
def test_each_reader_of_parameters_takes_time_in_proportion(entry: str) -> None:
    read, pieces = PARAMETERS[entry]

    for piece in choose(pieces, entry):
        assert_linear(as_text(read), partial(repeat, piece, tail=END))
        assert_linear(as_text(read), partial(repeat, f"{piece} "))
