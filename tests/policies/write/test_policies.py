"""Detection policies: validation, precedence, effect on detection, undo."""

from typing import Any

import pytest

from benchapp.framework.write.conflicts import BadValue
from benchapp.framework.write.list_entries import UnknownEntry
from benchapp.models import Change, DetectionPolicy, DetectionPolicyLogEntry, DetectionResult, Run, Series
from benchapp.models.coverage import read_thresholds
from benchapp.policies import write
from benchapp.policies.write import (
    POLICIES,
)
from tests.detection.write.judging import add_runs, judge_all, make_cells, make_level
from tests.factories import make_host, make_user

pytestmark = pytest.mark.django_db


def create(smallest_change: float, **fields: Any) -> DetectionPolicy:
    given: dict[str, Any] = {
        "metric": "iops",
        "filter": "",
        "label": "",
        "reason": "noisy",
        **fields,
    }
    by = given.pop("by", None)
    return POLICIES.create(DetectionPolicy(smallest_change=smallest_change, **given), by=by)


def make_step(size: float) -> Series:
    """Make a series of host db-1 with a step of IOPS after 60 runs."""
    (series,) = make_cells(
        make_host("db-1"), [[*make_level(1000.0, 60), *make_level(1000.0 * (1 - size), 30)]]
    )
    return series


def test_series_without_policy_have_the_thresholds_of_the_catalog() -> None:
    series = make_step(0.0)

    assert read_thresholds([series.pk])[series.pk]["iops"] == 0.05


def test_label_precedes_filter_precedes_all_and_the_newest_of_equals_applies() -> None:
    series = make_step(0.0)
    Run.objects.update(labels={"tier": "prod"})

    found = []
    for fields in (
        {"label": "tier=prod", "smallest_change": 0.11},
        {"filter": "host:db-1", "smallest_change": 0.12},
        {"filter": "host:db-*", "smallest_change": 0.13},
        {"smallest_change": 0.14},
    ):
        create(**fields)
    for _ in range(5):
        found.append(read_thresholds([series.pk])[series.pk]["iops"])
        applied = DetectionPolicy.objects.filter(canceled_at=None, smallest_change=found[-1]).first()
        if applied:
            POLICIES.cancel(applied.pk, by=None)

    assert found == [0.11, 0.13, 0.12, 0.14, 0.05]


def test_spaces_around_the_parts_of_a_label_are_removed() -> None:
    series = make_step(0.0)
    Run.objects.update(labels={"tier": "prod web"})

    policy = create(0.11, label=" tier = prod web ")

    assert policy.label == "tier=prod web"
    assert read_thresholds([series.pk])[series.pk]["iops"] == 0.11


def test_policy_applies_to_its_metric_and_series_only() -> None:
    series = make_step(0.0)
    create(0.2, filter="host:db-2")
    create(0.3, metric="latency_mean_ns")
    create(0.4, label="tier=prod")

    thresholds = read_thresholds([series.pk])[series.pk]

    assert (thresholds["iops"], thresholds["latency_mean_ns"]) == (0.05, 0.3)


def test_higher_threshold_leaves_a_change_out() -> None:
    create(0.12, filter="host:db-1")
    series = make_step(0.08)
    judge_all()

    assert not Change.objects.exists()
    assert DetectionResult.objects.get(series=series, metric="iops").smallest_change == 0.12


def test_lower_threshold_finds_a_change_when_it_is_saved() -> None:
    series = make_step(0.035)
    judge_all()
    assert not Change.objects.exists()

    create(0.02, filter="host:db-1")
    judge_all()

    assert Change.objects.get(series=series).relative == pytest.approx(-0.035, abs=0.005)


def test_reported_change_remains_when_the_threshold_is_raised() -> None:
    make_step(0.08)
    judge_all()
    before = Change.objects.get()
    assert before.incident_id

    create(0.12)
    judge_all()

    after = Change.objects.get()
    assert (after.state, after.incident_id) == (before.state, before.incident_id)


def test_canceled_policy_has_no_effect_and_can_be_restored() -> None:
    series = make_step(0.035)
    policy = create(0.02)
    user = make_user()

    POLICIES.cancel(policy.pk, by=user)
    POLICIES.cancel(policy.pk, by=user)
    assert Series.objects.get().judging_is_due
    judge_all()
    assert not Change.objects.exists()

    POLICIES.restore(policy.pk, by=user, via="bench_abc")
    judge_all()
    assert Change.objects.get().series_id == series.pk
    actions = DetectionPolicyLogEntry.objects.order_by("id").values_list("action", "by__username", "via")
    assert list(actions) == [
        ("created", None, ""),
        ("canceled", user.username, ""),
        ("restored", user.username, "bench_abc"),
    ]


def test_quiet_run_of_a_series_with_another_label_is_evaluated_with_its_threshold() -> None:
    (series,) = make_cells(make_host("db-1"), [make_level(1000.0, 96)])
    create(0.2, label="tier=prod")
    judge_all()
    assert DetectionResult.objects.get(metric="iops").smallest_change == 0.05

    (run,) = add_runs(series, [1000.0])
    Run.objects.filter(pk=run.pk).update(labels={"tier": "prod"})
    judge_all()

    assert DetectionResult.objects.get(metric="iops").smallest_change == 0.2


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"metric": "latency_p50_ns"}, "metric"),
        ({"smallest_change": 0.009}, "smallest_change"),
        ({"smallest_change": 10.1}, "smallest_change"),
        ({"smallest_change": float("nan")}, "smallest_change"),
        ({"filter": "colour:red"}, "filter"),
        ({"filter": "kernel:6.1"}, "filter"),
        ({"label": "prod"}, "label"),
        ({"label": "=prod"}, "label"),
        ({"label": "tier=" + "x" * 300}, "label"),
        ({"label": "tier=a\x00b"}, "label"),
        ({"reason": " \n "}, "reason"),
        ({"reason": "x" * 501}, "reason"),
    ],
)
def test_invalid_policy_is_refused_with_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(BadValue) as refused:
        create(**{"smallest_change": 0.1, **fields})

    assert refused.value.field == field
    assert not DetectionPolicy.objects.exists()


def test_policies_in_effect_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "POLICIES_MAXIMUM", 1)
    first = create(0.1)

    with pytest.raises(BadValue, match="limit of 1"):
        create(0.2)
    POLICIES.cancel(first.pk, by=None)
    create(0.2)
    with pytest.raises(BadValue, match="limit of 1"):
        POLICIES.restore(first.pk, by=None)


def test_unknown_policy_cannot_be_canceled() -> None:
    with pytest.raises(UnknownEntry):
        POLICIES.cancel(999, by=None)
