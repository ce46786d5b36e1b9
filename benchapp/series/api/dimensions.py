"""Dimensions and their values: what filters are made of.

What the answers about dimensions hold.
"""

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.dimensions import (
    ALIASES,
    FILTER_DIMENSIONS,
    LABEL_PREFIX,
    Dimension,
    DimensionGroup,
    DimensionKind,
    find_filter_dimension,
    list_examples,
)
from benchapp.catalog.grammar import write_filter, write_value
from benchapp.framework.api.answers import ApiAnswer, build
from benchapp.framework.api.parameters import FilterParameters, read_parameters, refuse_parameters
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.problems import not_found
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.shapes import PREFIX
from benchapp.framework.api.view import ApiView
from benchapp.series.read.dimension_values import list_label_names, read_facet
from benchapp.series.read.titles import describe_value


class DimensionValueParameters(FilterParameters):
    """Selection of values."""

    prefix = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        trim_whitespace=False,
        max_length=500,
        help_text="prefix of the value",
    )
    limit = serializers.IntegerField(
        required=False,
        default=20,
        min_value=1,
        max_value=200,
        help_text="number of values, most frequent first",
    )


class DimensionAnswer(ApiAnswer, kw_only=True, frozen=True):
    name: str
    label: str
    kind: DimensionKind
    group: Annotated[
        DimensionGroup, Meta(description="environment, run: a fact of runs, not a property of series")
    ]
    short: Annotated[str, Meta(description="shortest name in the filter language")]
    aliases: Annotated[Sequence[str], Meta(description="other names in the filter language")]
    examples: Annotated[Sequence[str], Meta(description="terms in the filter language")]
    values: Annotated[str, Meta(description="URL of its values")]


class DimensionList(ApiAnswer, kw_only=True, frozen=True):
    dimensions: Sequence[DimensionAnswer]


class DimensionValueAnswer(ApiAnswer, kw_only=True, frozen=True):
    value: Annotated[Any, Meta(description="text, number or boolean; null is unknown")]
    text: Annotated[str, Meta(description="the value in the filter language")]
    label: str
    series: Annotated[
        int | None,
        Meta(description="series with this value that match the rest of the filter; null of the group run"),
    ]
    runs: Annotated[
        int | None,
        Meta(description="of the group run: runs with this value among the newest 10 000 that match"),
    ]
    is_chosen: Annotated[bool, Meta(description="the filter contains this value")]
    q: Annotated[str, Meta(description="the filter with this value for the dimension")]


class DimensionValues(ApiAnswer, kw_only=True, frozen=True):
    dimension: str
    values: Sequence[DimensionValueAnswer]
    count: Annotated[
        int,
        Meta(
            description="total number of values, at most 1 000; of the group run those of the runs that were counted"
        ),
    ]
    is_cut: Annotated[bool, Meta(description="more values exist than `values` contains")]
    is_partial: Annotated[bool, Meta(description="more runs match than the 10 000 that were counted")]


class Dimensions(ApiView):
    """All dimensions."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="list_dimensions", responses=DimensionList)
    def get(self, request: Request) -> HttpResponse:
        """List the dimensions of filters, axes and comparisons, and the 500 most frequent labels of the newest runs."""
        refuse_parameters(request)
        labels = (find_filter_dimension(f"{LABEL_PREFIX}{name}") for name in list_label_names())
        # Without those whose name cannot be in a filter.
        named = [*FILTER_DIMENSIONS.values(), *(label for label in labels if label is not None)]
        return answer_json(request, DimensionList(dimensions=list(map(_describe, named))))


class Values(ApiView):
    """The values of one dimension."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_dimension_values", parameters=[DimensionValueParameters], responses=DimensionValues
    )
    def get(self, request: Request, dimension_name: str) -> HttpResponse:
        """List the values of a dimension with their number of series; of profiles, sweeps and labels of runs."""
        dimension = find_filter_dimension(dimension_name)
        if dimension is None:
            available = ", ".join([*FILTER_DIMENSIONS, "label.NAME"])
            raise not_found(
                "dimension",
                f"{dimension_name[:80]!r} is not a valid dimension. Available: {available}",
            )
        wanted = read_parameters(request, DimensionValueParameters)
        filter = wanted["match"]
        facet = read_facet(dimension, filter, prefix=wanted["prefix"], limit=wanted["limit"])
        values = [
            build(
                DimensionValueAnswer,
                one,
                text=write_value(dimension, one.value),
                label=describe_value(dimension.name, one.value),
                series=one.series_count,
                runs=one.run_count,
                q=write_filter(filter.with_value(dimension.name, one.value)),
            )
            for one in facet.values
        ]
        body = DimensionValues(
            dimension=dimension.name,
            values=values,
            count=facet.value_count,
            is_cut=facet.value_count > len(values),
            is_partial=facet.is_partial,
        )
        return answer_json(request, body)


def _describe(dimension: Dimension) -> DimensionAnswer:
    aliases = [alias for alias, name in ALIASES.items() if name == dimension.name]
    short = min((dimension.name, *aliases), key=len)
    return build(
        DimensionAnswer,
        dimension,
        short=short,
        aliases=aliases,
        examples=[f"{short}:{example}" for example in list_examples(dimension)],
        values=f"{PREFIX}/dimensions/{quote(dimension.name)}/values",
    )
