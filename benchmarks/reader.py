"""Measure the speed of reading fio outputs, compared with a lower limit of the work, and read 100 000 damaged outputs.

The limit is the speed of the part that no reader can omit, done by the library alone: for JSON the decoder of msgspec
with the same structures, next to `orjson.loads`; for text finding every number by `re` and converting it; for terse
splitting the lines and converting the fields.

Speeds are the best CPU time of many calls in turns, so that other processes affect none of them. Memory is the peak
that reading adds to a fresh process, as a multiple of the size of the text.
"""

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import NamedTemporaryFile
from typing import Final

import msgspec
import orjson

from benchapp.fio import UnreadableOutput, read_output
from benchapp.fio.json.shape import PrintedReport
from tests.fio.mutations import list_outputs, mutate
from tests.fio.outputs import OUTPUTS, read_bytes

MUTATIONS: Final = 100_000
LARGE_BYTES: Final = 100_000_000
SECONDS: Final = 1.0
# The clock of CPU time is not exact for single calls of some µs.
SECONDS_TIMED_MINIMUM: Final = 0.002
FILES: Final = {
    "JSON, one job": "generated/07_json.out",
    "JSON, read and write": "versions/fio-3.36/json.json",
    "JSON of 2.x, µs": "versions/fio-2.16/json.json",
    "JSON, four clones": "generated/11_numjobs4_json.out",
    "JSON, three jobs": "generated/80_multi_job_json.out",
    "JSON, two servers": "generated/62_client_two_json.out",
    "JSON+, one job": "generated/08_jsonplus.out",
    "JSON+, three jobs": "generated/83_multi_job_jsonplus.out",
}
TEXTS: Final = {
    "text, 3.x": ("generated/*normal*.out", "versions/fio-3.*/normal*.txt"),
    "text, 2.x": ("versions/fio-2.*/normal*.txt",),
    "terse": ("generated/*terse*.out", "versions/*/terse*.txt"),
}

_DECODER: Final = msgspec.json.Decoder(PrintedReport)
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
# Where the numbers of a terse line of one direction end, and of two; percentiles are two numbers each.
_TERSE_START: Final = 5
_TERSE_ENDS: Final = (100, 160)


def main() -> None:
    """Print the tables; raise SystemExit if a damaged text caused anything but a Report or UnreadableOutput."""
    print(f"{'':26}{'bytes':>12}{'MB/s':>8}{'limit':>8}{'ratio':>7}{'orjson':>8}{'memory':>8}")
    for kind, name in FILES.items():
        _compare(kind, read_bytes(name))
    _compare(f"JSON+, {LARGE_BYTES // 1_000_000} MB", _make_large(LARGE_BYTES))
    for kind, patterns in TEXTS.items():
        _measure_texts(kind, [path for pattern in patterns for path in sorted(OUTPUTS.glob(pattern))])
    _damage(MUTATIONS)


def _make_large(length: int) -> bytes:
    """Return a JSON+ report of that many bytes, of jobs that are all different."""
    report = orjson.loads(read_bytes("generated/83_multi_job_jsonplus.out"))
    jobs = report.pop("jobs")
    sizes = [len(orjson.dumps(job, option=orjson.OPT_INDENT_2)) for job in jobs]
    count = 3 * round(length / sum(sizes))
    report["jobs"] = [{**jobs[place % 3], "jobname": f"job{place}"} for place in range(count)]
    return orjson.dumps(report, option=orjson.OPT_INDENT_2)


def _compare(kind: str, output: bytes) -> None:
    reading, decoding, parsing = _take_best(
        lambda: read_output(output), lambda: _DECODER.decode(output), lambda: orjson.loads(output)
    )
    megabytes = len(output) / 1e6
    print(
        f"{kind:26}{len(output):>12}{megabytes / reading:>8.0f}{megabytes / decoding:>8.0f}"
        f"{reading / decoding:>7.2f}{megabytes / parsing:>8.0f}{_measure_memory(output):>7.1f}x",
        flush=True,
    )


def _take_best(*calls: Callable[[], object]) -> list[float]:
    """Return the shortest CPU time of each in seconds, timing them in turns for a while, at least three times.

    A call that is too short to be timed alone is repeated.
    """
    repeats = [_count_repeats(call) for call in calls]
    best = [float("inf")] * len(calls)
    until = time.perf_counter() + SECONDS
    rounds = 0
    while rounds < 3 or time.perf_counter() < until:
        rounds += 1
        for place, (call, count) in enumerate(zip(calls, repeats, strict=True)):
            best[place] = min(best[place], _time_calls(call, count) / count)
    return best


def _count_repeats(call: Callable[[], object]) -> int:
    count = 1
    while _time_calls(call, count) < SECONDS_TIMED_MINIMUM:
        count *= 2
    return count


def _time_calls(call: Callable[[], object], count: int) -> float:
    started = time.process_time()
    for _ in range(count):
        call()
    return time.process_time() - started


def _measure_memory(output: bytes) -> float:
    """Return the memory that reading adds at its peak, in sizes of the text; small texts are repeated up to 5 MB."""
    if len(output) < 1_000_000:
        output = b"\n".join([output] * (5_000_000 // len(output)))
    command = [sys.executable, "-m", "benchmarks.reader", "--memory"]
    with NamedTemporaryFile() as file:
        file.write(output)
        file.flush()
        printed = subprocess.run(command, input=file.name, capture_output=True, check=True, text=True).stdout
    return int(printed) / len(output)


def _print_memory() -> None:
    """Print the bytes that reading the named file adds to the memory of this process."""
    output = Path(sys.stdin.readline().strip()).read_bytes()
    read_output(read_bytes("generated/07_json.out"))
    before = _read_peak()
    read_output(output)
    print(_read_peak() - before)


def _read_peak() -> int:
    """Return the peak memory of this process, in bytes; ru_maxrss would include that of its parent."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not report VmHWM; run it on Linux")


def _measure_texts(kind: str, paths: list[Path]) -> None:
    outputs = [path.read_bytes() for path in paths]
    length = sum(map(len, outputs))
    convert = _convert_terse if kind == "terse" else _convert_text
    reading, converting = _take_best(
        lambda: [_read(output) for output in outputs], lambda: [convert(output) for output in outputs]
    )
    megabytes = length / 1e6
    print(
        f"{kind:26}{length:>12}{megabytes / reading:>8.0f}{megabytes / converting:>8.0f}"
        f"{reading / converting:>7.2f}   in {len(outputs)} files",
        flush=True,
    )


def _convert_text(output: bytes) -> list[float]:
    return list(map(float, _NUMBER.findall(output.decode(errors="replace"))))


def _convert_terse(output: bytes) -> list[list[float]]:
    converted = []
    for line in output.decode(errors="replace").replace("%=", ";").replace("%", "").split("\n"):
        fields = line.split(";")
        end = _TERSE_ENDS[len(fields) > _TERSE_ENDS[1]]
        converted.append(list(map(float, fields[_TERSE_START:end])))
    return converted


def _read(output: bytes) -> str:
    """Return "read", "refused" or the unexpected exception."""
    try:
        read_output(output)
    except UnreadableOutput:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def _damage(count: int) -> None:
    """Read damaged outputs of all formats; the same at every call."""
    chance = Random(3)
    outputs = {path: path.read_bytes() for path in list_outputs()}
    paths = list(outputs)
    results: Counter[str] = Counter()
    slowest, slowest_path, total = 0.0, paths[0], 0.0
    for _ in range(count):
        path = chance.choice(paths)
        damaged = mutate(outputs[path], chance)
        started = time.perf_counter()
        results[_read(damaged)] += 1
        passed = time.perf_counter() - started
        total += passed
        if passed > slowest:
            slowest, slowest_path = passed, path
    print(
        f"\n{count} damaged outputs: {count / total:.0f} a second; {results.pop('read', 0)} read,"
        f" {results.pop('refused', 0)} refused; the slowest took {slowest * 1000:.0f} ms, of"
        f" {slowest_path.relative_to(OUTPUTS)}"
    )
    for result, times in results.most_common():
        print(f"  {times} raised {result}")
    if results:
        raise SystemExit(1)


if __name__ == "__main__":
    if sys.argv[1:] == ["--memory"]:
        _print_memory()
    else:
        main()
