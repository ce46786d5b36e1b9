"""Phrases of the filter language: "random read", "at least 16 volumes", "50 GB", "queue depth 32", "last week", "p99".

Pure. A phrase stands for terms in their strict form NAME:VALUES, for a time range or for a metric. Phrases consist of
words without quotation marks; a word in quotes is never part of one. docs/filters.md has the reference.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from benchapp.catalog.dimensions import ALIASES, FILTER_DIMENSIONS, get_filter_dimension
from benchapp.catalog.metrics import CATALOG


@dataclass(frozen=True, slots=True)
class PhraseTerm:
    """A term in its strict form: the name of a dimension, and values as they follow NAME: in a filter."""

    name: str
    values: str
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A time range, ends inclusive; "" is open.

    Texts: a day (2026-05-12), "today", "yesterday", or a distance from now: -7d, -24h.
    """

    from_text: str = ""
    to_text: str = ""


@dataclass(frozen=True, slots=True)
class Phrase:
    """What some words stand for. length: number of words. Without terms, time range and metric: words to ignore."""

    length: int
    terms: tuple[PhraseTerm, ...] = ()
    time_range: TimeRange | None = None
    metric: str | None = None


class BadPhrase(Exception):
    """Words that begin a phrase but do not complete it. length: number of words; instead: texts to replace them."""

    def __init__(self, message: str, *, length: int, instead: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.length = length
        self.instead = tuple(instead)


@dataclass(frozen=True, slots=True)
class _Quantity:
    """A number, comparison or range in the filter language. unit: "", "size", "s" or "%"; size in bytes."""

    length: int
    text: str
    unit: str
    size: float


# Words, or None for what is not a plain word.
_Words = Sequence[str | None]

_PATTERNS: Final = {
    f"{order} {operation}": f"{prefix}{name}"
    for order, prefix in (("random", "rand"), ("rand", "rand"), ("sequential", ""), ("seq", ""))
    for operation, name in (
        ("read", "read"),
        ("reads", "read"),
        ("write", "write"),
        ("writes", "write"),
        ("trim", "trim"),
        ("trims", "trim"),
    )
} | {name: name for name in ("randread", "randwrite", "randrw", "randtrim")}
_MIXED: Final = ("mixed", "rw", "read/write")
_SEQUENTIAL: Final = "read,write,rw,trim,trimwrite"
_TERMS: Final[Mapping[str, PhraseTerm]] = {
    **{words: PhraseTerm("pattern", pattern) for words, pattern in _PATTERNS.items()},
    **{f"{order} {mix}": PhraseTerm("rw", "randrw") for order in ("random", "rand") for mix in _MIXED},
    **{f"{order} {mix}": PhraseTerm("rw", "rw") for order in ("sequential", "seq") for mix in _MIXED},
    "random": PhraseTerm("rw", "rand*"),
    **{word: PhraseTerm("rw", _SEQUENTIAL) for word in ("sequential", "seq")},
    **{word: PhraseTerm("rw", "rw,randrw,unknown-rw") for word in ("mixed", "read/write")},
    **{word: PhraseTerm("direction", "read") for word in ("read", "reads")},
    **{word: PhraseTerm("direction", "write") for word in ("write", "writes")},
    **{words: PhraseTerm("raid_level", "none") for words in ("no raid", "without raid")},
    "direct i/o": PhraseTerm("is_direct", "yes"),
    "direct io": PhraseTerm("is_direct", "yes"),
    "direct": PhraseTerm("is_direct", "yes"),
    "buffered i/o": PhraseTerm("is_direct", "no"),
    "buffered io": PhraseTerm("is_direct", "no"),
    "buffered": PhraseTerm("is_direct", "no"),
}
# Values that belong to one dimension wherever they are measured.
_KNOWN_VALUES: Final = {
    **dict.fromkeys(("gp2", "gp3", "io1", "io2", "st1", "sc1"), "volume_type"),
    **dict.fromkeys(("xfs", "ext3", "ext4", "btrfs", "zfs", "nfs"), "filesystem"),
    **dict.fromkeys(("libaio", "io_uring", "psync", "posixaio", "pvsync2"), "engine"),
    **dict.fromkeys(("read", "write", "trim"), "direction"),
}
_NOUNS_OF_VALUES: Final = {
    "volume_type": ("volume", "volumes", "disk", "disks"),
    "filesystem": ("filesystem", "filesystems", "fs"),
    "engine": ("engine", "engines"),
}
# Names with spaces and plurals, in addition to those of dimensions.
_NAMES: Final[Mapping[str, str]] = {
    **{name: name for name in FILTER_DIMENSIONS},
    **ALIASES,
    **{name.replace("_", " "): full for name, full in ALIASES.items() if "_" in name},
    "hostname": "host",
    "block": "block_size_bytes",
    "blocks": "block_size_bytes",
    "blocksize": "block_size_bytes",
    "queue depth": "iodepth",
    "io depth": "iodepth",
    "qd": "iodepth",
    "job": "numjobs",
    "file": "file_size_bytes",
    "files": "file_size_bytes",
    "filesize": "file_size_bytes",
    "volume type": "volume_type",
    "volume": "volume_count",
    "vol": "volume_count",
    "vols": "volume_count",
    "disk": "volume_count",
    "disks": "volume_count",
    "volume count": "volume_count",
    "stripe": "stripe_count",
    "stripe count": "stripe_count",
    "chunks": "chunk_size_bytes",
    "raid level": "raid_level",
    "file system": "filesystem",
    "mount options": "mount_options",
    "instance type": "instance_type",
    "provisioned iops": "provisioned_iops",
    "fio version": "fio_version",
    "kernel version": "kernel",
    "agent version": "agent_version",
    "ram": "memory_bytes",
}
_VOLUME_WORDS: Final = ("volume", "volumes", "vol", "vols", "disk", "disks")
# After a size, "volumes" are not counted: "200 GB volumes".
_SIZE_NAMES: Final = {
    **{name: full for name, full in _NAMES.items() if get_filter_dimension(full).kind == "size"},
    **dict.fromkeys(_VOLUME_WORDS, "volume_size_bytes"),
}
_COUNT_NAMES: Final = {
    name: full for name, full in _NAMES.items() if get_filter_dimension(full).kind == "count"
}
# Their values have parts that nobody types: "kernel 6.1" is any 6.1.
_PREFIXED: Final = frozenset({"kernel", "fio_version", "agent_version", "os", "device_model", "cpu_model"})

_METRICS: Final[Mapping[str, str]] = {
    phrase: metric.name
    for metric in CATALOG.values()
    for phrase in (
        metric.label.lower(),
        *metric.words,
        *((metric.short, f"latency {metric.short}") if metric.percentile else ()),
    )
}

_COMPARATORS: Final = {
    "at least": ">=",
    "at most": "<=",
    "more than": ">",
    "less than": "<",
    "fewer than": "<",
    "up to": "<=",
    "over": ">",
    "above": ">",
    "under": "<",
    "below": "<",
    ">=": ">=",
    "<=": "<=",
    ">": ">",
    "<": "<",
    "=": "",
    "≥": ">=",
    "≤": "<=",
}
_SIZE_UNITS: Final = {
    **{f"{power}{ending}": power for power in "kmgtp" for ending in ("", "b", "ib")},
    "b": "",
    "bytes": "",
}
_UNITS: Final = {
    **{unit: ("size", letter) for unit, letter in _SIZE_UNITS.items()},
    **dict.fromkeys(("s", "sec", "seconds"), ("s", "")),
    **dict.fromkeys(("%", "percent"), ("%", "")),
}
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_NUMBER: Final = r"(\d{1,19}(?:\.\d{1,6})?)([kmgtp]i?b|[kmgtp]|b|s|%)?"
_QUANTITY: Final = re.compile(
    rf"(>=|<=|[<>=≥≤])?{_NUMBER}(?:(?:\.\.|-|–){_NUMBER}|(\+))?", re.ASCII | re.IGNORECASE
)
_ONE_NUMBER: Final = re.compile(_NUMBER, re.ASCII | re.IGNORECASE)
# fio's block sizes end at a few MiB; a larger size without a name is that of files.
_BLOCK_SIZE_LIMIT: Final = 64 * 2**20

_DURATION: Final = re.compile(r"(\d{1,4})(h|d|w)", re.ASCII)
_COUNT: Final = re.compile(r"\d{1,4}", re.ASCII)
_DAYS: Final = {"d": 1, "w": 7, "day": 1, "week": 7, "month": 30, "quarter": 90, "year": 365}
_DAYS_MAXIMUM: Final = 36_500
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DAY_RANGE: Final = re.compile(r"(\d{4}-\d{2}-\d{2})\.\.(\d{4}-\d{2}-\d{2})", re.ASCII)
# What a metric is compared with, in units that no dimension has: "5ms", "100MB/s"; or behind a sign: ">5ms".
_MEASURED: Final = re.compile(
    r"[<>=≥≤]+\d.*|\d[\d.]*(?:[nuµμm]s|[kmgt]?i?b(?:/s|ps))", re.ASCII | re.IGNORECASE
)
_ORDERS: Final = frozenset({"random", "rand", "sequential", "seq"})
_READS: Final = frozenset({"read", "reads"})
_WRITES: Final = frozenset({"write", "writes"})
_OPPOSITES: Final = {">=": "<=", "<=": ">=", ">": "<", "<": ">", "": ""}
_NUMBERED: Final = re.compile(r"(raid|qd|iodepth)-?(\d{1,5})", re.ASCII)

_IGNORED: Final = frozenset({"with", "and", "on", "of", "for", "in", "the", "at", "by", "using", "during"})
_ALTERNATIVES: Final = frozenset({"or", "vs", "versus"})
_NEGATIONS: Final = frozenset({"not", "without", "except"})
_LONGEST: Final = 2


def read_phrase(words: _Words, place: int) -> Phrase | None:
    """Return the phrase that begins at a place; None if the word there begins none.

    words: plain words; None stands for what is not one. Raises BadPhrase.
    """
    for read in (
        _read_time,
        _read_metric,
        _read_choice,
        _read_negated,
        _read_quantified,
        _read_term_phrase,
        _read_named,
    ):
        phrase = read(words, place)
        if phrase is not None:
            return _add_volume_size(words, place, phrase)
    word = _get(words, place)
    if word in _ALTERNATIVES:
        raise BadPhrase(f"“{word}” is not supported between these words. Write NAME:VALUE,VALUE", length=1)
    if word in _NEGATIONS:
        raise BadPhrase(f"“{word}” is not supported before this word. Write -NAME:VALUE", length=1)
    return Phrase(1) if word in _IGNORED else None


def find_name(text: str) -> str | None:
    """Return the dimension with a name of phrases ("queue depth", "qd"), also with "_" and "-"; None if unknown."""
    return _NAMES.get(_fold(text))


def find_dimension_of_value(word: str) -> str | None:
    """Return the dimension that alone has a value: "gp3" is a volume type; None for other words."""
    return _KNOWN_VALUES.get(word.lower())


def list_phrases(beginning: str) -> list[tuple[str, PhraseTerm]]:
    """Return the phrases without a number that begin with a text, with their terms, shortest first."""
    wanted = beginning.lower()
    found = [(words, term) for words, term in _TERMS.items() if wanted and words.startswith(wanted)]
    return sorted(found, key=lambda pair: (len(pair[0]), pair[0]))


def list_spellings() -> frozenset[str]:
    """Return the words that phrases consist of, in lower case, as corrections of misspelled ones."""
    return _SPELLINGS


def is_in_phrase(word: str) -> bool:
    """Return whether a word may be part of a phrase, so that it needs quotation marks as a word."""
    if word.lower() in _VOCABULARY:
        return True
    try:
        return read_phrase([word], 0) is not None
    except BadPhrase:
        return True


def _get(words: _Words, place: int, *, count: int = 1) -> str | None:
    """Return some words as one text in lower case; None if they are not all plain."""
    found = words[place : place + count]
    if place < 0 or len(found) < count or any(word is None for word in found):
        return None
    return " ".join(str(word).lower() for word in found)


def _fold(text: str) -> str:
    """Return a text as the keys of the tables have it: "random-read" and "Random_Read" are "random read"."""
    lowered = text.lower()
    return lowered if lowered in _NAMES or lowered in _TERMS else re.sub("[-_]", " ", lowered)


def _find(table: Mapping[str, object], words: _Words, place: int) -> tuple[str, int]:
    """Return the longest key of a table at a place and its number of words; ("", 0) if there is none."""
    for count in range(_LONGEST, 0, -1):
        text = _get(words, place, count=count)
        if text is not None and (key := _fold(text)) in table:
            return key, count
    return "", 0


def _read_time(words: _Words, place: int) -> Phrase | None:
    word = _get(words, place)
    days = _read_days(words, place)
    if days is not None:
        return days
    if word == "this" and _find_time_unit(_get(words, place + 1)):
        unit = _get(words, place + 1)
        raise BadPhrase(
            f"“this {unit}” is not supported. Write last {unit}", length=2, instead=(f"last {unit}",)
        )
    if word in ("last", "past"):
        return _read_last(words, place)
    if word in ("since", "after", "until", "before"):
        return _read_bound(words, place)
    duration = _DURATION.fullmatch(word or "")
    if duration is not None:
        return Phrase(1, time_range=_make_last(int(duration[1]), duration[2]))
    unit = _find_time_unit(_get(words, place + 1)) if word and _COUNT.fullmatch(word) else ""
    return Phrase(2, time_range=_make_last(int(word or 0), unit)) if unit else None


def _read_days(words: _Words, place: int) -> Phrase | None:
    """Read "from DAY to DAY", "between DAY and DAY", "since DAY until DAY", "DAY to DAY", "DAY..DAY" and "DAY"."""
    word = _get(words, place) or ""
    joined = _DAY_RANGE.fullmatch(word)
    if joined is not None:
        return Phrase(1, time_range=_make_days(joined[1], joined[2], length=1))
    has_leading = word in ("from", "between", "since")
    first = _get(words, place + has_leading) or ""
    if not _is_day(first):
        return None
    behind = place + has_leading + 1
    joints = ("and",) if word == "between" else ("to", "until", "-", "–")
    if _get(words, behind) in joints:
        last = _get(words, behind + 1) or ""
        if not _is_day(last):
            message = f"“{_get(words, behind)}” needs a day, as in 2026-05-01 to 2026-06-01"
            raise BadPhrase(message, length=has_leading + 2)
        return Phrase(has_leading + 3, time_range=_make_days(first, last, length=has_leading + 3))
    if word == "between":
        message = "“between” needs two days. Write between 2026-05-01 and 2026-06-01"
        raise BadPhrase(message, length=2, instead=(f"since {first}",))
    days = _make_days(first, first, length=has_leading + 1)
    return Phrase(has_leading + 1, time_range=TimeRange(first) if has_leading else days)


def _is_day(text: str) -> bool:
    return text in ("today", "yesterday") or _DAY.fullmatch(text) is not None


def _make_days(first: str, last: str, *, length: int) -> TimeRange:
    for text in (first, last):
        try:
            date.fromisoformat("2026-05-12" if text in ("today", "yesterday") else text)
        except ValueError:
            raise BadPhrase(f"{text} is not a day of the calendar", length=length) from None
    # Days in ISO 8601 are in the order of their texts; where one is a word, only the page knows the order.
    is_dated = _DAY.fullmatch(first) is not None and _DAY.fullmatch(last) is not None
    if (first, last) == ("today", "yesterday") or (is_dated and first > last):
        raise BadPhrase(
            "The time range ends before it begins", length=length, instead=(f"from {last} to {first}",)
        )
    return TimeRange(first, last)


def _read_last(words: _Words, place: int) -> Phrase | None:
    """Read "last week", "last 30 days", "past 24 h", "last 7d"."""
    following = _get(words, place + 1) or ""
    duration = _DURATION.fullmatch(following)
    if duration is not None:
        return Phrase(2, time_range=_make_last(int(duration[1]), duration[2]))
    if _COUNT.fullmatch(following):
        unit = _find_time_unit(_get(words, place + 2))
        if unit:
            return Phrase(3, time_range=_make_last(int(following), unit))
        example = f"last {following} days"
        raise BadPhrase(
            f"The unit of the time range is missing. Write {example}", length=2, instead=(example,)
        )
    unit = _find_time_unit(following)
    return Phrase(2, time_range=_make_last(1, unit)) if unit else None


def _find_time_unit(word: str | None) -> str:
    """Return "h", or the key of _DAYS; "" if the word is no unit of time."""
    singular = (word or "").removesuffix("s")
    return "h" if singular == "hour" else singular if singular in _DAYS else ""


def _make_last(count: int, unit: str) -> TimeRange:
    if count * _DAYS.get(unit, 1) > _DAYS_MAXIMUM:
        raise BadPhrase(f"A time range has at most {_DAYS_MAXIMUM} days", length=1)
    return TimeRange(f"-{count}h" if unit == "h" else f"-{count * _DAYS[unit]}d")


def _read_bound(words: _Words, place: int) -> Phrase | None:
    """Read "since 2026-05-12", "until yesterday", "after DAY" and "before DAY", which exclude that day."""
    word, text = _get(words, place), _get(words, place + 1) or ""
    if text in ("today", "yesterday") and word in ("since", "until"):
        return Phrase(2, time_range=TimeRange(text) if word == "since" else TimeRange("", text))
    try:
        day = date.fromisoformat(text) if _DAY.fullmatch(text) else None
        if day is not None and word in ("after", "before"):
            day += timedelta(days=1 if word == "after" else -1)
    except (ValueError, OverflowError):
        day = None
    if day is None:
        message = f"“{word}” needs a day. Write {word} 2026-05-12"
        raise BadPhrase(message, length=1 if _get(words, place + 1) is None else 2)
    return Phrase(
        2, time_range=TimeRange(f"{day}") if word in ("since", "after") else TimeRange("", f"{day}")
    )


def _read_metric(words: _Words, place: int) -> Phrase | None:
    """Read "p99", "mean latency". A quantity behind it that is not that of a dimension is a threshold: refused."""
    key, length = _find(_METRICS, words, place)
    if not length:
        return None
    behind = length + (_get(words, place + length) == "of")
    quantity = _read_quantity(words, place + behind)
    if quantity is not None:
        if _is_threshold(words, place + behind, quantity, metric=_METRICS[key]):
            raise _refuse_threshold(key, quantity, length=behind + quantity.length)
        return Phrase(length, metric=_METRICS[key])
    _, before = _find(_COMPARATORS, words, place + behind)
    value = _get(words, place + behind + before) or ""
    if _MEASURED.fullmatch(value) or (before and value[:1].isdigit()):
        raise _refuse_threshold(key, None, length=behind + before + 1)
    return Phrase(length, metric=_METRICS[key])


def _is_threshold(words: _Words, place: int, quantity: _Quantity, *, metric: str) -> bool:
    """Return whether a quantity behind a metric may be a value of the metric: it has no name of a dimension."""
    is_duration = quantity.unit == "" and _find_time_unit(_get(words, place + quantity.length))
    if is_duration or quantity.unit == "%" or not _is_value(quantity, metric):
        return False
    try:
        phrase = _read_quantified(words, place)
    except BadPhrase:
        return True
    return phrase is None or phrase.length == quantity.length


def _is_value(quantity: _Quantity, metric: str) -> bool:
    """Return whether a quantity may be a value of a metric.

    One number is not with a unit that the metric does not have ("p99 50 GB"), nor as a block size, which is a power of
    two ("iops 4k").
    """
    is_one = quantity.text[0].isdigit() and ".." not in quantity.text
    is_duration = metric.startswith("latency") or metric == "elapsed_s"
    if is_one and quantity.unit == ("size" if is_duration else "s"):
        return False
    is_block = quantity.unit == "size" and 512 <= quantity.size < _BLOCK_SIZE_LIMIT
    return not (is_one and is_block and int(quantity.size).bit_count() == 1)


def _refuse_threshold(metric: str, quantity: _Quantity | None, *, length: int) -> BadPhrase:
    name = ""
    if quantity is not None and quantity.unit == "size":
        name = "bs" if quantity.size < _BLOCK_SIZE_LIMIT else "size"
    elif quantity is not None and quantity.unit == "s":
        name = "runtime"
    instead = (f"{name}:{quantity.text} {metric}",) if quantity is not None and name else ()
    return BadPhrase("Thresholds of metrics are not supported", length=length, instead=(metric, *instead))


def _read_choice(words: _Words, place: int) -> Phrase | None:
    """Read known values: "gp3 or io2", "not xfs", "-xfs", "gp3 volumes", "libaio engine"."""
    word = _get(words, place) or ""
    is_negated = word in _NEGATIONS
    first = place + is_negated
    value = _get(words, first) or ""
    if not is_negated and value.startswith("-"):
        is_negated, value = True, value[1:]
    values = value.split(",")
    dimensions = {_KNOWN_VALUES.get(each) for each in values}
    dimension = dimensions.pop() if len(dimensions) == 1 else None
    if dimension is None:
        key, count = _find(_TERMS, words, first) if word in _NEGATIONS else ("", 0)
        return (
            Phrase(1 + count, (replace(_TERMS[key], is_negated=not _TERMS[key].is_negated),)) if key else None
        )
    length = first + 1 - place
    while (
        _get(words, place + length) in _ALTERNATIVES
        and _KNOWN_VALUES.get(_get(words, place + length + 1) or "") == dimension
    ):
        values.append(_get(words, place + length + 1) or "")
        length += 2
    if _get(words, place + length) in _NOUNS_OF_VALUES.get(dimension, ()) and not _starts_quantity(
        words, place + length + 1
    ):
        return Phrase(length + 1, (PhraseTerm(dimension, ",".join(values), is_negated),))
    if len(values) == 1 and not is_negated:
        return None
    return Phrase(length, (PhraseTerm(dimension, ",".join(values), is_negated),))


def _read_negated(words: _Words, place: int) -> Phrase | None:
    """Read a "-" before a phrase of one term: "-random", "-random read", "-4k", "-raid0"."""
    word = _get(words, place) or ""
    if not word.startswith("-") or not word[1:2].isalnum():
        return None
    text = str(words[place])[1:]
    try:
        phrase = read_phrase([text, *words[place + 1 :]], 0)
    except BadPhrase:
        phrase = None
    if phrase is None and text[0].isdigit():
        # The end of a name, as that of db-05.
        return None
    if phrase is None or len(phrase.terms) != 1:
        instead = (f"-host:{text}", f'"-{text}"') if phrase is None else ()
        message = f"“-” is not supported before “{text}”. Write -NAME:VALUE"
        raise BadPhrase(message, length=1 if phrase is None else phrase.length, instead=instead)
    term = phrase.terms[0]
    return replace(phrase, terms=(replace(term, is_negated=not term.is_negated),))


def _add_volume_size(words: _Words, place: int, phrase: Phrase) -> Phrase:
    """Return a phrase of volumes with the size behind it: "16 volumes of 200 GB", "gp3 volumes with 200 GB"."""
    names = {term.name for term in phrase.terms}
    is_typed = "volume_type" in names and _get(words, place + phrase.length - 1) in _VOLUME_WORDS
    if not ("volume_count" in names or is_typed) or "volume_size_bytes" in names:
        return phrase
    behind = phrase.length + (_get(words, place + phrase.length) in ("of", "with"))
    quantity = _read_quantity(words, place + behind)
    if quantity is None or quantity.unit != "size" or quantity.size < _BLOCK_SIZE_LIMIT:
        return phrase
    if _find(_SIZE_NAMES, words, place + behind + quantity.length)[1]:
        return phrase
    size = PhraseTerm("volume_size_bytes", quantity.text)
    return Phrase(behind + quantity.length, (*phrase.terms, size))


def _starts_quantity(words: _Words, place: int) -> bool:
    return _read_quantity(words, place) is not None


def _read_term_phrase(words: _Words, place: int) -> Phrase | None:
    """Read "random read", "direct", "raid0", "qd32"."""
    _check_share(words, place)
    key, length = _find(_TERMS, words, place)
    if length:
        return Phrase(length, (_TERMS[key],))
    numbered = _NUMBERED.fullmatch(_get(words, place) or "")
    return Phrase(1, (PhraseTerm(_NAMES[numbered[1]], numbered[2]),)) if numbered else None


def _read_quantified(words: _Words, place: int) -> Phrase | None:
    """Read a quantity and the name behind it: "16 volumes", "at least 4 jobs", "200 GB volumes", "4k"."""
    quantity = _read_quantity(words, place)
    if quantity is None:
        return None
    behind = place + quantity.length
    metric, count = _find(_METRICS, words, behind)
    if count and quantity.unit != "%" and _is_value(quantity, _METRICS[metric]):
        raise _refuse_threshold(metric, quantity, length=quantity.length + count)
    if quantity.unit == "%":
        return _read_share(words, place)
    if quantity.unit == "s":
        is_named = _get(words, behind) == "runtime"
        return Phrase(quantity.length + is_named, (PhraseTerm("runtime_s", quantity.text),))
    key, count = _find(_COUNT_NAMES if quantity.unit == "" else _SIZE_NAMES, words, behind)
    # A name with its own quantity behind it is not that of this one: "4k volumes 16".
    if count and not (quantity.unit and _starts_quantity(words, behind + count)):
        name = (_COUNT_NAMES if quantity.unit == "" else _SIZE_NAMES)[key]
        return Phrase(quantity.length + count, (PhraseTerm(name, quantity.text),))
    known = _get(words, behind) or ""
    if (
        _KNOWN_VALUES.get(known) == "volume_type"
        and _get(words, behind + 1) in _NOUNS_OF_VALUES["volume_type"]
    ):
        counted = PhraseTerm("volume_size_bytes" if quantity.unit else "volume_count", quantity.text)
        return Phrase(quantity.length + 2, (counted, PhraseTerm("volume_type", known)))
    if quantity.unit == "size":
        name = "block_size_bytes" if quantity.size < _BLOCK_SIZE_LIMIT else "file_size_bytes"
        return Phrase(quantity.length, (PhraseTerm(name, quantity.text),))
    instead = (f"volumes:{quantity.text}", f"depth:{quantity.text}", f'"{_get(words, place)}"')
    message = f"{quantity.text} needs a name, as in {quantity.text.lstrip('<>=')} volumes"
    raise BadPhrase(message, length=quantity.length, instead=instead if quantity.length == 1 else instead[:2])


def _read_share(words: _Words, place: int) -> Phrase | None:
    """Read "70% reads", "30% random writes", "70%", and both shares as one: "70% reads and 30% writes"."""
    share = _read_one_share(words, place)
    if share is None or share.length == 1:
        return share
    behind = share.length + (_get(words, place + share.length) == "and")
    other = _read_one_share(words, place + behind)
    if other is None:
        return share
    length = behind + other.length
    if other.terms[0] != share.terms[0]:
        raise BadPhrase("The shares of reads and writes are not 100% together", length=length)
    return Phrase(length, tuple(dict.fromkeys((*share.terms, *other.terms))))


def _read_one_share(words: _Words, place: int) -> Phrase | None:
    quantity = _read_quantity(words, place)
    if quantity is None or quantity.unit != "%":
        return None
    length = quantity.length
    order = _get(words, place + length) or ""
    has_order = order in _ORDERS and _get(words, place + length + 1) in _READS | _WRITES
    direction = _get(words, place + length + has_order)
    if direction not in _READS | _WRITES:
        return Phrase(length, (PhraseTerm("read_share_percent", quantity.text),))
    text = quantity.text if direction in _READS else _invert_share(quantity)
    orders = (_TERMS[order],) if has_order else ()
    return Phrase(length + has_order + 1, (PhraseTerm("read_share_percent", text), *orders))


def _invert_share(quantity: _Quantity) -> str:
    """Return the share of reads for that of writes: "30" is "70", ">=30" is "<=70", "20..30" is "70..80"."""
    numbers = quantity.text.lstrip("<>=")
    sign = quantity.text.removesuffix(numbers)
    reads = [100 - Decimal(number) for number in reversed(numbers.split(".."))]
    if min(reads) < 0:
        raise BadPhrase("A share is at most 100%", length=quantity.length)
    return f"{_OPPOSITES[sign]}{'..'.join(str(share) for share in reads)}"


def _check_share(words: _Words, place: int) -> None:
    """Raise BadPhrase for a share behind its direction: "writes 30%", "random reads 70%"."""
    first = place + (_get(words, place) in _ORDERS)
    direction = _get(words, first)
    quantity = _read_quantity(words, first + 1)
    if direction not in _READS | _WRITES or quantity is None or quantity.unit != "%":
        return
    behind = first + 1 + quantity.length
    if _get(words, behind) in _READS | _WRITES and _read_one_share(words, behind + 1) is None:
        return
    share = " ".join(str(word) for word in (*words[first + 1 : behind], *words[place : first + 1]))
    message = f"A share precedes its direction. Write {share}"
    raise BadPhrase(message, length=behind - place, instead=(share,))


def _read_named(words: _Words, place: int) -> Phrase | None:
    """Read a name and the value behind it: "queue depth 32", "volumes >= 4", "host db-01", "kernel 6.1"."""
    key, length = _find(_NAMES, words, place)
    if not length:
        return None
    dimension = get_filter_dimension(_NAMES[key])
    if dimension.kind in ("count", "size", "seconds", "percent"):
        table = _SIZE_NAMES if dimension.kind == "size" else _NAMES
        has_of = key in _VOLUME_WORDS and _get(words, place + length) == "of"
        quantity = _read_quantity(words, place + length + has_of)
        length += has_of
        if quantity is None:
            raise BadPhrase(f"{key} has no number. Write {key} 4 or {dimension.name}:4", length=length)
        name = table.get(key, dimension.name)
        if quantity.unit == "size" and dimension.kind == "count":
            name = _SIZE_NAMES.get(key, dimension.name)
        return Phrase(length + quantity.length, (PhraseTerm(name, quantity.text),))
    if dimension.name == "pattern":
        pattern, count = _find(_TERMS, words, place + length)
        if count:
            return Phrase(length + count, (_TERMS[pattern],))
    length += _get(words, place + length) == "="
    value = words[place + length] if place + length < len(words) else None
    if value is None or value in _COMPARATORS:
        raise BadPhrase(f"{key} has no value. Write {dimension.name}:VALUE", length=length)
    if value.lower() == "unknown":
        return Phrase(length + 1, (PhraseTerm(dimension.name, "unknown"),))
    is_prefixed = dimension.name in _PREFIXED and not set(value) & set("*,")
    return Phrase(length + 1, (PhraseTerm(dimension.name, f"{value}*" if is_prefixed else value),))


def _read_quantity(words: _Words, place: int) -> _Quantity | None:
    """Read "4", ">=4", "at least 4", "1-16", "between 4 and 16", "50 GB", "4+"."""
    leading = _get(words, place) in ("between", "from")
    if leading or (_get(words, place + 1) == "to" and _get(words, place) != "up"):
        return _read_between(words, place, leading=leading)
    sign, before = _find(_COMPARATORS, words, place)
    word = _get(words, place + before) or ""
    found = _QUANTITY.fullmatch(word)
    if found is None or (before and found[1]):
        return None
    operator = _COMPARATORS[sign] if before else _COMPARATORS.get(found[1] or "=", "")
    low, unit_low, high, unit_high, plus = found.groups()[1:]
    if (high or plus) and operator:
        return None
    kind, letter, length = _read_unit(words, place + before + 1, written=unit_high or unit_low)
    length += before + 1
    last = f"{high or low}{letter}"
    first = f"{low}{_UNITS[(unit_low or unit_high).lower()][1] if unit_low or unit_high else letter}"
    text = f"{first}..{last}" if high else f"{'>=' if plus else operator}{last}"
    return _Quantity(length, text, kind, _measure(last) if kind == "size" else 0.0)


def _read_between(words: _Words, place: int, *, leading: bool) -> _Quantity | None:
    """Read "between 4 and 16", "from 4 to 16" and "4 to 16", with a unit behind the second number."""
    joint = "and" if _get(words, place) == "between" else "to"
    low = _ONE_NUMBER.fullmatch(_get(words, place + leading) or "")
    high = _ONE_NUMBER.fullmatch(_get(words, place + leading + 2) or "")
    if low is None or high is None or _get(words, place + leading + 1) != joint:
        return None
    kind, letter, length = _read_unit(words, place + leading + 3, written=high[2] or low[2])
    first = f"{low[1]}{_UNITS[low[2].lower()][1] if low[2] else letter}"
    last = f"{high[1]}{letter}"
    size = _measure(last) if kind == "size" else 0.0
    return _Quantity(length + leading + 3, f"{first}..{last}", kind, size)


def _read_unit(words: _Words, place: int, *, written: str | None) -> tuple[str, str, int]:
    """Return the kind and letter of a unit, and the number of words that it takes: that at the number, or the next."""
    if written:
        return (*_UNITS[written.lower()], 0)
    following = _get(words, place)
    return (*_UNITS[following], 1) if following in _UNITS else ("", "", 0)


def _measure(text: str) -> float:
    """Return the bytes of a size: "4k"."""
    letter = text[-1] if text[-1] in _POWERS else ""
    return float(text.removesuffix(letter)) * float(1024 ** _POWERS[letter])


_VOCABULARY: Final = (
    frozenset(
        word
        for table in (_TERMS, _NAMES, _METRICS, _COMPARATORS, _UNITS)
        for phrase in table
        for word in (phrase, *phrase.split())
    )
    | _IGNORED
    | _ALTERNATIVES
    | _NEGATIONS
    | {
        "between",
        "from",
        "to",
        "today",
        "yesterday",
        "last",
        "past",
        "this",
        "since",
        "after",
        "until",
        "before",
    }
    | {"hour", "hours", *_DAYS, *(f"{unit}s" for unit in _DAYS)}
)
_SPELLINGS: Final = frozenset(word for word in _VOCABULARY | frozenset(_KNOWN_VALUES) if len(word) > 2)
