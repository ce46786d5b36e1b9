"""The filter bar's language, read and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.catalog.dimensions import DIMENSIONS, normalize_value
from benchapp.catalog.grammar import (
    BadFilter,
    Filter,
    Term,
    parse_filter,
    parse_term,
    write_filter,
    write_value,
)
from benchapp.catalog.grammar import Test as Alternative

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("host:db-01", Term("host", (Alternative("=", ("db-01",)),))),
        ("host:db-*", Term("host", (Alternative("like", ("db-*",)),))),
        ("HOST:db-01", Term("host", (Alternative("=", ("db-01",)),))),
        ('host:"db-*"', Term("host", (Alternative("=", ("db-*",)),))),
        ('target:"a b"*', Term("target_name", (Alternative("like", ("a b*",)),))),
        ("host:**a***", Term("host", (Alternative("like", ("*a*",)),))),
        (
            "volume_type:gp3,io2",
            Term("volume_type", (Alternative("=", ("gp3",)), Alternative("=", ("io2",)))),
        ),
        ("type:gp3", Term("volume_type", (Alternative("=", ("gp3",)),))),
        ("-fs:xfs", Term("filesystem", (Alternative("=", ("xfs",)),), is_negated=True)),
        ("fs:unknown", Term("filesystem", (Alternative("unknown"),))),
        ('fs:"unknown"', Term("filesystem", (Alternative("=", ("unknown",)),))),
        ('target:"say ""hi"""', Term("target_name", (Alternative("=", ('say "hi"',)),))),
        ("bs:4k", Term("block_size_bytes", (Alternative("=", (4096,)),))),
        ("bs:4KiB", Term("block_size_bytes", (Alternative("=", (4096,)),))),
        ("bs:512", Term("block_size_bytes", (Alternative("=", (512,)),))),
        ("size:1.5G", Term("file_size_bytes", (Alternative("=", (3 * GIB // 2,)),))),
        ("depth:>=8", Term("iodepth", (Alternative(">=", (8,)),))),
        ("bs:<64k", Term("block_size_bytes", (Alternative("<", (65536,)),))),
        ("volumes:1..16", Term("volume_count", (Alternative("between", (1, 16)),))),
        ("volumes:1,4..8", Term("volume_count", (Alternative("=", (1,)), Alternative("between", (4, 8))))),
        ("direct:yes", Term("is_direct", (Alternative("=", (True,)),))),
        ("runtime:2.5", Term("runtime_s", (Alternative("=", (2.5,)),))),
        ("raid:0", Term("raid_level", (Alternative("=", ("raid0",)),))),
        ('raid:"RAID 10"', Term("raid_level", (Alternative("=", ("raid10",)),))),
        (
            "raid:raid-5,RAIDZ1,mirror",
            Term("raid_level", tuple(Alternative("=", (x,)) for x in ("raid5", "raidz1", "mirror"))),
        ),
        ("host:DB-01", Term("host", (Alternative("=", ("db-01",)),))),
        ("type:GP3", Term("volume_type", (Alternative("=", ("gp3",)),))),
        ("pool:Blue", Term("pool", (Alternative("=", ("Blue",)),))),
        ('pattern:"Random read"', Term("pattern", (Alternative("=", ("randread",)),))),
        ('pattern:"random read/write, writes"', Term("pattern", (Alternative("=", ("randrw write",)),))),
        ("rw:readwrite", Term("rw", (Alternative("=", ("rw",)),))),
        ('bs:"4 KiB"', Term("block_size_bytes", (Alternative("=", (4096,)),))),
        ('runtime:"60 s"', Term("runtime_s", (Alternative("=", (60,)),))),
        ("read_share:70%", Term("read_share_percent", (Alternative("=", (70,)),))),
        ("direct:buffered", Term("is_direct", (Alternative("=", (False,)),))),
    ],
)
def test_term_is_read(text: str, term: Term) -> None:
    assert parse_filter(text) == Filter((term,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("  ", ()),
        ("gp3 xfs", ("gp3", "xfs")),
        ('"two words"', ("two words",)),
        ('"a:b"', ("a:b",)),
        ('two" wo"rds', ("two words",)),
        ("12:30", ("12:30",)),
        ("-5", ("-5",)),
        ('""', ()),
    ],
)
def test_words_are_what_has_no_name(text: str, words: tuple[str, ...]) -> None:
    assert parse_filter(text) == Filter((), words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed:4", "Unknown filter 'speed'. Available: host, pool, pattern"),
        ("host:", "host: has no value. Write host:VALUE"),
        ("bs:fast", "block_size_bytes:fast is not a valid size. Examples: 4k, 5G, 1..16, >=8"),
        ("depth:4k", "iodepth:4k is not a valid number. Examples: 8, 1..16, >=8"),
        ("depth:1.5", "iodepth:1.5 is not a whole number"),
        ("bs:0.1k", "block_size_bytes:0.1k is not a whole size"),
        ("depth:-1", "iodepth:-1 is not a valid number"),
        ("depth:٤", "is not a valid number"),
        ("bs:9999P", "is too large"),
        ("direct:perhaps", "is_direct:perhaps is not a valid flag"),
        ("volumes:8..2", "volume_count:8..2 is not a valid range. Write 2..8"),
        ("volumes:1..", "volume_count: is not a valid number"),
        ('host:"db', 'Missing closing quotation mark: host:"db'),
        ('host:a"b', 'Missing closing quotation mark: host:a"b'),
        ('host:"a*"*', "has a * in quotes and one outside"),
        ("host:a*b*c*d*e*f*g*h*i*j", "has more than 8 stars"),
        ("depth:" + ",".join(["1"] * 51), "has 51 values; at most 50 are allowed"),
        ("depth:1 " * 41, "at most 40 terms"),
        ("a b c d e f g h i", "at most 40 terms and 8 words"),
        ("gp\x003", "has a NUL character"),
        ("a" * 2001, "The filter has 2001 characters; at most 2000 are allowed"),
    ],
)
def test_error_names_the_wrong_part_and_the_valid_values(text: str, message: str) -> None:
    with pytest.raises(BadFilter) as caught:
        parse_filter(text)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("block_size_bytes", 4096, "4k"),
        ("volume_size_bytes", 200 * GIB, "200G"),
        ("file_size_bytes", 1000, "1000"),
        ("block_size_bytes", 0, "0"),
        ("iodepth", 4096, "4096"),
        ("runtime_s", 60.0, "60"),
        ("runtime_s", 2.5, "2.5"),
        ("is_direct", True, "yes"),
        ("is_direct", None, "unknown"),
        ("host", "db-01", "db-01"),
        ("mount_options", "rw,noatime", '"rw,noatime"'),
        ("target_name", "unknown", '"unknown"'),
        ("target_name", 'a"b', '"a""b"'),
        ("target_name", "2*", '"2*"'),
    ],
)
def test_value_is_written_as_it_is_read(name: str, value: object, text: str) -> None:
    assert write_value(DIMENSIONS[name], value) == text  # type: ignore[arg-type]


TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
WORD = TEXT.filter(bool)


def _numbers(name: str) -> st.SearchStrategy[Alternative]:
    top = 10**12
    one = st.one_of(st.integers(0, top), st.integers(0, 2**20).map(lambda n: n * 1024))
    if name == "runtime_s":
        one = st.integers(0, 10**9).map(lambda n: n / 8).map(lambda x: int(x) if x == int(x) else x)
    single = st.builds(
        lambda sign, value: Alternative(sign, (value,)), st.sampled_from(["=", "<", "<=", ">", ">="]), one
    )
    pair = st.tuples(one, one).map(lambda both: Alternative("between", tuple(sorted(both))))
    return st.one_of(single, pair)


def _tests(name: str) -> st.SearchStrategy[Alternative]:
    kind = DIMENSIONS[name].kind
    unknown = st.just(Alternative("unknown"))
    if kind == "flag":
        return st.one_of(unknown, st.booleans().map(lambda flag: Alternative("=", (flag,))))
    if kind != "text":
        return st.one_of(unknown, _numbers(name))
    equal = TEXT.map(lambda text: Alternative("=", (normalize_value(DIMENSIONS[name], text),)))
    parts = st.lists(TEXT.filter(lambda text: "*" not in text), min_size=2, max_size=4)
    like = parts.filter(lambda some: all(some[1:-1])).map(lambda some: Alternative("like", ("*".join(some),)))
    return st.one_of(unknown, equal, like)


TERMS = st.sampled_from(sorted(DIMENSIONS)).flatmap(
    lambda name: st.builds(
        Term, st.just(name), st.lists(_tests(name), min_size=1, max_size=3).map(tuple), st.booleans()
    )
)
FILTERS = st.builds(Filter, st.lists(TERMS, max_size=4).map(tuple), st.lists(WORD, max_size=3).map(tuple))


@given(FILTERS)
def test_what_is_written_is_read_the_same(filter: Filter) -> None:
    assert parse_filter(write_filter(filter)) == filter


@given(st.text(st.sampled_from('a:,"*-. \n>k4'), max_size=60))
def test_whatever_comes_is_read_or_refused_and_stays_the_same_when_written(text: str) -> None:
    try:
        read = parse_filter(text)
    except BadFilter:
        return

    assert parse_filter(write_filter(read)) == read


@pytest.mark.parametrize("piece", ['"', '""', 'a"', "host:", "a:b:", '"a" ', "*,", "host:a,", " "])
def test_hostile_text_is_read_in_linear_time(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchapp.catalog.grammar.LENGTH_MAXIMUM", 10**6)
    # Quadratic, 400 000 characters would take minutes.
    try:
        parse_filter(piece * (400_000 // len(piece)))
    except BadFilter as problem:
        assert len(str(problem)) < 500


def test_filter_is_made_wider_and_narrower() -> None:
    filter = parse_filter("host:a bs:4k words")

    assert filter.without("host") == parse_filter("bs:4k words")
    assert filter.with_value("host", "b") == parse_filter("bs:4k host:b words")
    assert filter.with_value("filesystem", None) == parse_filter("host:a bs:4k fs:unknown words")


@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        ("volume_type", "gp3,io2", "volume_type:gp3,io2"),
        ("pattern", "randrw read", 'pattern:"randrw read"'),
        ("bs", ">=64k", "bs:>=64k"),
        ("filesystem", "unknown", "fs:unknown"),
    ],
)
def test_values_of_one_term_are_those_of_a_filter(name: str, values: str, text: str) -> None:
    assert Filter().with_terms([parse_term(name, values)]) == parse_filter(text)


@pytest.mark.parametrize("values", ["", '"gp3', "a\x00", "a" * 2001])
def test_bad_values_of_one_term_are_refused(values: str) -> None:
    with pytest.raises(BadFilter):
        parse_term("volume_type", values)
