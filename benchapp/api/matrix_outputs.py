"""What the answer about a matrix holds."""

from typing import Any, Final

from rest_framework import serializers

from benchapp.api.output_fields import (
    Output,
    badge_codes,
    maybe_number,
    maybe_real,
    maybe_text,
    maybe_time,
    number,
    text,
)
from benchapp.dimensions import DIMENSIONS
from benchapp.queries.matrix_values import STATES


class MatrixCellOutput(Output):
    state = text(help_text=", ".join(STATES))
    series = maybe_number()
    series_count = number()
    median = maybe_real(help_text="in the metric's base unit")
    p10 = maybe_real()
    p90 = maybe_real()
    n = maybe_number()
    recent_median = maybe_real()
    baseline_median = maybe_real()
    change_percent = maybe_real(help_text="of the recent median against the baseline's")
    change = maybe_text()
    first_at = maybe_time()
    last_at = maybe_time()
    is_stale = serializers.BooleanField(allow_null=True)
    badges = badge_codes("codes that the series' newest measurement bears, the gravest first")
    recent = serializers.ListField(
        child=serializers.FloatField(), help_text="newest values in the order of time"
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the dimensions, of which a cell has those of its place."""
        dimensions: dict[str, serializers.Field[Any, Any, Any, Any]] = {
            name: serializers.JSONField(allow_null=True, required=False, help_text="of the cell's place")
            for name in DIMENSIONS
        }
        return dimensions | super().get_fields()


class MatrixHeldOutput(Output):
    dimension = text()
    values = serializers.ListField(child=serializers.JSONField(allow_null=True))
    others = serializers.ListField(child=serializers.JSONField(allow_null=True))


class MatrixOutput(Output):
    metric = text()
    unit = text()
    better = serializers.ChoiceField(choices=("higher", "lower"))
    x = text()
    rows = serializers.ListField(child=text())
    facet = serializers.ListField(child=text())
    q = text(help_text="the filter with what is held still")
    held = MatrixHeldOutput(many=True)
    mixed = serializers.ListField(child=text(), help_text="dimensions of which some cell has several values")
    counts = serializers.DictField(child=number(), help_text="cells by state")
    beyond = serializers.DictField(child=number(), help_text="what is not shown")
    is_cut = serializers.BooleanField(help_text="more series fit than are looked at")
    cells = MatrixCellOutput(many=True)


MEASURED_COLUMNS: Final = tuple(name for name in MatrixCellOutput._declared_fields if name != "recent")
