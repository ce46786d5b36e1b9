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

from benchapp.framework.api.answers import ApiAnswer, Time, build, define_answer, list_columns, with_columns
from benchapp.framework.api.list_entries import list_given
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import FormatParameters, read_parameters, refuse_parameters
from benchapp.framework.api.permissions import MayEdit, MayReadOrEdit, find_person
from benchapp.framework.api.problems import ErrorProblems, bad_value, map_errors, not_found
from benchapp.framework.api.responses import answer_json, answer_lines
from benchapp.framework.api.view import ApiView, JsonParser, read_body
from benchapp.layouts.read.prices import list_prices
from benchapp.layouts.write import (
    AMOUNT_MAXIMUM,
    PRICES_MAXIMUM,
    BadPrices,
    PriceCounts,
    UnknownPrice,
    add_prices,
    read_price_rows,
    read_price_table,
    remove_price,
    write_cell,
)
from benchapp.models import PRICE_AMOUNTS, Price

_PROBLEMS: Final[ErrorProblems] = {
    UnknownPrice: partial(not_found, "price"),
    BadPrices: lambda error: bad_value("; ".join(map(str, error.faults))),
}
_AMOUNTS_HELP: Final = {
    "per_iops_month": "of provisioned IOPS beyond included_iops",
    "included_iops": "of each volume",
    "per_mib_s_month": "of provisioned MiB/s beyond included_mib_s",
    "included_mib_s": "of each volume",
    "per_hour": "of an instance",
}


class PriceInput(serializers.ModelSerializer[Any]):
    """One price: either volume_type or instance_type; amounts that are missing are 0."""

    class Meta:
        model = Price
        fields = Price.given
        # `read_price_rows` names row and column of what is too long, or there twice.
        validators = ()
        extra_kwargs: Final[dict[str, dict[str, Any]]] = {
            "volume_type": {"help_text": "empty for an instance type", "default": "", "max_length": None},
            "instance_type": {"help_text": "empty for a volume type", "default": "", "max_length": None},
            "region": {"default": "", "max_length": None},
            "currency": {"help_text": "ISO 4217", "max_length": None},
            "valid_from": {"help_text": "first day"},
            **{
                name: {
                    "help_text": _AMOUNTS_HELP.get(name, ""),
                    "default": 0.0,
                    "min_value": 0,
                    "max_value": AMOUNT_MAXIMUM,
                }
                for name in PRICE_AMOUNTS
            },
        }


@with_columns(list_given(PriceInput))
class PriceAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    valid_until: Annotated[
        date | None, Meta(description="first day of the next price of the type and region, exclusive")
    ]
    created_by: str | None
    created_at: Time


PricesAnswer = define_answer("PricesAnswer", prices=Sequence[PriceAnswer])


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
        answer_format = read_parameters(request, FormatParameters)["format"]
        rows = [
            build(PriceAnswer, price, created_by=price.created_by_name or None)
            for price in list_prices(has_people=True)
        ]
        if answer_format == "json":
            return answer_json(request, PricesAnswer(prices=rows))
        if answer_format == "csv":
            rows = [_write_amounts(row) for row in rows]
        return answer_lines(
            request, rows, columns=list_columns(PriceAnswer), answer_format=answer_format, file_name="prices"
        )

    @extend_schema(
        operation_id="put_prices",
        # Generators of clients do not know text/csv, which the description names.
        request={"application/json": PricesInput},
        responses=PriceCounts,
    )
    def put(self, request: Request) -> HttpResponse:
        """Add prices, as JSON or, with `Content-Type: text/csv`, as CSV: all or none.

        A price with the type, region and first day of a stored one replaces it; others remain.
        """
        refuse_parameters(request)
        with map_errors(_PROBLEMS):
            counts = add_prices(_read_rows(request), by=find_person(request))
        return answer_json(request, counts)


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


def _read_rows(request: Request) -> list[Price]:
    if isinstance(request.data, str):
        return read_price_table(request.data)
    return read_price_rows(
        {
            name: write_cell(round(value, 12) if isinstance(value, float) else value)
            for name, value in row.items()
        }
        for row in read_body(request, PricesInput)["prices"]
    )


def _write_amounts(row: PriceAnswer) -> PriceAnswer:
    """Return a row of the CSV: its amounts are text that PUT reads."""
    return structs.replace(row, **{name: write_cell(getattr(row, name)) for name in PRICE_AMOUNTS})
