"""What the answers about series hold, and their points."""

from typing import Any, Final

from rest_framework import serializers

from benchapp.api.output_fields import (
    ChosenColumns,
    Output,
    PageOutput,
    TargetColumns,
    WorkloadColumns,
    badge_codes,
    maybe_number,
    maybe_real,
    maybe_text,
    number,
    text,
    time,
)
from benchapp.metrics import CATALOGUE
from benchapp.models import DirectionName


class SeriesOutput(TargetColumns, WorkloadColumns):
    id = number()
    title = text()
    scope = text()
    host = maybe_text()
    pool = maybe_text()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    measurement_count = number()
    first_at = time()
    last_at = time()
    badges = badge_codes("codes that its newest measurement bears, the gravest first")
    last_run_id = maybe_number()
    last_error = maybe_number()
    last_iops = maybe_real()
    last_bandwidth_bytes_per_s = maybe_real()
    last_latency_p99_ns = maybe_real()
    url = text()
    page = text()


class SiblingOutput(Output):
    id = number()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    url = text()


class SeriesDetailOutput(SeriesOutput):
    workload_title = text()
    target_title = text()
    hosts = serializers.ListField(child=text())
    siblings = SiblingOutput(many=True)
    points = text()


class MetricOutput(Output):
    name = text()
    unit = text()
    better = serializers.ChoiceField(choices=("higher", "lower"))
    label = text()  # type: ignore[assignment]  # a serializer has a label itself


class PointOutput(Output):
    run = number()
    started_at = time()
    error = number(help_text="fio's errno; other than 0 means: do not compare")
    badges = badge_codes("codes of what speaks against it")
    is_excluded = serializers.BooleanField(help_text="a person took its run out of medians")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the metrics asked for, each with its level where `rolling` is given."""
        names = [name for metric in CATALOGUE for name in (metric, *level_columns(metric))]
        return super().get_fields() | {
            name: serializers.FloatField(allow_null=True, required=False) for name in names
        }


class SummaryOutput(Output):
    series = number()
    metric = serializers.ChoiceField(choices=tuple(CATALOGUE))
    unit = text()
    n = number()
    median = maybe_real()
    p10 = maybe_real()
    p90 = maybe_real()
    minimum = maybe_real()
    maximum = maybe_real()
    last = maybe_real()


class SeriesRowOutput(ChosenColumns, SeriesOutput):
    pass


class SeriesPage(PageOutput):
    series = SeriesRowOutput(many=True)


class PointPage(PageOutput):
    series = number()
    metrics = MetricOutput(many=True)
    points = PointOutput(many=True)


LEVELS: Final = ("median", "p10", "p90")


def level_columns(metric: str) -> tuple[str, ...]:
    """Return the columns that `rolling` adds for a metric."""
    return tuple(f"{metric}_{level}" for level in LEVELS)


# In the order in which `rows.py` writes them.
SERIES_COLUMNS: Final = (
    *("id", "title", "scope", "host", "pool", "direction", "measurement_count"),
    *("first_at", "last_at", "badges"),
    *WorkloadColumns().fields,
    *TargetColumns().fields,
    *("last_run_id", "last_error", "last_iops", "last_bandwidth_bytes_per_s", "last_latency_p99_ns"),
    *("url", "page"),
)
