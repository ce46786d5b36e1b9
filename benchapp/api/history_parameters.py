"""The query parameters of histories: which series, which metrics, how finely."""

from typing import Any, Final

from rest_framework import serializers

from benchapp.api.parameters import FormatParameters, NamesField, Parameters, SpanParameters
from benchapp.models import METRIC_FIELDS
from benchapp.queries.history import BUCKETS_DEFAULT, IDS_MAXIMUM, LINES_MAXIMUM
from benchapp.queries.latency_history import COLUMNS_DEFAULT, COLUMNS_MAXIMUM

_ID_MAXIMUM: Final = 2**63 - 1
_BUCKETS_MAXIMUM: Final = 10_000


class IdsField(serializers.CharField):
    """Ids, separated by commas."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, max_length=2000, **options)

    def to_internal_value(self, data: Any) -> tuple[int, ...]:  # type: ignore[override]
        """Return the ids in the order asked for, each once."""
        parts = [part.strip() for part in super().to_internal_value(data).split(",")]
        for part in parts:
            if not (part.isascii() and part.isdigit() and int(part) <= _ID_MAXIMUM):
                raise serializers.ValidationError(f"{part[:40]!r} is no id; write them as 1,2,3")
        ids = tuple(dict.fromkeys(map(int, parts)))
        if len(ids) > IDS_MAXIMUM:
            raise serializers.ValidationError(f"{len(ids)} ids; at most {IDS_MAXIMUM} are read")
        return ids


class ChoiceParameters(Parameters):
    """Which series: by their ids, else by a filter."""

    series = IdsField(help_text="ids of series, separated by commas; without them `q` chooses")
    q = serializers.CharField(
        required=False,
        max_length=2000,
        default="",
        allow_blank=True,
        help_text="the filter bar's language: `host:db-* rw:randread`; without either the freshest six",
    )


class HistoryParameters(ChoiceParameters, SpanParameters, FormatParameters):
    """Which histories side by side."""

    metrics = NamesField(METRIC_FIELDS, help_text="metrics, separated by commas; default: iops")
    thin = serializers.IntegerField(
        required=False,
        default=BUCKETS_DEFAULT,
        min_value=1,
        max_value=_BUCKETS_MAXIMUM,
        help_text=(
            "buckets of all series together, where they have more than 2 000 points in the span;"
            f" of at most {LINES_MAXIMUM} series"
        ),
    )


class LatencyParameters(SpanParameters, FormatParameters):
    """Which part of a series' latencies, and how finely."""

    thin = serializers.IntegerField(
        required=False,
        default=COLUMNS_DEFAULT,
        min_value=1,
        max_value=COLUMNS_MAXIMUM,
        help_text="columns at most; more runs than that share them by time",
    )
