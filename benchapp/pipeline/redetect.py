"""Judge history anew: by a new method, or to be sure."""

from collections.abc import Iterator, Sequence
from typing import Final

from django.db import transaction
from django.db.models import Q

from benchapp.grammar import parse_filter
from benchapp.models import Series
from benchapp.models.filtering import match_series
from benchapp.pipeline.detect import Judged, judge_series

_BATCH: Final = 200


def select_series(text: str = "") -> list[int]:
    """Return the series that a filter leaves, by id; all that were ever measured for "". Raises BadFilter."""
    condition = match_series(parse_filter(text)) if text.strip() else Q()
    return list(
        Series.objects.filter(condition, measurement_count__gt=0).order_by("id").values_list("id", flat=True)
    )


def redetect(ids: Sequence[int], *, is_dry_run: bool) -> Iterator[Judged]:
    """Judge these series, a batch at a time, and yield what each did; a dry run takes it back.

    Nobody is told: what is found of a history that people have lived with is no news.
    """
    left = list(ids)
    while left:
        with transaction.atomic():
            judged = judge_series(left[:_BATCH])
            transaction.set_rollback(is_dry_run)
        yield judged
        # A batch that held too many measurements judged its first ones; a series that is gone counts as done.
        done = set(judged.series_ids) or set(left[:_BATCH])
        gone = set(left[:_BATCH]) - set(
            Series.objects.filter(pk__in=left[:_BATCH]).values_list("pk", flat=True)
        )
        left = [series_id for series_id in left if series_id not in done | gone]
