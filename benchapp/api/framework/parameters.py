"""Query parameters: typed, bounded, and refused with a list of the valid ones where unknown."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final
from urllib.parse import unquote, unquote_to_bytes

from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_only_middleware
from rest_framework import serializers
from rest_framework.fields import empty
from rest_framework.request import Request

from benchapp.api.framework.problems import Problem, answer_problem
from benchapp.grammar import BadFilter, Filter, parse_filter
from benchapp.queries.badges import BADGE_CODES

LIMIT_DEFAULT: Final = 100
LIMIT_MAXIMUM: Final = 1000
_INTEGER_MAXIMUM: Final = 2**31 - 1
_SIZE_MAXIMUM: Final = 2**62
FORMATS: Final = ("json", "csv", "ndjson")


class NamesField(serializers.CharField):
    """Some of a list of names, separated by commas."""

    def __init__(self, allowed: Sequence[str], **options: Any) -> None:
        self.allowed = tuple(allowed)
        super().__init__(required=False, max_length=2000, **options)
        self.help_text = f"{self.help_text}; there are: {', '.join(allowed)}"

    def to_internal_value(self, data: Any) -> tuple[str, ...]:  # type: ignore[override]
        """Return the names in the order asked for, each once."""
        names = tuple(dict.fromkeys(part.strip() for part in super().to_internal_value(data).split(",")))
        for name in names:
            if name not in self.allowed:
                raise serializers.ValidationError(f"{name[:80]!r} is none of: {', '.join(self.allowed)}")
        return names


class FilterField(serializers.CharField):
    """A filter of the bar's language; none leaves out nothing."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, default="", allow_blank=True, **options)
        self.help_text = "filter: host:db-* volume_type:gp3,io2 iodepth:>=8 -fs:xfs words (docs/filters.md)"

    def run_validation(self, data: Any = empty) -> Filter:
        """Return the filter, an empty one where none is given."""
        value = super().run_validation(data)
        return value if isinstance(value, Filter) else Filter()

    def to_internal_value(self, data: Any) -> Filter:  # type: ignore[override]
        """Return the filter of a text."""
        try:
            return parse_filter(super().to_internal_value(data))
        except BadFilter as problem:
            raise serializers.ValidationError(str(problem)) from problem


class Parameters(serializers.Serializer[Any]):
    """The query parameters of one view; every field is optional. columns: what `fields` may choose from.

    repeatable: names of parameters that may be given several times, as lists.
    """

    columns: tuple[str, ...] = ()
    repeatable: tuple[str, ...] = ()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add `fields`, which cannot be declared: a serializer has an attribute of that name."""
        chosen = NamesField(
            self.columns, source="columns", help_text="columns, separated by commas; default: all"
        )
        return super().get_fields() | ({"fields": chosen} if self.columns else {})


class PageParameters(Parameters):
    """Where a page of a list begins, and how long it is."""

    cursor = serializers.CharField(
        required=False, max_length=300, help_text="`next_cursor` of the page before"
    )
    limit = serializers.IntegerField(
        required=False,
        default=LIMIT_DEFAULT,
        min_value=1,
        max_value=LIMIT_MAXIMUM,
        help_text="rows of a page",
    )


class SpanParameters(Parameters):
    """A span of time: from is inclusive, to exclusive."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the two whose names are no names in Python."""
        return super().get_fields() | {
            "from": serializers.DateTimeField(
                source="from_at",
                required=False,
                help_text="RFC 3339, inclusive: 2026-11-21T10:00:00Z or 2026-11-21",
            ),
            "to": serializers.DateTimeField(source="to_at", required=False, help_text="RFC 3339, exclusive"),
        }


class FormatParameters(Parameters):
    """How rows are written."""

    format = serializers.ChoiceField(choices=FORMATS, required=False, default="json")


def text_parameter(maximum: int, **options: Any) -> serializers.CharField:
    """Return a field for short text."""
    return serializers.CharField(required=False, max_length=maximum, **options)


def count_parameter() -> serializers.IntegerField:
    """Return a field for a whole number that a column of four bytes holds."""
    return serializers.IntegerField(required=False, min_value=0, max_value=_INTEGER_MAXIMUM)


def size_parameter() -> serializers.IntegerField:
    """Return a field for bytes."""
    return serializers.IntegerField(required=False, min_value=0, max_value=_SIZE_MAXIMUM, help_text="bytes")


def flag_parameter(**options: Any) -> serializers.BooleanField:
    """Return a field for yes or no; left out is neither."""
    return serializers.BooleanField(required=False, allow_null=True, default=None, **options)


def badge_parameter(help_text: str) -> NamesField:
    """Return a field for codes of badges."""
    return NamesField(BADGE_CODES, source="badges", help_text=help_text)


def refuse_undecodable(query: str) -> None:
    """Raise Problem 400 for a query whose percent-encoding is not UTF-8: whoever decodes it would put U+FFFD there."""
    for pair in query.split("&") if "%" in query else ():
        name = unquote(pair.partition("=")[0].replace("+", " "))[:80]
        try:
            unquote_to_bytes(pair).decode()
        except UnicodeDecodeError:
            detail = f"parameter {name!r} is not UTF-8: percent-encode the bytes of UTF-8"
            raise Problem(400, "parameter-invalid", "Bad query parameter", detail, pointer=name) from None


@sync_only_middleware
def check_query(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Refuse a query that is not UTF-8, on every address."""

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
    """Return the checked parameters by their fields' sources, defaults filled in; Problem 400 for what is wrong."""
    serializer = kind(data=_read_once(request, _list_names(kind), kind.repeatable))
    if not serializer.is_valid():
        name, errors = next(iter(serializer.errors.items()))
        first = errors[0] if isinstance(errors, list) else errors
        raise Problem(400, "parameter-invalid", "Bad query parameter", f"{name}: {first}", pointer=str(name))
    return dict(serializer.validated_data)


def refuse_parameters(request: Request) -> None:
    """Refuse every query parameter, for a view that takes none."""
    _read_once(request, ())


@cache
def _list_names(kind: type[Parameters]) -> tuple[str, ...]:
    # Once: making a serializer copies all its fields, which is half a millisecond.
    return tuple(sorted(kind().fields))


def _read_once(
    request: Request, valid: Sequence[str], repeatable: Sequence[str] = ()
) -> dict[str, str | list[str]]:
    given: dict[str, str | list[str]] = {}
    for name, values in request.query_params.lists():
        if name not in valid:
            there_are = f"there are: {', '.join(valid)}" if valid else "there are none here"
            raise Problem(
                400,
                "parameter-unknown",
                "Unknown query parameter",
                f"parameter {name[:80]!r} is unknown; {there_are}",
                pointer=name[:80],
                extra={"valid": list(valid)},
            )
        if name in repeatable:
            given[name] = values
            continue
        if len(values) > 1:
            raise Problem(
                400,
                "parameter-repeated",
                "Query parameter given twice",
                f"parameter {name!r} is given {len(values)} times",
                pointer=name,
            )
        given[name] = values[0]
    return given
