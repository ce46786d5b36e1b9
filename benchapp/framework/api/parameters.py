"""Query parameters: typed, bounded; an unknown one is rejected with a list of the valid ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, NoReturn
from urllib.parse import unquote, unquote_to_bytes

from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from msgspec import Meta
from rest_framework import serializers
from rest_framework.fields import SkipField, empty
from rest_framework.request import Request

from benchapp.catalog.dimensions import FILTER_DIMENSIONS, Dimension, list_examples
from benchapp.catalog.grammar import BadFilter, Filter, Term, parse_filter, parse_term
from benchapp.charts.read.chart import Option
from benchapp.framework.api.problems import Problem, answer_problem, bad_parameter
from benchapp.framework.read.days import DAYS_MAXIMUM, MOMENTS, BadDays, make_day_range, parse_moment
from benchapp.models.filtering import follow_names
from benchapp.series.read.shapes import BADGE_CODES

LIMIT_DEFAULT: Final = 100
LIMIT_MAXIMUM: Final = 1000
INTEGER_MAXIMUM: Final = 2**31 - 1
_ID_MAXIMUM: Final = 2**63 - 1
FORMATS: Final = ("json", "csv", "ndjson")


# Stands before the examples in the description of a term; the OpenAPI document takes the first.
TERM_EXAMPLES: Final = "; a term of `q`: "


class NamesField(serializers.CharField):
    """A comma-separated selection from a list of names."""

    def __init__(self, allowed: Sequence[str], **options: Any) -> None:
        self.allowed = tuple(allowed)
        super().__init__(required=False, max_length=2000, **options)
        self.help_text = f"{self.help_text}. Valid values: {', '.join(allowed)}"

    def to_internal_value(self, data: Any) -> tuple[str, ...]:  # type: ignore[override]
        """Return the names in the given order, without duplicates."""
        names = tuple(dict.fromkeys(part.strip() for part in super().to_internal_value(data).split(",")))
        for name in names:
            if not self.check_name(name):
                raise serializers.ValidationError(
                    f"{name[:80]!r} is not a valid value. Valid values: {', '.join(self.allowed)}"
                )
        return names

    def check_name(self, name: str) -> bool:
        """Return whether a name is valid."""
        return name in self.allowed


class ChoiceParameter(serializers.ChoiceField):
    """One of a few values; the error lists them."""

    default_error_messages = {"invalid_choice": "{input!r} is not a valid value. Valid values: {choices}"}

    def fail(self, key: str, **values: Any) -> NoReturn:
        """Raise ValidationError; the value is cut."""
        if key == "invalid_choice":
            values = {"input": str(values["input"])[:80], "choices": ", ".join(map(str, self.choices))}
        super().fail(key, **values)


def time_order_parameter(field: str) -> ChoiceParameter:
    """Return the parameter `sort` of a list by a time, the newest first by default."""
    return ChoiceParameter(choices=(f"-{field}", field), required=False, default=f"-{field}")


def take_oldest_first(wanted: dict[str, Any]) -> bool:
    """Remove `sort` from the parameters; return whether the oldest come first."""
    return not wanted.pop("sort").startswith("-")


@extend_schema_field({"type": "string"})
class MomentField(serializers.Field[datetime, Any, datetime, Any]):
    """A time: ISO 8601, s or ms since 1970, or relative to now."""

    def to_internal_value(self, data: Any) -> datetime:
        """Return the time in UTC."""
        try:
            return parse_moment(str(data)[:100], now=timezone.now())
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error

    def to_representation(self, value: datetime) -> datetime:
        """Return the time itself."""
        return value


class IdsField(serializers.CharField):
    """Ids, separated by commas, at most `maximum`."""

    def __init__(self, maximum: int, **options: Any) -> None:
        self.maximum = maximum
        super().__init__(required=False, max_length=20 * maximum, **options)

    def to_internal_value(self, data: Any) -> tuple[int, ...]:  # type: ignore[override]
        """Return the ids in the given order, each once."""
        parts = [part.strip() for part in super().to_internal_value(data).split(",")]
        for part in parts:
            # The length first: Python refuses to read thousands of digits.
            if not (part.isascii() and part.isdigit() and len(part) <= 19 and int(part) <= _ID_MAXIMUM):
                raise serializers.ValidationError(
                    f"{part[:40]!r} is not a valid id; separate ids by commas: 1,2,3"
                )
        ids = tuple(dict.fromkeys(map(int, parts)))
        if len(ids) > self.maximum:
            raise serializers.ValidationError(f"{len(ids)} ids exceed the maximum of {self.maximum}")
        return ids


class FilterField(serializers.CharField):
    """A filter expression; without one nothing is filtered out."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, default="", allow_blank=True, **options)
        self.help_text = "filter: host:db-* volume_type:gp3,io2 iodepth:>=8 -fs:xfs words (docs/filters.md)"

    def run_validation(self, data: Any = empty) -> Filter:
        """Return the filter; without a value, an empty one."""
        value = super().run_validation(data)
        return value if isinstance(value, Filter) else Filter()

    def to_internal_value(self, data: Any) -> Filter:  # type: ignore[override]
        """Parse the filter expression."""
        try:
            return follow_names(parse_filter(super().to_internal_value(data)))
        except BadFilter as problem:
            raise serializers.ValidationError(str(problem)) from problem


class TermField(serializers.CharField):
    """The values of a dimension: `volume_type=gp3` is the term volume_type:gp3 of `q`."""

    def __init__(self, dimension: Dimension) -> None:
        super().__init__(required=False, allow_blank=True)
        self.dimension = dimension
        self.help_text = f"{dimension.label}{TERM_EXAMPLES}{', '.join(list_examples(dimension))}"

    def run_validation(self, data: Any = empty) -> Any:
        """Return the term; a blank value is read too, as it is none of a term."""
        is_blank = isinstance(data, str) and not data.strip()
        return self.to_internal_value(data) if is_blank else super().run_validation(data)

    def to_internal_value(self, data: Any) -> Term:  # type: ignore[override]
        """Parse the values as those of the term."""
        try:
            return parse_term(self.dimension.name, super().to_internal_value(data))
        except BadFilter as problem:
            raise serializers.ValidationError(str(problem)) from problem


class BlockSizeField(serializers.CharField):
    """Block sizes as the values of a term: the text itself, which a term can be made of."""

    def __init__(self) -> None:
        super().__init__(required=False, max_length=40, help_text="4k; default: the most usual")

    def to_internal_value(self, data: Any) -> str:
        """Check that the filter language reads it."""
        text = super().to_internal_value(data)
        try:
            parse_term("block_size_bytes", text)
        except BadFilter as problem:
            raise serializers.ValidationError(str(problem)) from problem
        return text


class Parameters(serializers.Serializer[Any]):
    """The query parameters of one view; every field is optional.

    columns: valid values of `fields`. repeatable: names of parameters that may occur several times, as lists.
    """

    columns: tuple[str, ...] = ()
    repeatable: tuple[str, ...] = ()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add `fields`, which cannot be declared: a serializer has an attribute with that name."""
        chosen = NamesField(
            self.columns, source="columns", help_text="columns, separated by commas; default: all"
        )
        return super().get_fields() | ({"fields": chosen} if self.columns else {})


class FilterParameters(Parameters):
    """`q`, and a parameter for each dimension, which is one of its terms; all must match. Their result is `match`."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add `q` and the dimensions."""
        terms = {name: TermField(each) for name, each in FILTER_DIMENSIONS.items()}
        return {"q": FilterField(), **terms, **super().get_fields()}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Join all terms into one filter."""
        filter = attrs.pop("q")
        terms = tuple(attrs.pop(name) for name in FILTER_DIMENSIONS if name in attrs)
        try:
            match = filter.with_terms(follow_names(Filter(terms)).terms)
        except BadFilter as problem:
            raise serializers.ValidationError({"q": str(problem)}) from problem
        return super().validate({**attrs, "match": match})  # type: ignore[no-any-return]


class FormatParameters(Parameters):
    """The output format."""

    format = ChoiceParameter(choices=FORMATS, required=False, default="json")


class PositionParameters(Parameters):
    """The offset of a part of a list that belongs to one object."""

    position = serializers.IntegerField(
        required=False,
        default=0,
        min_value=0,
        max_value=INTEGER_MAXIMUM,
        help_text="offset of the first, from 0",
    )


class PageParameters(FormatParameters):
    """Cursor and size of a page of a list; CSV and NDJSON have all rows unless `limit` is given."""

    cursor = serializers.CharField(
        required=False, max_length=300, help_text="`next_cursor` of the previous page"
    )
    limit = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=LIMIT_MAXIMUM,
        help_text=f"rows per page; default: {LIMIT_DEFAULT}, in CSV and NDJSON all rows",
    )


class SpanParameters(Parameters):
    """A time range: from is inclusive, to exclusive."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add `from` and `to`; `from` is a keyword of Python."""
        return super().get_fields() | {
            "from": MomentField(source="from_at", required=False, help_text=f"inclusive: {MOMENTS}"),
            "to": MomentField(source="to_at", required=False, help_text="exclusive, as `from`"),
        }

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse a range in which nothing can be."""
        from_at, to_at = attrs.get("from_at"), attrs.get("to_at")
        if from_at is not None and to_at is not None and from_at >= to_at:
            raise serializers.ValidationError({"from": "must be before to"})
        return super().validate(attrs)  # type: ignore[no-any-return]


class DaysParameters(SpanParameters):
    """The time range of a chart with a value for each day, as `days`. usual_days: without `from`."""

    usual_days: int

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """State the usual and the largest number of days."""
        fields = super().get_fields()
        usual = f"default: {self.usual_days} days before `to`; at most {DAYS_MAXIMUM} days"
        for name, text in (("from", usual), ("to", "default: now")):
            fields[name].help_text = f"{fields[name].help_text}; {text}"
        return fields

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Add the days of the range."""
        attrs = super().validate(attrs)
        try:
            days = make_day_range(
                attrs.get("from_at"), attrs.get("to_at"), now=timezone.now(), usual=self.usual_days
            )
        except BadDays as problem:
            raise serializers.ValidationError({problem.bound: str(problem)}) from problem
        return {**attrs, "days": days}


def text_parameter(maximum: int, **options: Any) -> serializers.CharField:
    """Return a field for short text."""
    return serializers.CharField(required=False, max_length=maximum, **options)


def flag_parameter(**options: Any) -> serializers.BooleanField:
    """Return a field for a Boolean; None without a value."""
    return serializers.BooleanField(required=False, allow_null=True, default=None, **options)


def make_option_field(option: Option) -> serializers.Field[Any, Any, Any, Any]:
    """Return the field of an option of a chart; its value is that of the address, for `read_option`."""
    named: dict[str, Any] = {"required": False, "help_text": option.help}
    match option.kind:
        case "texts":
            child = serializers.CharField(max_length=option.length)
            return serializers.ListField(child=child, max_length=option.count, **named)
        case "choice" | "flag":
            return ChoiceParameter(choices=option.choices or ("1",), **named)
        case "number":
            return serializers.IntegerField(min_value=1, max_value=option.maximum, **named)
    return serializers.CharField(max_length=option.length, **named)


def read_option(option: Option, values: Mapping[str, Any]) -> Any:
    """Return the value of an option that validated parameters have. Raises Problem."""
    given = values[option.parameter]
    try:
        return option.read(given if isinstance(given, list) else [str(given)])
    except ValueError as error:
        raise bad_parameter(option.parameter, error) from error


def badge_parameter(help_text: str) -> NamesField:
    """Return a field for badge codes."""
    return NamesField(BADGE_CODES, source="badges", help_text=help_text)


def refuse_undecodable(query: str) -> None:
    """Raise Problem 400 for a query whose percent-encoding is not UTF-8; decoding it would insert U+FFFD."""
    for pair in query.split("&") if "%" in query else ():
        name = unquote(pair.partition("=")[0].replace("+", " "))[:80]
        try:
            unquote_to_bytes(pair).decode()
        except UnicodeDecodeError:
            # repr: the name may have control characters.
            detail = f"parameter {name!r} is not valid UTF-8; percent-encode its UTF-8 bytes"
            raise Problem(400, "parameter-invalid", "Bad query parameter", detail, pointer=name) from None


def check_query(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Reject a query string that is not UTF-8, for every URL."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        try:
            refuse_undecodable(request.META.get("QUERY_STRING", ""))
        except Problem as problem:
            if request.path.startswith("/api/"):
                return answer_problem(problem)
            raise BadRequest(problem.detail) from None
        return get_response(request)

    return answer


def read_parameters(request: Request, kind: type[Parameters]) -> dict[str, Any]:
    """Return the validated parameters by source name, with defaults; Problem 400 if one is not valid."""
    known = _describe(kind)
    given = _read_once(request, known.names, kind.repeatable)
    values: dict[str, Any] = {}
    for name, field in known.fields.items():
        if name not in given and name not in known.always:
            continue
        try:
            values[field.source or name] = field.run_validation(given.get(name, empty))
        except serializers.ValidationError as error:
            raise _refuse(name, error.detail) from error
    try:
        return known.serializer.validate(values)  # type: ignore[no-any-return]
    except serializers.ValidationError as error:
        name, detail = next(iter(serializers.as_serializer_error(error).items()))
        raise _refuse(name, detail) from error


def refuse_parameters(request: Request) -> None:
    """Reject every query parameter, for a view without parameters."""
    _read_once(request, ())


@dataclass(frozen=True, slots=True)
class _KnownParameters:
    """Parameters of a view. names: sorted; always: names of those that have a value without being given."""

    serializer: Parameters
    fields: Mapping[str, serializers.Field[Any, Any, Any, Any]]
    names: tuple[str, ...]
    always: frozenset[str]


@cache
def _describe(kind: type[Parameters]) -> _KnownParameters:
    """Return the parameters of a view. Cached: a serializer copies all its fields, up to 60, for each request."""
    serializer = kind()
    fields = dict(serializer.fields)
    always = frozenset(name for name, field in fields.items() if not _is_skipped(field))
    return _KnownParameters(serializer, fields, tuple(sorted(fields)), always)


def _is_skipped(field: serializers.Field[Any, Any, Any, Any]) -> bool:
    """Return whether a parameter that is not given has no value."""
    try:
        field.run_validation(empty)
    except SkipField:
        return True
    except serializers.ValidationError:
        # It is required.
        return False
    return False


def _refuse(name: str, detail: Any) -> Problem:
    first = detail[0] if isinstance(detail, list) else detail
    return bad_parameter(name, first)


def _read_once(
    request: Request, valid: Sequence[str], repeatable: Sequence[str] = ()
) -> dict[str, str | list[str]]:
    given: dict[str, str | list[str]] = {}
    for name, values in request.query_params.lists():
        if name not in valid:
            valid_names = (
                f"Valid parameters: {', '.join(valid)}" if valid else "This resource has no parameters"
            )
            raise Problem(
                400,
                "parameter-unknown",
                "Unknown query parameter",
                f"unknown parameter {name[:80]!r}. {valid_names}",
                pointer=name[:80],
                valid=valid,
            )
        if name in repeatable:
            given[name] = values
            continue
        if len(values) > 1:
            raise Problem(
                400,
                "parameter-repeated",
                "Repeated query parameter",
                f"parameter {name!r} occurs {len(values)} times; only one value is allowed",
                pointer=name,
            )
        given[name] = values[0]
    return given


SETTINGS: Final = Meta(
    description="its values of the fixed dimensions, and of the dimensions in which combinations differ, as a filter"
)


class FixParameters(Parameters):
    """Whether dimensions may be fixed."""

    fix = ChoiceParameter(
        choices=("auto", "none"),
        required=False,
        default="auto",
        help_text="none: no dimension is fixed; if one would be, the answer is 400 and names it",
    )


def check_fix(fix: str, dimensions: Sequence[str]) -> None:
    """Raise Problem 400 for fix=none where dimensions are fixed."""
    if fix == "none" and dimensions:
        names = ", ".join(dimensions)
        raise bad_parameter("fix", f"combinations have several values of {names}; filter each by one value")
