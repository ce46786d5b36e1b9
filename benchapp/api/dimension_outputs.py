"""What the answers about dimensions hold."""

from typing import get_args

from rest_framework import serializers

from benchapp.api.output_fields import Output, number
from benchapp.api.output_fields import text as words
from benchapp.dimensions import DimensionKind


class DimensionOutput(Output):
    name = words()
    label = words()  # type: ignore[assignment]  # a serializer has a label itself
    kind = words(help_text=", ".join(get_args(DimensionKind)))
    group = serializers.ChoiceField(choices=("scope", "workload", "target"))
    short = words(help_text="the shortest name that the filter's language takes")
    aliases = serializers.ListField(child=words(), help_text="further names in the filter's language")
    examples = serializers.ListField(child=words(), help_text="terms of the filter's language")
    values = words(help_text="address of its values")


class DimensionList(Output):
    dimensions = DimensionOutput(many=True)


class DimensionValueOutput(Output):
    value = serializers.JSONField(allow_null=True, help_text="text, number or boolean; null is unknown")
    text = words(help_text="the value as the filter's language writes it")
    label = words()  # type: ignore[assignment]  # a serializer has a label itself
    series = number(help_text="series with this value that fit the rest of the filter")
    is_chosen = serializers.BooleanField(help_text="the filter names this value")
    q = words(help_text="the filter with this value in place of what it says of the dimension")


class DimensionValues(Output):
    dimension = words()
    values = DimensionValueOutput(many=True)
    count = number(help_text="values in all, at most 1 000")
    is_cut = serializers.BooleanField(help_text="there are more than `values` holds")
