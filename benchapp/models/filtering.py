"""Series and runs that match a filter.

A negated term also matches unknown values: `-fs:xfs` matches everything that is not known to be xfs. `host` and `pool`
in one filter are alternatives, because a series belongs to either a host or a pool.

Terms for facts of the environment concern runs, one run for all of them: those of the newest run of a series, or of any
run if `runs` is "any". The runs of one series may differ in them. Terms for profile, sweep and labels match any run of
a series.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import reduce
from operator import and_, or_
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlencode

from django.db.models import (
    BooleanField,
    CharField,
    Exists,
    F,
    Func,
    JSONField,
    Lookup,
    OuterRef,
    Q,
    TextField,
    UUIDField,
    Value,
)
from django.db.models.functions import Cast
from django.db.models.lookups import IContains
from django.db.models.sql.compiler import SQLCompiler

from benchapp.catalog.dimensions import (
    DIMENSIONS,
    LABEL_PREFIX,
    Dimension,
    get_filter_dimension,
    split_pattern,
)
from benchapp.catalog.grammar import (
    LENGTH_MAXIMUM,
    BadFilter,
    Filter,
    Term,
    Test,
    canonicalize_filter,
    parse_filter,
    write_filter,
)
from benchapp.models.host import SAMPLE_HOST, Host, read_present_scopes
from benchapp.models.measurement import Measurement
from benchapp.models.series import Environment, Series, SeriesEnvironment

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
_RUN_SEARCHED: Final = (
    "host__name",
    "host__pool",
    "profile",
    "fio_version",
    "target__target_name",
    "target__volume_type",
    "target__filesystem",
    "target__raid_level",
    "target__instance_type",
)
_SCOPES: Final = ("host", "pool")
# Before a sign of a comparison, which begins no name of a group.
_NAMES_SCOPE: Final = re.compile(r"[^=]*\b(host|pool)[:=]", re.IGNORECASE)
_COMPARISONS: Final = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
# Series of a rare workload are listed by id, so that PostgreSQL starts with them and not with every run.
_RARE_SERIES: Final = 200
# Environments of a rare fact are listed by id, too.
_RARE_ENVIRONMENTS: Final = 200
FIO_PREFIX: Final = "fio-"
_NOTHING: Final = Q(Value(False, output_field=BooleanField()))

RunChoice = Literal["newest", "any"]


@CharField.register_lookup
@UUIDField.register_lookup
class Resembles(Lookup):
    """Case-insensitive match with "*" for any characters; everything else is literal.

    LIKE, not a regular expression: its cost is bounded for any pattern.
    """

    lookup_name = "resembles"

    def get_prep_lookup(self) -> str:
        """Return the pattern in LIKE syntax."""
        escaped = str(self.rhs).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return escaped.replace("*", "%").upper()

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> tuple[str, tuple[Any, ...]]:
        """Return the condition."""
        column, column_values = self.process_lhs(compiler, connection)
        pattern, pattern_values = self.process_rhs(compiler, connection)
        return f"UPPER({column}::text) LIKE {pattern}", (*column_values, *pattern_values)


@JSONField.register_lookup
class ContainsFolded(Lookup):
    """Containment of JSON without case: the index run_by_folded_label."""

    lookup_name = "contains_folded"

    def get_prep_lookup(self) -> str:
        """Return the JSON as text."""
        return json.dumps(self.rhs, ensure_ascii=False)

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> tuple[str, tuple[Any, ...]]:
        """Return the condition."""
        column, column_values = self.process_lhs(compiler, connection)
        return f"lower({column}::text)::jsonb @> lower(%s)::jsonb", (*column_values, self.rhs)


def follow_names(filter: Filter) -> Filter:
    """Return the filter with the present names of hosts and pools that it names by former ones.

    One query if it names any. Patterns are compared with present names only.
    """
    return replace_scopes(filter, read_present_scopes(_list_scopes(filter)))


WITHOUT_SAMPLE: Final = Term("host", (Test("=", (SAMPLE_HOST,)),), is_negated=True)


def leave_out_sample(filter: Filter) -> Filter:
    """Return the filter that charts and rankings read: without the sample, once other series match.

    As it is if it names hosts or pools, or a part of the name of the sample. One query; two if the sample matches.
    """
    scopes = [term for term in filter.terms if term.dimension in _SCOPES]
    is_named = WITHOUT_SAMPLE in scopes or not all(term.is_negated for term in scopes)
    if is_named or any(len(word) >= 3 and word.lower() in SAMPLE_HOST for word in filter.words):
        return filter
    matching = Series.objects.filter(match_series(filter, runs="any"), last_at__isnull=False)
    of_sample, others = matching.filter(host__name=SAMPLE_HOST), matching.exclude(scope=f"host:{SAMPLE_HOST}")
    if not of_sample.exists() or not others.exists():
        return filter
    return Filter((*filter.terms, WITHOUT_SAMPLE), filter.words)


def asks_for_series(filter: Filter) -> bool:
    """Return whether a filter selects series: more than leaving out the sample."""
    return bool(filter.words) or any(term != WITHOUT_SAMPLE for term in filter.terms)


def replace_scopes(filter: Filter, present: Mapping[str, str]) -> Filter:
    """Return the filter with other names of hosts and pools: scopes of one kind, by those in lower case."""
    if not present.keys() & {scope.lower() for scope in _list_scopes(filter)}:
        return filter

    def replace_test(term: Term, test: Test) -> Test:
        name = f"{term.dimension}:{test.values[0]}".lower() if test.operator == "=" else ""
        return Test("=", (present[name].partition(":")[2],)) if name in present else test

    terms = (
        replace(term, tests=tuple(dict.fromkeys(replace_test(term, test) for test in term.tests)))
        if term.dimension in _SCOPES
        else term
        for term in filter.terms
    )
    return Filter(tuple(terms), filter.words)


def _list_scopes(filter: Filter) -> list[str]:
    return [
        f"{term.dimension}:{test.values[0]}"
        for term in filter.terms
        if term.dimension in _SCOPES
        for test in term.tests
        if test.operator == "="
    ]


def follow_query(query: str) -> str:
    """Return the query string of a page with present names of hosts and pools in its filters; one query."""
    scopes = [scope for _, _, filter in _list_filters(query) for scope in _list_scopes(filter)]
    return replace_in_query(query, read_present_scopes(scopes))


def replace_in_query(query: str, present: Mapping[str, str]) -> str:
    """Return the query string of a page with other names in its filters, as `replace_scopes`."""
    pairs = parse_qsl(query, keep_blank_values=True)
    for place, head, filter in _list_filters(query):
        replaced = replace_scopes(filter, present)
        if replaced != filter:
            pairs[place] = (pairs[place][0], head + write_filter(replaced))
    return query if pairs == parse_qsl(query, keep_blank_values=True) else urlencode(pairs)


def _list_filters(query: str) -> list[tuple[int, str, Filter]]:
    """Return the filters that name hosts or pools: place of the parameter, what precedes the filter, the filter."""
    found = []
    for place, (_, value) in enumerate(parse_qsl(query, keep_blank_values=True)):
        # A group of Scaling is NAME = FILTER.
        head = "" if _NAMES_SCOPE.match(value) else "".join(value.partition("=")[:2])
        with suppress(BadFilter):
            if _list_scopes(filter := parse_filter(value.removeprefix(head))):
                found.append((place, f"{head} " if head else "", filter))
    return found


def read_filter_to_store(text: str) -> str:
    """Return a filter in the form that is stored, with present names. Raises BadFilter."""
    written = write_filter(follow_names(parse_filter(canonicalize_filter(text))))
    if len(written) > LENGTH_MAXIMUM:
        raise BadFilter(
            f"The filter has {len(written)} characters with present names; at most {LENGTH_MAXIMUM}"
        )
    return written


def match_series(filter: Filter, prefix: str = "", *, runs: RunChoice = "newest") -> Q:
    """Return the condition on Series; prefix: the path to it from another model ("series__")."""
    conditions = [match_series_properties(filter, prefix)]
    environment, own = filter.environment_terms, filter.run_terms
    if own:
        # With "any" the same run matches the terms for its environment, too.
        both = filter.fact_terms if runs == "any" else own
        measured = Measurement.objects.filter(match_facts(both, "run__"), series=OuterRef(f"{prefix}pk"))
        conditions.append(Q(Exists(measured)))
    if environment:
        conditions.append(_match_series_environment(environment, prefix, runs))
    return _all(conditions)


def match_changes(filter: Filter) -> Q:
    """Return the condition on Change: its series match, and its first run the terms for facts of runs."""
    terms = filter.fact_terms
    matched = match_series_properties(filter, "series__")
    return matched & match_facts(terms, "run__") if terms else matched


def match_environment(terms: Iterable[Term], prefix: str = "") -> Q:
    """Return the condition on Environment of terms for its facts; prefix: the path to it from another model."""
    return _all(_match_environment_term(term, prefix) for term in terms)


def match_facts(terms: Iterable[Term], prefix: str = "") -> Q:
    """Return the condition on Run of terms for its environment, profile, sweep and labels; prefix: the path to it."""
    return _all(
        _match_environment_term(term, f"{prefix}environment__")
        if get_filter_dimension(term.dimension).is_environment
        else _match_run_fact_term(term, prefix)
        for term in terms
    )


def match_series_properties(filter: Filter, prefix: str = "") -> Q:
    """Return the condition on Series without the terms for facts of runs."""
    filter = filter.without_facts()
    scopes = [term for term in filter.terms if term.dimension in _SCOPES]
    terms = [_match_term(term, prefix) for term in filter.terms if term.dimension not in _SCOPES]
    return _all((*terms, _match_scopes(scopes, prefix), *_match_words(filter.words, prefix)))


def match_runs(filter: Filter) -> Q:
    """Return the condition on Run: host, pool, layout and facts are the run's; words occur in those or the labels.

    All workload terms must match the same measurement of the run. They take one more query, and so do terms for facts
    of the environment.
    """
    own = [
        _match_run_term(term)
        for term in filter.terms
        if get_filter_dimension(term.dimension).group in ("scope", "target")
    ]
    workload = tuple(
        term for term in filter.terms if get_filter_dimension(term.dimension).group == "workload"
    )
    environment = filter.environment_terms
    return _all(
        (
            *own,
            _has_measurement(Filter(workload)) if workload else Q(),
            _is_in_environment(environment) if environment else Q(),
            match_facts(filter.run_terms),
            *map(_match_run_word, filter.words),
        )
    )


def match_measurements(filter: Filter) -> Q:
    """Return the condition on Measurement: host, pool and facts of its run, everything else of its series."""
    own = [term for term in filter.terms if term.dimension in _SCOPES]
    series = Filter(tuple(term for term in filter.terms if term not in own), filter.words)
    return _all(
        (
            *(_match_run_term(term, "run__") for term in own),
            match_series_properties(series, "series__"),
            match_facts(filter.fact_terms, "run__"),
        )
    )


def _match_run_word(word: str) -> Q:
    columns = (Q(**{f"{column}__icontains": word}) for column in _RUN_SEARCHED)
    return reduce(or_, columns) | Q(IContains(Cast("labels", TextField()), word))


def _match_series_environment(terms: Iterable[Term], prefix: str, runs: RunChoice) -> Q:
    measured = SeriesEnvironment.objects.filter(
        match_environment(terms, "environment__"), series=OuterRef(f"{prefix}pk")
    )
    if runs == "newest":
        measured = measured.filter(last_at=OuterRef(f"{prefix}last_at"))
    return Q(Exists(measured))


def _is_in_environment(terms: Iterable[Term]) -> Q:
    matched = Environment.objects.filter(match_environment(terms)).order_by()
    ids = list(matched.values_list("pk", flat=True)[: _RARE_ENVIRONMENTS + 1])
    return Q(environment__in=ids if len(ids) <= _RARE_ENVIRONMENTS else matched.values("pk"))


def _match_environment_term(term: Term, prefix: str) -> Q:
    return _match_any(term, lambda test: _match_fact(term.dimension, test, prefix))


def _match_run_fact_term(term: Term, prefix: str) -> Q:
    return _match_any(term, lambda test: _match_run_fact(term.dimension, test, prefix))


def _match_run_fact(name: str, test: Test, prefix: str) -> Q:
    if name in ("profile", "sweep"):
        column = f"{prefix}{'sweep_id' if name == 'sweep' else name}"
        return _match_column(column, test, get_filter_dimension(name))
    return _match_label(name.removeprefix(LABEL_PREFIX), test, f"{prefix}labels")


def _match_label(name: str, test: Test, column: str) -> Q:
    has = Q(**{f"{column}__has_key": name})
    if test.operator == "unknown":
        return ~has | Q(**{f"{column}__contains": {name: ""}})
    if test.operator == "=":
        return has & Q(**{f"{column}__contains_folded": {name: test.values[0]}})
    return has & Q(Resembles(_label_text(name, column), test.values[0]))


def run_fact(name: str) -> F | Func:
    """Return the expression of a profile, sweep (as text) or label.NAME over Run; null or "" is unknown."""
    if name == "profile":
        return F("profile")
    if name == "sweep":
        return Cast("sweep_id", CharField())
    return _label_text(name.removeprefix(LABEL_PREFIX), "labels")


def _label_text(name: str, column: str) -> Func:
    # Not KeyTextTransform, which reads the name "1" as a place in an array.
    return Func(
        F(column), Value(name), arg_joiner=" ->> ", template="(%(expressions)s)", output_field=CharField()
    )


def _match_fact(name: str, test: Test, prefix: str) -> Q:
    dimension = get_filter_dimension(name)
    if name == "memory_bytes":
        test = _allow_for_kernel(test)
    matched = _match_column(f"{prefix}{name}", test, dimension)
    value = str(test.values[0]) if test.values else ""
    if name != "fio_version" or not value or value.startswith((FIO_PREFIX, "*")):
        return matched
    # fio writes "fio-3.33", other sources "3.33".
    return matched | _match_column(
        f"{prefix}{name}", Test(test.operator, (f"{FIO_PREFIX}{value}",)), dimension
    )


def _allow_for_kernel(test: Test) -> Test:
    """Return the test of installed memory for the memory that Linux reports, which is without the kernel's own part.

    A machine with 64 GiB reports 62 GiB. Only whole GiB are what is installed.
    """
    if not test.values or any(int(value) % 2**30 for value in test.values):
        return test
    low, high = int(test.values[0]), test.values[-1]
    reported = low - low // 10
    if test.operator in ("=", "between"):
        return Test("between", (reported, high))
    return Test(test.operator, (reported if test.operator in (">=", "<") else high,))


def _match_run_term(term: Term, prefix: str = "") -> Q:
    if term.dimension == "host":
        return _match_any(term, lambda test: _match_host(test, prefix))
    if term.dimension == "pool":
        return _match_any(term, lambda test: _match_column(f"{prefix}host__pool", test, DIMENSIONS["pool"]))
    own = _match_term(term, f"{prefix}target__")
    if prefix:
        return own
    # Of several targets the run itself has no name.
    measured = Measurement.objects.filter(_match_term(term, "series__"), run=OuterRef("pk"))
    return own | Q(target__target_name=None) & Q(Exists(measured))


def _match_host(test: Test, prefix: str) -> Q:
    if test.operator != "=":
        return _match_column(f"{prefix}host__name", test, DIMENSIONS["host"])
    # A scalar subquery, not a join, so that PostgreSQL uses the index (host, time) of that host.
    return Q(**{f"{prefix}host_id": Host.objects.filter(name=test.values[0]).values("id")[:1]})


def _has_measurement(filter: Filter) -> Q:
    measurements = Measurement.objects.filter(run=OuterRef("pk"))
    ids = list(Series.objects.filter(match_series(filter)).values_list("id", flat=True)[: _RARE_SERIES + 1])
    if len(ids) > _RARE_SERIES:
        return Q(Exists(measurements.filter(match_series(filter, "series__"))))
    return Q(Exists(measurements.filter(series_id__in=ids)))


def _all(conditions: Iterable[Q]) -> Q:
    return reduce(and_, conditions, Q())


def _match_term(term: Term, prefix: str) -> Q:
    if term.dimension == "pattern":
        return _match_any(term, lambda test: _match_pattern(test, prefix))
    if term.dimension == "stripe_count":
        return _match_any(term, lambda test: _match_stripes(test, prefix))
    dimension = get_filter_dimension(term.dimension)
    if term.dimension == "raid_level":
        return _match_any(term, lambda test: _match_raid_level(test, prefix))
    return _match_any(term, lambda test: _match_column(f"{prefix}{term.dimension}", test, dimension))


def _match_raid_level(test: Test, prefix: str) -> Q:
    """Match the RAID level; a single volume has none, also if its host does not state it."""
    level, dimension = f"{prefix}raid_level", DIMENSIONS["raid_level"]
    is_single = Q(**{f"{prefix}volume_count": 1}) & _match_column(level, Test("unknown"), dimension)
    stated = _match_column(level, test, dimension) & ~is_single
    has_none = test.operator in ("=", "like") and fnmatchcase("none", str(test.values[0]).lower())
    return stated | is_single if has_none else stated


def _match_stripes(test: Test, prefix: str) -> Q:
    """Match the stripe count; a single volume is one stripe, also if its host does not state it."""
    stripes, volumes = f"{prefix}stripe_count", f"{prefix}volume_count"
    is_single = Q(**{f"{stripes}__isnull": True, volumes: 1})
    stated = _match_column(stripes, test, DIMENSIONS["stripe_count"])
    return (stated & ~is_single) | (is_single & _match_column(volumes, test, DIMENSIONS["volume_count"]))


def _match_any(term: Term, match: Callable[[Test], Q]) -> Q:
    matched = reduce(or_, map(match, term.tests))
    return ~matched if term.is_negated else matched


def _match_words(words: Iterable[str], prefix: str) -> Iterable[Q]:
    for word in words:
        yield reduce(or_, (Q(**{f"{prefix}{column}__icontains": word}) for column in _SEARCHED))


def _match_column(column: str, test: Test, dimension: Dimension) -> Q:
    is_text = dimension.kind == "text"
    if test.operator == "unknown":
        return Q(**{f"{column}__isnull": True}) | (Q(**{column: ""}) if is_text else Q())
    if test.operator == "like":
        return Q(**{f"{column}__resembles": test.values[0]})
    if test.operator == "between":
        low, high = test.values
        return _match_column(column, Test(">=", (low,)), dimension) & _match_column(
            column, Test("<=", (high,)), dimension
        )
    if test.operator == "=" and is_text:
        return Q(**{f"{column}__iexact" if dimension.keeps_case else column: test.values[0]})
    # For numbers beyond the column's range: Django raises EmptyResultSet for a query that can only be empty, and
    # replaces a comparison that is always true by true, also for null.
    if test.operator == "=":
        return Q(**{column: test.values[0]}) | _NOTHING
    known = Q(**{f"{column}__isnull": False})
    return known & (Q(**{f"{column}__{_COMPARISONS[test.operator]}": test.values[0]}) | _NOTHING)


def _match_scopes(terms: Sequence[Term], prefix: str) -> Q:
    """Match host or pool terms, and none of the negated ones."""
    excluded = [_match_scope_term(term, prefix) for term in terms if term.is_negated]
    either = [
        _all(
            _match_scope_term(term, prefix)
            for term in terms
            if term.dimension == name and not term.is_negated
        )
        for name in _SCOPES
    ]
    return _all((reduce(or_, either), *excluded))


def _match_scope_term(term: Term, prefix: str) -> Q:
    return _match_any(term, lambda test: _match_scope(term.dimension, test, prefix))


def _match_scope(name: str, test: Test, prefix: str) -> Q:
    if test.operator == "unknown":
        return ~Q(**{f"{prefix}scope__startswith": f"{name}:"})
    scope = f"{name}:{test.values[0]}"
    # Names of hosts are in lower case.
    lookup = {"like": "__resembles", "=": "" if name == "host" else "__iexact"}[test.operator]
    return Q(**{f"{prefix}scope{lookup}": scope})


def _match_pattern(test: Test, prefix: str) -> Q:
    """Match the names of `name_pattern`: "randread", "randrw read"; "randrw" matches all its directions."""
    if test.operator == "unknown":
        return Q(**{f"{prefix}rw": ""})
    text = str(test.values[0])
    rw, direction = (text, None) if test.operator == "like" and " " not in text else split_pattern(text)
    matched = _match_column(f"{prefix}rw", Test(test.operator, (rw,)), DIMENSIONS["rw"])
    return matched & Q(**{f"{prefix}direction": direction}) if direction else matched
