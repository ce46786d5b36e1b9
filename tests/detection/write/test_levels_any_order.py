"""Levels are those of the stored rows after any order of late, corrected, excluded and reparsed runs."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import renormalize
from benchapp.intake.posts.submissions import pack
from benchapp.models import Run, Series, Submission
from benchapp.series.write import exclude_run, include_run
from tests.detection.write.test_levels import compute_from_scratch, read_all
from tests.envelopes import make_envelope, read_fio
from tests.factories import NOON, calculate_levels, make_points, make_run
from tests.intake.normalize.test_batch import RECEIVED_AT, submit

pytestmark = pytest.mark.django_db

_HOURS = st.integers(0, 40)
_IOPS = st.floats(1.0, 1e6)
_ERRORS = st.sampled_from([0, 0, 0, 5])
_PLACE = st.integers(0, 30)
STEPS = st.one_of(
    st.tuples(st.just("arrive"), _HOURS, _IOPS, _ERRORS),
    st.tuples(st.just("arrive many"), _HOURS, st.sampled_from([3, 9, 100])),
    st.tuples(st.just("exclude"), _PLACE),
    st.tuples(st.just("put back"), _PLACE),
    st.tuples(st.just("read anew"), _PLACE),
    st.tuples(st.just("correct"), _PLACE, _HOURS, _IOPS, _ERRORS),
    st.tuples(st.just("evaluate"), st.integers(1, 2)),
)


def write_output(hour: int, iops: float, error: int) -> str:
    """What fio would have printed of the same workload at another hour."""
    document = json.loads(read_fio("16_randrw7030_json.out"))
    moment = (RECEIVED_AT - timedelta(hours=hour)).timestamp()
    document.update(timestamp=int(moment), timestamp_ms=int(moment * 1000))
    document["jobs"][0]["error"] = error
    document["jobs"][0]["read"]["iops"] = iops
    return json.dumps(document)


def pick(rows: Sequence[Any], place: int) -> list[Any]:
    return [rows[place % len(rows)]] if rows else []


def take(step: str, *values: Any) -> None:
    runs = list(Run.objects.order_by("pk"))
    submissions = list(Submission.objects.filter(runs__measurements__isnull=False).distinct().order_by("pk"))
    if step == "arrive":
        submit(fio_output=write_output(*values))
        normalize_batch()
    elif step == "arrive many":
        for series in Series.objects.order_by("pk")[:1]:
            times = [NOON + timedelta(hours=values[0], minutes=minute) for minute in range(values[1])]
            run = make_run(started_at=times[0])
            make_points(series, run, times, iops=lambda index: float(index % 7), latency_p99_ns=5.0)
    elif step == "exclude":
        for run in pick(runs, values[0]):
            exclude_run(run.pk, None, reason="noise")
    elif step == "put back":
        for run in pick(runs, values[0]):
            include_run(run.pk, None)
    elif step == "read anew":
        list(
            renormalize(
                [row.pk for row in pick(submissions, values[0]) if row.kind == "envelope"], is_dry_run=False
            )
        )
    elif step == "correct":
        for row in pick(submissions, values[0]):
            correct(row, write_output(*values[1:]))
    elif step == "evaluate":
        calculate_levels()


def correct(row: Submission, output: str) -> None:
    """Have it read otherwise than before, as a better parser would."""
    if row.kind != "envelope":
        return
    body = json.dumps(make_envelope(id=str(row.pk), fio_output=output)).encode()
    Submission.objects.filter(pk=row.pk).update(body=pack(body))
    list(renormalize([row.pk], is_dry_run=False))


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, min_size=2, max_size=12))
def test_levels_after_any_order_of_changes_are_those_from_scratch(steps: list[tuple[Any, ...]]) -> None:
    with transaction.atomic():
        take("arrive", 0, 100.0, 0)
        for step in steps:
            take(*step)
        calculate_levels()

        assert Series.objects.count() == 3
        for series in Series.objects.all():
            assert read_all(series) == compute_from_scratch(series)
        transaction.set_rollback(True)
