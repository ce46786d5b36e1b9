"""Which series violate a threshold by their stored levels."""

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import BooleanField, F, Func, QuerySet
from django.db.models.sql.compiler import SQLCompiler

from benchapp.catalog.grammar import Filter
from benchapp.catalog.thresholds import COMPARISONS, MISSES, NEWEST_RUNS, Threshold
from benchapp.models.filtering import match_series
from benchapp.models.level import NewestValues

_SIGNS: Final[Mapping[str, str]] = {sign: sign for sign in COMPARISONS}


class _IsViolated(Func):
    """Whether enough of the newest values miss a threshold; as `benchapp.catalog.thresholds.is_violated`."""

    output_field = BooleanField()

    def __init__(self, threshold: Threshold) -> None:
        super().__init__(F("recent"))
        self.threshold = threshold

    def as_sql(self, compiler: SQLCompiler, connection: Any, **_: Any) -> tuple[str, list[Any]]:  # type: ignore[override]
        """Return the condition."""
        column, values = compiler.compile(self.get_source_expressions()[0])
        newest = f"{column}[cardinality({column}) - {NEWEST_RUNS - 1}:]"
        misses = (
            f"(SELECT count(*) FROM unnest({newest}) AS run(value)"  # noqa: S608
            f" WHERE NOT run.value {_SIGNS[self.threshold.comparison]} %s)"
        )
        condition = f"(cardinality({column}) >= {NEWEST_RUNS} AND {misses} >= {MISSES})"
        return condition, [*values, *values, *values, self.threshold.limit]


def select_violating(threshold: Threshold, filter: Filter) -> QuerySet[NewestValues]:
    """Return the newest values of the matching series that violate a threshold."""
    values = NewestValues.objects.filter(match_series(filter, "series__"), metric=threshold.metric)
    return values.alias(is_violated=_IsViolated(threshold)).filter(is_violated=True)
