"""A question for a layout: what is required, what may vary, which measurements count; its query string."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Final, Literal
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import TooManyFieldsSent
from django.http import QueryDict
from django.utils import timezone

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import (
    LENGTH_MAXIMUM,
    BadFilter,
    Filter,
    Term,
    parse_filter,
    parse_term,
    write_filter,
)
from benchapp.layouts.read.prices import UnknownRegion, find_region, list_prices
from benchapp.layouts.rules.ranking import Requirement
from benchapp.models.filtering import follow_names

PricedParts = Literal["all", "volumes"]
PRICED_PARTS: Final[Mapping[PricedParts, str]] = {
    "all": "Volumes and instance",
    "volumes": "Volumes only",
}
PATTERNS: Final[Mapping[str, str]] = {
    "randread": "Random read",
    "randwrite": "Random write",
    "read": "Sequential read",
    "write": "Sequential write",
    "randrw": "Random mixed",
    "rw": "Sequential mixed",
    "unknown-read": "Read, sequential or random",
    "unknown-write": "Write, sequential or random",
}
# Dimensions that may be one value instead.
VARYING: Final = ("volume_type", "volume_count", "stripe_count", "instance_type", "filesystem")
# Beyond what one host delivers; also the largest numbers of the form and of the API.
REQUIRED_MAXIMUM: Final = 1e9
AGE_MAXIMUM_DAYS: Final = 3650
_DIRECTIONS: Final = {
    **dict.fromkeys(("randread", "read", "unknown-read"), ("read",)),
    **dict.fromkeys(("randwrite", "write", "unknown-write"), ("write",)),
}
_MB: Final = 10**6
_GB: Final = 10**9
_MS: Final = 10**6


@dataclass(frozen=True, slots=True)
class LayoutQuestion:
    """What is asked for. Numbers are in the units of their names; None: anything.

    filter: whose measurements count. block_size: values as in a filter; "" for the most usual. read_share: percent, of
    mixed patterns. region: of the prices; "" without one, None for the default. vary: of VARYING, those that may have
    any value. max_age_days: of the newest run. price_of: None: chosen by the ranking.
    """

    filter: Filter
    iops: float | None = None
    mb_per_s: float | None = None
    p99_ms: float | None = None
    capacity_gb: float | None = None
    max_price: float | None = None
    pattern: str = "randread"
    read_share: int | None = None
    block_size: str = ""
    region: str | None = None
    price_of: PricedParts | None = None
    vary: tuple[str, ...] = VARYING
    max_age_days: int | None = None

    @property
    def is_mixed(self) -> bool:
        """Return whether the pattern has reads and writes, so that a load has to name its read share."""
        return self.pattern not in _DIRECTIONS

    @property
    def has_throughput(self) -> bool:
        """Return whether a throughput is required, without which there is nothing to rank."""
        return self.iops is not None or self.mb_per_s is not None

    @property
    def requirement(self) -> Requirement:
        """Return what is required, in base units."""
        return Requirement(
            iops=self.iops,
            bandwidth_bytes_per_s=_multiply(self.mb_per_s, _MB),
            latency_p99_ns=_multiply(self.p99_ms, _MS),
            capacity_bytes=_multiply(self.capacity_gb, _GB),
            price=self.max_price,
        )

    @property
    def directions(self) -> tuple[str, ...]:
        """Return the directions whose throughput is added."""
        return _DIRECTIONS.get(self.pattern, ("read", "write"))

    @property
    def maximum_age(self) -> timedelta | None:
        """Return how old the newest run may be."""
        return None if self.max_age_days is None else timedelta(days=self.max_age_days)

    def make_filter(self) -> Filter:
        """Return the filter of the measurements of this workload. Raises BadFilter."""
        terms: list[Term] = [
            parse_term("rw", self.pattern),
            parse_term("direction", ",".join(self.directions)),
        ]
        if self.block_size:
            terms.append(parse_term("block_size_bytes", self.block_size))
        if self.read_share is not None and self.is_mixed:
            terms.append(parse_term("read_share_percent", str(self.read_share)))
        return self.filter.with_terms(terms)


def _multiply(value: float | None, factor: int) -> float | None:
    return None if value is None else value * factor


VARYING_CHOICES: Final = tuple((name, DIMENSIONS[name].label) for name in VARYING)
QUERY_MAXIMUM: Final = 2000
_SAFE: Final = ":,/*"


class BadQuestion(Exception):
    """Not a valid question; the message names the parameter."""


def _number(least: float = 0.001) -> forms.FloatField:
    return forms.FloatField(required=False, min_value=least, max_value=REQUIRED_MAXIMUM)


class QuestionForm(forms.Form):
    """What is required, what may vary, and which measurements count."""

    iops = _number()
    mb_per_s = _number()
    p99_ms = _number()
    capacity_gb = _number()
    max_price = _number(0)
    pattern = forms.ChoiceField(required=False, choices=tuple(PATTERNS.items()), initial="randread")
    read_share = forms.IntegerField(required=False, min_value=0, max_value=100)
    block_size = forms.CharField(required=False, max_length=40)
    region = forms.CharField(required=False, max_length=60)
    price_of = forms.ChoiceField(required=False, choices=tuple(PRICED_PARTS.items()))
    max_age_days = forms.IntegerField(required=False, min_value=1, max_value=AGE_MAXIMUM_DAYS)
    q = forms.CharField(required=False, max_length=LENGTH_MAXIMUM)
    vary = forms.MultipleChoiceField(
        required=False,
        choices=VARYING_CHOICES,
        initial=VARYING,
    )

    def __init__(self, query: QueryDict | None, **options: Any) -> None:
        self.is_region_chosen = query is not None and "region" in query
        if query is not None:
            query = query.copy()
            # As in the API: separated by commas; without any of them all may vary.
            names = [name.strip() for text in query.getlist("vary") for name in text.split(",")]
            query.setlist("vary", list(filter(None, names)) or list(VARYING))
        super().__init__(query, **options)

    def clean_block_size(self) -> str:
        """Check that the filter language reads it."""
        text = str(self.cleaned_data["block_size"])
        try:
            if text:
                parse_term("block_size_bytes", text)
        except BadFilter as problem:
            raise forms.ValidationError(f"{problem}.") from problem
        return text

    def clean_q(self) -> Filter:
        """Parse the filter."""
        try:
            return follow_names(parse_filter(self.cleaned_data["q"]))
        except BadFilter as problem:
            raise forms.ValidationError(f"{problem}.") from problem

    def make_question(self) -> LayoutQuestion:
        """Return the question of a valid form."""
        given = {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
        if self.is_region_chosen:
            # Prices without a region have the empty name.
            given["region"] = self.cleaned_data["region"]
        filter, vary = given.pop("q"), tuple(given.pop("vary"))
        return LayoutQuestion(**given, filter=filter, vary=vary)


def read_question(query: QueryDict) -> LayoutQuestion:
    """Return the question of a query string. Raises BadQuestion; whether the region has prices is not checked."""
    form = QuestionForm(query)
    if not form.is_valid():
        name, (problem, *_) = next(iter(form.errors.items()))
        raise BadQuestion(f"{name}: {str(problem).rstrip('.')}")
    question = form.make_question()
    if not question.has_throughput:
        raise BadQuestion("iops: state iops or mb_per_s")
    try:
        question.make_filter()
    except BadFilter as problem:
        # Its terms and those of the question together are too many.
        raise BadQuestion(f"q: {problem}") from problem
    return question


def check_question(query: str) -> None:
    """Raise BadQuestion unless a query string is a question that can be answered today."""
    question = read_question(QueryDict(query))
    try:
        find_region(list_prices(), question.region, day=timezone.now().date())
    except UnknownRegion as problem:
        raise BadQuestion(f"region: {problem}") from problem


def canonicalize_question(text: str) -> str:
    """Return a question as its query string without defaults; also of an address of the page. Raises BadQuestion."""
    address, _, query = text.strip().rpartition("?")
    if address and not address.rstrip("/").endswith("/layouts"):
        raise BadQuestion("not an address of Choose a layout, as /layouts/?iops=20000")
    if len(query) > QUERY_MAXIMUM:
        raise BadQuestion(f"more than {QUERY_MAXIMUM} characters")
    try:
        written = write_layout_query(read_question(QueryDict(query)))
    except (TooManyFieldsSent, UnicodeError) as problem:
        raise BadQuestion("not a query string of Choose a layout") from problem
    if len(written) > QUERY_MAXIMUM:
        raise BadQuestion(f"more than {QUERY_MAXIMUM} characters")
    return written


def write_layout_query(question: LayoutQuestion) -> str:
    """Return the query string of a question for page and API, without what is the default."""
    return urlencode(
        {
            "q" if field.name == "filter" else field.name: _write_value(value)
            for field in fields(question)
            if (value := getattr(question, field.name)) != field.default and value != Filter()
        },
        safe=_SAFE,
    )


def _write_value(value: Filter | tuple[str, ...] | float | str) -> str:
    if isinstance(value, Filter):
        return write_filter(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
