"""What the answers about histories hold."""

from typing import Any, Final

from rest_framework import serializers

from benchapp.api.output_fields import (
    Output,
    badge_codes,
    maybe_number,
    maybe_real,
    maybe_text,
    number,
    text,
    time,
)
from benchapp.api.series_outputs import MetricOutput
from benchapp.metrics import CATALOGUE
from benchapp.models import ChangeState, DirectionName
from benchapp.queries.history_rows import spread_columns

MARKED_STATES: Final = tuple(state for state in ChangeState if state != ChangeState.WITHDRAWN)


class LevelOutput(Output):
    from_at = time()
    to_at = time()
    first_run = number()
    n = number()
    median = serializers.FloatField()
    p10 = serializers.FloatField()
    p90 = serializers.FloatField()


class FieldChangeOutput(Output):
    name = text()
    label = text()  # type: ignore[assignment]  # a serializer has a label itself
    before = maybe_text()
    after = maybe_text()


class ChangeMarkOutput(Output):
    id = number()
    metric = text()
    at = time()
    run = maybe_number()
    state = serializers.ChoiceField(choices=[state.value for state in MARKED_STATES])
    is_drift = serializers.BooleanField(help_text="a drift from an accepted level, and no new level")
    is_regression = serializers.BooleanField()
    relative = serializers.FloatField(help_text="after / before − 1")
    relative_low = maybe_real(help_text="of its 95 % interval")
    relative_high = maybe_real()
    before = serializers.FloatField(help_text="median of the level before, in the metric's base unit")
    after = serializers.FloatField()
    incident = maybe_number()
    page = maybe_text()


class EnvironmentChangeOutput(Output):
    at = time()
    run = number(help_text="the first under the new circumstances")
    host = text()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add `fields`, which cannot be declared: a serializer has an attribute of that name."""
        return super().get_fields() | {"fields": FieldChangeOutput(many=True)}


class BucketOutput(Output):
    from_at = time()
    to_at = time()
    n = number(help_text="all runs in it")
    failed = number(help_text="of them; they enter no number")
    excluded = number(help_text="of them; they enter no number")
    doubtful = number(help_text="of them bear a badge that casts doubt")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the spread of each metric asked for."""
        columns = [name for metric in CATALOGUE for name in spread_columns(metric)]
        return super().get_fields() | {name: _spread_field(name) for name in columns}


class HistoryBucketOutput(BucketOutput):
    series = number()


class BucketPage(Output):
    series = number()
    metrics = MetricOutput(many=True)
    buckets = BucketOutput(many=True)
    next = maybe_text()
    next_cursor = maybe_text()


class HistoryPointOutput(Output):
    series = number()
    run = number()
    started_at = time()
    error = number(help_text="fio's errno; other than 0 means: do not compare")
    is_excluded = serializers.BooleanField(help_text="a person took its run out of medians")
    badges = badge_codes("codes of what speaks against it")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the metrics asked for."""
        return super().get_fields() | {
            name: serializers.FloatField(allow_null=True, required=False) for name in CATALOGUE
        }


class HistoryLineOutput(Output):
    id = number()
    name = text(help_text="only what tells it from the others")
    title = text()
    scope = text()
    rw = text()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    measurement_count = number()
    first_at = time()
    last_at = time()
    runs = number(help_text="points in the span")
    levels = serializers.DictField(child=LevelOutput(many=True), help_text="by metric, of the whole history")
    changes = ChangeMarkOutput(many=True, help_text="of its level, without those that were withdrawn")
    environment_changes = EnvironmentChangeOutput(many=True)
    environment_changes_left_out = number()
    url = text()
    page = text()


class HistoryOutput(Output):
    metrics = MetricOutput(many=True)
    lines = HistoryLineOutput(many=True)
    lines_left_out = number(help_text="of the series asked for; counted up to 1 000")
    is_thinned = serializers.BooleanField(help_text="then `buckets` hold what `points` would")
    newest_of_each = serializers.IntegerField(
        allow_null=True,
        help_text="the span has more than 240 000 runs: no more than so many of each line, the newest, are in it",
    )
    points = HistoryPointOutput(many=True)
    buckets = HistoryBucketOutput(many=True)


class FanOutput(Output):
    from_at = time()
    to_at = time()
    runs = number()
    last_run = number()
    p50 = maybe_real(help_text="ns; of several runs, their median of this percentile")
    p90 = maybe_real()
    p95 = maybe_real()
    p99 = maybe_real()
    p99_9 = maybe_real()
    p99_99 = maybe_real()


class FanPage(Output):
    series = number()
    columns = FanOutput(many=True)


class HeatColumnOutput(Output):
    from_at = time()
    to_at = time()
    runs = number()
    last_run = number()
    counts = serializers.ListField(child=number(), help_text="operations, from first_bucket on")


class HeatPage(Output):
    series = number()
    first_bucket = maybe_number()
    columns = HeatColumnOutput(many=True)


def _spread_field(name: str) -> serializers.Field[Any, Any, Any, Any]:
    if name.endswith(("_n", "_run")):
        return serializers.IntegerField(allow_null=True, required=False)
    return serializers.FloatField(allow_null=True, required=False)
