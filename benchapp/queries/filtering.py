"""Series by a filter of the bar's language."""

from functools import reduce
from operator import and_, or_
from typing import Final

from django.db.models import Q

from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import Filter, Term, Test

_SEARCHED: Final = (
    "scope",
    "rw",
    "direction",
    "engine",
    "block_size_text",
    "target_name",
    "volume_type",
    "filesystem",
    "raid_level",
    "instance_type",
)
_COMPARISONS: Final = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
_SEPARATOR: Final = " "


def match_series(filter: Filter, prefix: str = "") -> Q:
    """Return the condition on Series; prefix: the way to it from another model ("series__")."""
    terms = (_match_term(term, prefix) for term in filter.terms)
    words = (_match_word(word, prefix) for word in filter.words)
    return reduce(and_, (*terms, *words), Q())


def _match_term(term: Term, prefix: str) -> Q:
    matched = reduce(or_, (_match_test(term.dimension, test, prefix) for test in term.tests))
    return ~matched if term.is_negated else matched


def _match_word(word: str, prefix: str) -> Q:
    return reduce(or_, (Q(**{f"{prefix}{column}__icontains": word}) for column in _SEARCHED))


def _match_test(name: str, test: Test, prefix: str) -> Q:
    if name in ("host", "pool"):
        return _match_scope(name, test, prefix)
    if name == "pattern":
        return _match_pattern(test, prefix)
    return _match_column(f"{prefix}{name}", test, is_text=DIMENSIONS[name].kind == "text")


def _match_column(column: str, test: Test, *, is_text: bool) -> Q:
    if test.operator == "unknown":
        return Q(**{f"{column}__isnull": True}) | (Q(**{column: ""}) if is_text else Q())
    if test.operator == "like":
        return Q(**{f"{column}__iregex": _make_regex(str(test.values[0]))})
    if test.operator == "between":
        return Q(**{f"{column}__gte": test.values[0], f"{column}__lte": test.values[1]})
    if test.operator == "=":
        return Q(**{column: test.values[0]})
    return Q(**{f"{column}__{_COMPARISONS[test.operator]}": test.values[0]})


def _match_scope(name: str, test: Test, prefix: str) -> Q:
    if test.operator == "unknown":
        return ~Q(**{f"{prefix}scope__startswith": f"{name}:"})
    wanted = f"{name}:{test.values[0]}"
    if test.operator == "like":
        return Q(**{f"{prefix}scope__iregex": _make_regex(wanted)})
    return Q(**{f"{prefix}scope": wanted})


def _match_pattern(test: Test, prefix: str) -> Q:
    """A pattern is written as rw, or as rw and direction where the rw does more than one: "randrw read"."""
    rw, _, direction = str(test.values[0] if test.values else "").partition(_SEPARATOR)
    matched = _match_column(f"{prefix}rw", Test(test.operator, (rw,)), is_text=True)
    return matched & Q(**{f"{prefix}direction": direction}) if direction else matched


def _make_regex(text: str) -> str:
    """Turn "*" into any characters; all else stands for itself."""
    escaped = (
        "".join(f"\\{sign}" if not sign.isalnum() else sign for sign in part) for part in text.split("*")
    )
    return f"^{'.*'.join(escaped)}$"
