"""Natural queries: what people type into a filter, and the canonical form that is shown and stored."""

from pathlib import Path

import pytest

from benchapp.filter_phrases import TimeRange
from benchapp.grammar import BadFilter, Query, parse_filter, parse_query, write_filter
from benchapp.metrics import CATALOGUE
from benchapp.spelling import suggest_corrections

NATURAL = [
    ("random read", "pattern:randread"),
    ("4k random reads", "block_size_bytes:4k pattern:randread"),
    ("random-write", "pattern:randwrite"),
    ("sequential write", "pattern:write"),
    ("seq reads 1M", "pattern:read block_size_bytes:1M"),
    ("random", "rw:rand*"),
    ("sequential", "-rw:rand*"),
    ("mixed", "rw:rw,readwrite,randrw"),
    ("writes", "direction:write"),
    ("read or write", "direction:read,write"),
    ("70% reads", "read_share_percent:70"),
    ("50GB", "file_size_bytes:50G"),
    ("50 GB", "file_size_bytes:50G"),
    ("50 GiB files", "file_size_bytes:50G"),
    ("64k blocks", "block_size_bytes:64k"),
    ("4k", "block_size_bytes:4k"),
    ("from 4k to 64k", "block_size_bytes:4k..64k"),
    ("200 GB volumes", "volume_size_bytes:200G"),
    ("type=gp3", "volume_type:gp3"),
    ("type = gp3,io2", "volume_type:gp3,io2"),
    ("type: gp3", "volume_type:gp3"),
    ("type!=gp3", "-volume_type:gp3"),
    ("gp3 or io2", "volume_type:gp3,io2"),
    ("gp3 vs io2", "volume_type:gp3,io2"),
    ("volumes>=4", "volume_count:>=4"),
    ("volumes >= 4", "volume_count:>=4"),
    ("at least 4 volumes", "volume_count:>=4"),
    ("4+ disks", "volume_count:>=4"),
    ("up to 8 volumes", "volume_count:<=8"),
    ("between 4 and 16 volumes", "volume_count:4..16"),
    ("1-16 volumes", "volume_count:1..16"),
    ("1 volume", "volume_count:1"),
    ("gp3 16 volumes", "volume_count:16 gp3"),
    ("16 gp3 volumes", "volume_count:16 volume_type:gp3"),
    ("gp3 with 16 volumes on db-01", "volume_count:16 gp3 db-01"),
    ("8 stripes, raid0", "stripe_count:8 raid_level:0"),
    ("queue depth 32", "iodepth:32"),
    ("qd32", "iodepth:32"),
    ("depth over 8", "iodepth:>8"),
    ("8 jobs", "numjobs:8"),
    ("3000 provisioned iops", "provisioned_iops:3000"),
    ("xfs filesystem", "filesystem:xfs"),
    ("not xfs", "-filesystem:xfs"),
    ("libaio engine", "engine:libaio"),
    ("direct I/O", "is_direct:yes"),
    ("buffered", "is_direct:no"),
    ("kernel 6.1", "kernel:6.1*"),
    ("host db-01", "host:db-01"),
    ("pool db", "pool:db"),
    ("db-01", "db-01"),
    ("label.rack=r1", "label.rack:r1"),
    ("runtime 60s", "runtime_s:60"),
    ('"random" "16"', '"random" "16"'),
]


@pytest.mark.parametrize(("text", "canonical"), NATURAL)
def test_natural_query_has_a_canonical_form(text: str, canonical: str) -> None:
    filter = parse_filter(text)

    assert write_filter(filter) == canonical
    assert parse_filter(canonical) == filter


def test_natural_queries_are_case_insensitive() -> None:
    assert [parse_filter(text.upper()) for text in ("random read", "50gb", "at least 4 volumes")] == [
        parse_filter(text) for text in ("random read", "50gb", "at least 4 volumes")
    ]


@pytest.mark.parametrize(
    ("text", "time_range"),
    [
        ("last week", TimeRange("-7d")),
        ("in the last 30 days", TimeRange("-30d")),
        ("past 24 hours", TimeRange("-24h")),
        ("7d", TimeRange("-7d")),
        ("last month", TimeRange("-30d")),
        ("today", TimeRange("today", "today")),
        ("yesterday", TimeRange("yesterday", "yesterday")),
        ("since 2026-05-12", TimeRange("2026-05-12")),
        ("before 2026-05-12", TimeRange("", "2026-05-11")),
    ],
)
def test_time_range_is_separate_from_the_filter(text: str, time_range: TimeRange) -> None:
    assert parse_query(text) == Query(parse_filter(""), time_range)
    with pytest.raises(BadFilter, match="time range is not part of a filter"):
        parse_filter(text)


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("p99", "latency_p99_ns"),
        ("latency p99.9", "latency_p99_9_ns"),
        ("mean latency", "latency_mean_ns"),
        ("IOPS", "iops"),
        ("throughput", "bandwidth_bytes_per_s"),
    ],
)
def test_metric_is_separate_from_the_filter(text: str, metric: str) -> None:
    assert metric in CATALOGUE
    assert parse_query(f"{text} random write") == Query(parse_filter("pattern:randwrite"), None, metric)
    with pytest.raises(BadFilter, match=f"{metric} is a metric"):
        parse_filter(text)


@pytest.mark.parametrize(
    ("text", "wrong", "suggestion"),
    [
        ("gp3 16", "16", "gp3 volumes:16"),
        ("tpye:gp3 xfs", "tpye:gp3", "type:gp3 xfs"),
        ("xfs rack=r1", "rack=r1", "xfs label.rack:r1"),
        ("gp3 or fast", "or", None),
        ("not fast", "not", None),
        ("many volumes", "volumes", None),
        ("last 7", "last 7", "last 7 days"),
        ("since may", "since may", None),
        ("today yesterday", "yesterday", "today"),
        ("iops p99", "p99", "iops"),
        ("fs>=4", "fs>=4", "fs:4"),
        ("last 9999 years", "last", None),
    ],
)
def test_wrong_part_is_located_and_a_correction_suggested(
    text: str, wrong: str, suggestion: str | None
) -> None:
    with pytest.raises(BadFilter) as caught:
        parse_query(text)

    assert text[caught.value.start : caught.value.end] == wrong
    assert suggestion is None or suggestion in caught.value.suggestions


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("radnom read", "random read"),
        ("gp33", "gp3"),
        ("quue depth 32 db-o1", "queue depth 32 db-01"),
        ("16 volums", "16 volume"),
        ("sequental wirte", "sequential write"),
    ],
)
def test_misspelled_words_are_corrected(text: str, corrected: str) -> None:
    assert corrected in suggest_corrections(text, ["db-01", "gp3", "io2"])


@pytest.mark.parametrize("text", ["gp3", "db", '"radnom"', "zzzz", "host:radnom", "random read"])
def test_known_quoted_and_unlike_words_are_not_corrected(text: str) -> None:
    assert suggest_corrections(text, ["db-01", "gp3"]) == ()


def test_documentation_has_the_examples_of_phrases() -> None:
    documented = (Path(__file__).parent.parent / "docs" / "filters.md").read_text()

    rows = [line.split("|")[1:3] for line in documented.splitlines() if line.startswith('| "')]
    examples = {left.strip().strip('"'): right.strip().strip("`") for left, right in rows}
    assert len(examples) > 20
    assert {text: write_filter(parse_filter(text)) for text in examples} == examples
