"""Natural queries: what people type into a filter, and the canonical form that is shown and stored."""

from pathlib import Path

import pytest

from benchapp.catalog.filter_phrases import TimeRange
from benchapp.catalog.grammar import BadFilter, Query, parse_filter, parse_query, write_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.catalog.spelling import suggest_corrections

NATURAL = [
    ("random read", "pattern:randread"),
    ("4k random reads", "block_size_bytes:4k pattern:randread"),
    ("random-write", "pattern:randwrite"),
    ("sequential write", "pattern:write"),
    ("seq reads 1M", "pattern:read block_size_bytes:1M"),
    ("random", "rw:rand*"),
    ("4k no RAID", "block_size_bytes:4k raid_level:none"),
    ("without raid", "raid_level:none"),
    ("sequential", "rw:read,write,rw,trim,trimwrite"),
    ("mixed", "rw:rw,randrw,unknown-rw"),
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
    ("8 stripes, raid0", "stripe_count:8 raid_level:raid0"),
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
    ("30% writes", "read_share_percent:70"),
    ("at least 30% writes", "read_share_percent:<=70"),
    ("20-30% writes", "read_share_percent:70..80"),
    ("70% reads 30% writes", "read_share_percent:70"),
    ("70% reads and 30% writes", "read_share_percent:70"),
    ("30% random writes", "read_share_percent:70 rw:rand*"),
    ("gp3,io2", "volume_type:gp3,io2"),
    ("kernel unknown", "kernel:unknown"),
    ("16 volumes of 200 GB", "volume_count:16 volume_size_bytes:200G"),
    ("16 gp3 volumes with 200 GB", "volume_count:16 volume_type:gp3 volume_size_bytes:200G"),
    ("gp3 volumes of at least 200 GB", "volume_type:gp3 volume_size_bytes:>=200G"),
    ("volumes of 200 GB", "volume_size_bytes:200G"),
    ("16 volumes 50 GB files", "volume_count:16 file_size_bytes:50G"),
    ("16 volumes 4k", "volume_count:16 block_size_bytes:4k"),
    ("-random", "-rw:rand*"),
    ("-random read", "-pattern:randread"),
    ("-4k", "-block_size_bytes:4k"),
    ("-raid0", "-raid_level:raid0"),
    ("-16 volumes", "-volume_count:16"),
    ("type:gp3, 16 volumes", "volume_type:gp3 volume_count:16"),
    ("at least 4 volumes, at most 8 volumes", "volume_count:>=4 volume_count:<=8"),
    ('"random" "16"', '"random" "16"'),
]


@pytest.mark.parametrize(("text", "canonical"), NATURAL)
def test_natural_query_has_a_canonical_form(text: str, canonical: str) -> None:
    filter = parse_filter(text)

    assert write_filter(filter) == canonical
    assert parse_filter(canonical) == filter


@pytest.mark.parametrize("text", ["p99 4k random write", "4k p99 random write", "p99 random write 4k"])
def test_block_size_next_to_a_metric_is_not_a_threshold(text: str) -> None:
    query = parse_query(text)

    assert query.metric == "latency_p99_ns"
    assert {write_filter(query.filter.without("pattern"))} == {"block_size_bytes:4k"}


@pytest.mark.parametrize(
    ("text", "time_range"), [("p99 30 days", TimeRange("-30d")), ("iops at least 4 volumes", None)]
)
def test_named_quantity_behind_a_metric_is_not_a_threshold(text: str, time_range: TimeRange | None) -> None:
    query = parse_query(text)

    assert query.metric is not None
    assert query.time_range == time_range
    assert write_filter(query.filter) == ("" if time_range else "volume_count:>=4")


@pytest.mark.parametrize("text", ["p99 50 GB", "50 GB p99", "50 GB files iops"])
def test_size_next_to_a_latency_is_not_a_threshold(text: str) -> None:
    assert write_filter(parse_query(text).filter) == "file_size_bytes:50G"


def test_volume_size_precedes_a_metric() -> None:
    query = parse_query("16 volumes of 200 GB throughput")

    assert write_filter(query.filter) == "volume_count:16 volume_size_bytes:200G"
    assert query.metric == "bandwidth_bytes_per_s"


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
        ("from 2026-05-01 to 2026-06-01", TimeRange("2026-05-01", "2026-06-01")),
        ("between 2026-05-01 and 2026-06-01", TimeRange("2026-05-01", "2026-06-01")),
        ("since 2026-05-01 until yesterday", TimeRange("2026-05-01", "yesterday")),
        ("2026-05-01..2026-06-01", TimeRange("2026-05-01", "2026-06-01")),
        ("from 2026-05-01", TimeRange("2026-05-01")),
        ("on 2026-05-12", TimeRange("2026-05-12", "2026-05-12")),
        ("2026-05-12", TimeRange("2026-05-12", "2026-05-12")),
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
    assert metric in CATALOG
    assert parse_query(f"{text} random write") == Query(parse_filter("pattern:randwrite"), None, metric)
    with pytest.raises(BadFilter, match=f"{metric} is a metric"):
        parse_filter(text)


@pytest.mark.parametrize(
    ("text", "wrong", "suggestion"),
    [
        ("gp3 16", "16", "gp3 volumes:16"),
        ("tpye:gp3 xfs", "tpye:gp3", "type:gp3 xfs"),
        ("xfs rack=r1", "rack=r1", "xfs label.rack:r1"),
        ("xfs rack:r1", "rack:r1", "xfs label.rack:r1"),
        ("4k (type:gp3) xfs", "(type:gp3)", "4k type:gp3 xfs"),
        ("(random read)", "(random", "random read"),
        ("-(type:gp3 or xfs)", "-(type:gp3", "-type:gp3 or xfs"),
        ("gp3 or fast", "or", None),
        ("not fast", "not", None),
        ("many volumes", "volumes", None),
        ("last 7", "last 7", "last 7 days"),
        ("since may", "since may", None),
        ("today yesterday", "yesterday", "today"),
        ("iops p99", "p99", "iops"),
        ("fs>=4", "fs>=4", "fs:4"),
        ("last 9999 years", "last", None),
        ("this week", "this week", "last week"),
        ("from 2026-06-01 to 2026-05-01", "from 2026-06-01 to 2026-05-01", "from 2026-05-01 to 2026-06-01"),
        ("between 2026-05-01", "between 2026-05-01", "since 2026-05-01"),
        ("2026-02-30", "2026-02-30", None),
        ("iops > 10k", "iops > 10k", "iops"),
        ("iops 10k", "iops 10k", "bs:10k iops"),
        ("xfs over 10k iops", "over 10k iops", "xfs iops"),
        ("bandwidth over 100 MB", "bandwidth over 100 MB", "size:>100m bandwidth"),
        ("throughput at least 500 MB", "throughput at least 500 MB", "throughput"),
        ("p99 latency > 5 s", "p99 latency > 5 s", "runtime:>5 p99 latency"),
        ("p99 < 5 ms", "p99 < 5", None),
        ("p99 <5ms", "p99 <5ms", "p99"),
        ("latency 5ms", "latency 5ms", "latency"),
        ("70% reads 40% writes", "70% reads 40% writes", None),
        ("writes 30%", "writes 30%", "30% writes"),
        ("130% writes", "130%", None),
        ("xfs type:gp3, io2", "type:gp3, io2", "xfs type:gp3,io2"),
        ("host:a, b", "host:a, b", "host:a,b"),
        ("host: a, b", "host: a, b", "host: a,b"),
        ("volumes>=4, 16", "volumes>=4, 16", None),
        ("gp3, io2", "gp3, io2", "volume_type:gp3,io2"),
        ("4 volumes, 8 volumes 4k", "4 volumes, 8 volumes", "volume_count:4,8 4k"),
        ("random read, random write", "random read, random write", "pattern:randread,randwrite"),
        ("-fast", "-fast", "-host:fast"),
        ('-"a b"', '-"a b"', '-host:"a b"'),
        ("-p99 xfs", "-p99", None),
        ("-7d", "-7d", None),
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
