"""Arbitrary text: one kind of error, only values that the database can store, and linear time."""

import copy
import json
import math
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchapp.fio import UnreadableOutput, read_output
from benchapp.fio.workload import read_workload
from tests.fio.mutations import list_outputs, mutate
from tests.fio.outputs import make_content, make_direction, make_job, make_latency, make_output, read_bytes

FAST = settings(
    max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)

numbers = st.one_of(
    st.integers(), st.integers(min_value=2**62, max_value=2**66), st.floats(), st.sampled_from([0, -1, 2**63])
)
texts = st.text(max_size=8)
leaves = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)


def list_leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from list_leaves(getattr(value, field))
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from list_leaves(key)
            yield from list_leaves(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from list_leaves(part)
    else:
        yield value


def assert_storable(value: Any) -> None:
    for leaf in list_leaves(value):
        if isinstance(leaf, str):
            assert "\x00" not in leaf
            leaf.encode()
        elif isinstance(leaf, float):
            assert math.isfinite(leaf)
            assert abs(leaf) <= 2**63
        elif isinstance(leaf, int):
            assert abs(leaf) < 2**63


def read_or_refuse(output: bytes) -> None:
    try:
        report = read_output(output)
    except UnreadableOutput as error:
        assert_storable((error.code, error.detail))
        return
    assert_storable(report)
    for document in report.documents:
        for group in document.groups:
            assert_storable(msgspec.to_builtins(read_workload(group)))
            assert group.numjobs is None or 1 <= group.numjobs < 2**31


@FAST
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(output: bytes) -> None:
    read_or_refuse(output)


# Three hundred, over the files of all formats; `python -m benchmarks reader` runs a hundred thousand.
@pytest.mark.parametrize("seed", range(15))
def test_damaged_outputs_of_every_format_are_read_or_refused(seed: int) -> None:
    chance = Random(seed)
    paths = list_outputs()

    for _ in range(20):
        output = mutate(chance.choice(paths).read_bytes(), chance)
        started = time.process_time()
        read_or_refuse(output)
        # The largest takes some ms.
        assert time.process_time() - started < 2


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the path of every value of a JSON document."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from list_paths(part, (*path, key))


def replace_value(content: Any, path: tuple[Any, ...], value: Any) -> None:
    """Set the value at a path, if earlier changes have not removed it."""
    try:
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value
    except (TypeError, KeyError, IndexError):
        return


BINS = {"48": 99, "88": 1}
CONTENT = make_content(
    make_job(
        read=make_direction(
            clat_ns=make_latency(percentile={"50.000000": 48, "99.000000": 88}, bins=BINS),
            clat=make_latency(bins={**BINS, "FIO_IO_U_PLAT_BITS": 6}),
            **dict.fromkeys(["bw", "bw_min", "bw_max", "bw_mean", "bw_dev", "bw_samples", "iops_mean"], 1),
        ),
        sync={"total_ios": 1, "lat_ns": make_latency()},
        job_start=1795246631000,
        iodepth_level={"1": 100.0},
        latency_depth=1,
        **{
            "job options": {
                "rw": "randrw",
                "bs": "4k",
                "numjobs": "2",
                "runtime": "2",
                "iodepth": "4",
                "fsync": "1",
            }
        },
    ),
    timestamp_ms=1795246631000,
    disk_util=[{"name": "vda", "util": 1.0}],
    **{"global options": {"size": "1g"}},
)
CONTENT["jobs"].append(CONTENT["jobs"][0])
PATHS = list(list_paths(CONTENT))


@FAST
@given(st.lists(st.tuples(st.sampled_from(PATHS), values), min_size=1, max_size=4))
def test_arbitrary_value_at_any_key_is_read_or_refused(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    content = copy.deepcopy(CONTENT)
    for path, value in changes:
        replace_value(content, path, value)

    read_or_refuse(json.dumps(content).encode())


@FAST
@given(st.integers(min_value=0, max_value=7243), st.binary(max_size=6))
def test_real_report_damaged_anywhere_is_read_or_refused(place: int, damage: bytes) -> None:
    output = read_bytes("generated/D1_client_format_before.out")

    read_or_refuse(output[:place] + damage + output[place + len(damage) :])
    read_or_refuse(output[:place] + damage)


@pytest.mark.parametrize(
    "piece",
    [
        b"{",
        b'{"',
        b'{"a":',
        b"{\n",
        b"[",
        b"\\",
        b'"\\"',
        b"\x00",
        b"\x1b[",
        b"(groupid=",
        b"3;fio-3.1\n",
        b"<a",
        b"\n",
        b" ",
    ],
)
@pytest.mark.parametrize(
    "head", [b"", b'{"fio version" : "fio-3.1",\n', b'{"fio version":"x","jobs":[{"jobname":']
)
def test_time_is_proportional_to_the_length_of_the_text(piece: bytes, head: bytes) -> None:
    output = head + piece * (2**17 // len(piece))
    started = time.process_time()

    read_or_refuse(output)

    # 128 KiB take some 10 ms; a quadratic step would take minutes.
    assert time.process_time() - started < 2


def test_memory_is_proportional_to_the_length_of_the_text() -> None:
    output = make_output(*[make_job(f"job{number}") for number in range(500)])

    tracemalloc.start()
    read_or_refuse(output)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 10 * len(output)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(UnreadableOutput):
        read_output(b'{"fio version": "x", "jobs": ' + b'{"a": ' * 100_000)


def test_number_of_many_digits_affects_only_its_report() -> None:
    output = make_output(make_job("a")).replace(b'"error": 0', b'"error": ' + b"9" * 5000)

    read_or_refuse(output)


def test_number_of_warnings_is_limited() -> None:
    report = read_output(make_output(jobs=[make_job(), *[1] * 1000]))

    assert len(report.warnings) == 101
    assert report.warnings[-1].message == "900 more warnings were omitted"
