"""What the answer about a scaling picture holds."""

from typing import Final

from rest_framework import serializers

from benchapp.api.output_fields import Output, PageOutput, maybe_real, maybe_text, maybe_time, number, text
from benchapp.api.series_outputs import MetricOutput
from benchapp.queries.scaling_metrics import SCALING_METRICS

STATES: Final = ("measured", "apart", "failed", "unvalued", "missing")


class ScalingCellOutput(Output):
    facet = maybe_text()
    colour = maybe_text()
    x = maybe_text()
    state = serializers.ChoiceField(
        choices=STATES,
        help_text="apart: several series whose percentiles have no common median; unvalued: without this metric",
    )
    median = maybe_real()
    p10 = maybe_real()
    p90 = maybe_real()
    n = number(help_text="measurements, of at most the newest 100 of each series")
    last_at = maybe_time()
    over = maybe_real(help_text="the throughput here, where the latency is drawn over it")
    ideal = maybe_real(help_text="as many times the first value as there are volumes or stripes")
    efficiency = maybe_real(help_text="median / ideal")
    ghost_median = maybe_real(help_text="the median at the earlier moment")
    series = serializers.ListField(child=number(), help_text="ids of the series in this cell")


class HeldOutput(Output):
    dimension = text()
    values = serializers.ListField(child=maybe_text())


class CountsOutput(Output):
    shown = number()
    unvalued = number()
    failed = number()
    unknown_x = number()
    beside = number()
    beyond = number()
    cells = number()
    filled = number()


class ScalingOutput(PageOutput):
    filter = text(help_text="the filter, with what is held still")
    x = text()
    colour = maybe_text()
    facet = maybe_text()
    metric = MetricOutput()
    over = maybe_text()
    held = HeldOutput(many=True)
    mixed = serializers.ListField(child=text(), help_text="dimensions of which some cell has several values")
    counts = CountsOutput()
    cells = ScalingCellOutput(many=True)


# In the order in which `scaling.py` writes them.
SCALING_COLUMNS: Final = tuple(ScalingCellOutput().fields)
METRIC_NAMES: Final = tuple(SCALING_METRICS)
