"""Prices of volume types and instance types."""

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Annotated, Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta, structs
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.framework.api.answers import ApiAnswer, Time, build, list_columns
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import FormatParameters, read_parameters, refuse_parameters
from benchapp.framework.api.permissions import MayEdit, MayReadOrEdit, find_person
from benchapp.framework.api.problems import ErrorProblems, bad_value, map_errors, not_found
from benchapp.framework.api.responses import answer_json, answer_lines
from benchapp.framework.api.view import ApiView, JsonParser, read_body
from benchapp.layouts.read.prices import ListedPrice, list_prices
from benchapp.layouts.write.price_csv import (
    AMOUNT_MAXIMUM,
    BadPrices,
    PriceRow,
    read_price_rows,
    read_price_table,
    write_amount,
)
from benchapp.layouts.write.prices import PRICES_MAXIMUM, UnknownPrice, add_prices, remove_price
from benchapp.models import PRICE_AMOUNTS

_PROBLEMS: Final[ErrorProblems] = {
    UnknownPrice: partial(not_found, "price"),
    BadPrices: lambda error: bad_value("; ".join(map(str, error.faults))),
}


class PriceAnswer(ApiAnswer, kw_only=True, frozen=True):
    volume_type: Annotated[str, Meta(description="empty for an instance type")]
    instance_type: Annotated[str, Meta(description="empty for a volume type")]
    region: str
    currency: Annotated[str, Meta(description="ISO 4217")]
    valid_from: Annotated[date, Meta(description="first day")]
    per_gib_month: float
    per_iops_month: Annotated[float, Meta(description="of provisioned IOPS beyond included_iops")]
    included_iops: Annotated[float, Meta(description="of each volume")]
    per_mib_s_month: Annotated[float, Meta(description="of provisioned MiB/s beyond included_mib_s")]
    included_mib_s: Annotated[float, Meta(description="of each volume")]
    per_hour: Annotated[float, Meta(description="of an instance")]
    id: int
    valid_until: Annotated[
        date | None, Meta(description="first day of the next price of the type and region, exclusive")
    ]
    created_by: str | None
    created_at: Time


_PRICE_COLUMNS: Final = list_columns(PriceAnswer)


class PricesAnswer(ApiAnswer, kw_only=True, frozen=True):
    prices: Sequence[PriceAnswer]


class PriceCountsAnswer(ApiAnswer, kw_only=True, frozen=True):
    added: int
    replaced: Annotated[int, Meta(description="prices of the same type, region and first day that differed")]
    unchanged: int


class PriceInput(serializers.Serializer[Any]):
    """One price: either volume_type or instance_type; amounts that are missing are 0."""

    volume_type = serializers.CharField(required=False, allow_blank=True, default="")
    instance_type = serializers.CharField(required=False, allow_blank=True, default="")
    region = serializers.CharField(required=False, allow_blank=True, default="")
    currency = serializers.CharField(help_text="ISO 4217")
    valid_from = serializers.DateField(help_text="first day")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the amounts."""
        amount: dict[str, Any] = {
            "required": False,
            "default": 0.0,
            "min_value": 0,
            "max_value": AMOUNT_MAXIMUM,
        }
        return super().get_fields() | {name: serializers.FloatField(**amount) for name in PRICE_AMOUNTS}


class PricesInput(serializers.Serializer[Any]):
    """Prices to add."""

    prices = serializers.ListField(child=PriceInput(), max_length=PRICES_MAXIMUM)


class CsvParser(BaseParser):
    """A CSV as text."""

    media_type = "text/csv"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        """Return the text; ParseError if it is not UTF-8."""
        try:
            return str(stream.read(), "utf-8")
        except UnicodeDecodeError as error:
            raise ParseError(f"the body is not UTF-8: {error}") from error


class Prices(ApiView):
    """All prices."""

    permission_classes = [MayReadOrEdit]
    parser_classes = [CsvParser, JsonParser]

    @extend_schema(
        operation_id="list_prices",
        parameters=[FormatParameters],
        responses=in_formats(PricesAnswer, "the rows only; PUT accepts the CSV"),
    )
    def get(self, request: Request) -> HttpResponse:
        """List all prices, also earlier and future ones, by region, type and first day."""
        format = read_parameters(request, FormatParameters)["format"]
        rows = [_describe_price(price) for price in list_prices()]
        if format == "json":
            return answer_json(request, PricesAnswer(prices=rows))
        if format == "csv":
            rows = [_write_amounts(row) for row in rows]
        return answer_lines(request, rows, columns=_PRICE_COLUMNS, format=format, file_name="prices")

    @extend_schema(
        operation_id="put_prices",
        # Generators of clients do not know text/csv, which the description names.
        request={"application/json": PricesInput},
        responses=PriceCountsAnswer,
    )
    def put(self, request: Request) -> HttpResponse:
        """Add prices, as JSON or, with `Content-Type: text/csv`, as CSV: all or none.

        A price with the type, region and first day of a stored one replaces it; others remain.
        """
        refuse_parameters(request)
        with map_errors(_PROBLEMS):
            counts = add_prices(_read_rows(request), by=find_person(request))
        return answer_json(request, build(PriceCountsAnswer, counts))


class OnePrice(ApiView):
    """One price."""

    permission_classes = [MayEdit]

    @extend_schema(operation_id="delete_price", responses={204: None})
    def delete(self, request: Request, price_id: int) -> Response:
        """Delete a price; for a day, the page of prices can restore it."""
        refuse_parameters(request)
        with map_errors(_PROBLEMS):
            remove_price(price_id, by=find_person(request))
        return Response(status=204)


def _read_rows(request: Request) -> list[PriceRow]:
    if isinstance(request.data, str):
        return read_price_table(request.data)
    return read_price_rows(
        {
            name: write_amount(round(value, 12)) if isinstance(value, float) else str(value)
            for name, value in row.items()
        }
        for row in read_body(request, PricesInput)["prices"]
    )


def _describe_price(price: ListedPrice) -> PriceAnswer:
    return build(PriceAnswer, price, price.amounts, created_by=price.created_by_name or None)


def _write_amounts(row: PriceAnswer) -> PriceAnswer:
    """Return a row of the CSV: its amounts are text that PUT reads."""
    return structs.replace(row, **{name: write_amount(getattr(row, name)) for name in PRICE_AMOUNTS})
