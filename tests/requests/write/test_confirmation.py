"""Additional runs that confirm regressions: which are requested, and when no more are."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.models import Change, ChangeState, ConfirmationPolicy, Host, Run, RunRequest, RunRequestState
from benchapp.requests.read.run_requests import list_confirmation_pools
from benchapp.requests.write.run_requests import (
    BadConfirmationPolicy,
    ConfirmationNeed,
    is_confirmation_due,
    request_confirmations,
    set_confirmation_policy,
)
from tests.factories import (
    make_change,
    make_environment,
    make_host,
    make_measurement,
    make_request_policy,
    make_run,
    make_series,
    make_workload,
)
from tests.shared_rows import shared_rows

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
NEED = ConfirmationNeed(
    started_at=NOW - HOUR, found_at=NOW - HOUR, requests=0, has_open=False, spent_s=0.0, run_s=60.0
)


@pytest.mark.parametrize(
    ("changed", "is_due"),
    [
        ({}, True),
        ({"requests": 2}, True),
        ({"requests": 3}, False),
        ({"has_open": True}, False),
        ({"started_at": NOW - timedelta(minutes=9)}, False),
        ({"spent_s": 4260.0}, True),
        ({"spent_s": 4261.0}, False),
    ],
)
def test_need_of_another_run(changed: dict[str, Any], is_due: bool) -> None:
    assert is_confirmation_due(replace(NEED, **changed), runs=3, daily_share=0.05, now=NOW) == is_due


@shared_rows
def changes() -> list[Change]:
    """Make a provisional regression in two series of one run that is an hour old; its host allows requests."""
    now = timezone.now()
    host = make_host("db-7", pool="blue")
    make_request_policy(host, per_day=20)
    run = make_run(
        host,
        profile="quick",
        command={"parameters": {"runtime": 5}},
        environment=make_environment(facts={"directory": "/data"}),
        started_at=now - HOUR,
        finished_at=now - HOUR + timedelta(minutes=1),
    )
    found = []
    for depth in (1, 8):
        series = make_series(pool="blue", workload=make_workload(iodepth=depth))
        make_measurement(run, series, iops=80.0)
        found.append(make_change(series, state=ChangeState.PROVISIONAL, at=now - HOUR))
    Change.objects.update(found_at=now - timedelta(minutes=50), started_at=now - HOUR)
    return found


def finish(request: RunRequest) -> None:
    """End a request an hour later, as if its result were stored."""
    RunRequest.objects.filter(pk=request.pk).update(state=RunRequestState.DONE)


def test_one_run_confirms_all_of_its_series_and_at_most_three_follow(changes: list[Change]) -> None:
    now = timezone.now()
    set_confirmation_policy("blue", runs=3, daily_share=0.05, by=None)

    counts = []
    for _ in range(5):
        counts.append((request_confirmations(now=now), request_confirmations(now=now)))
        finish(RunRequest.objects.order_by("-created_at")[0])

    assert counts == [(1, 0), (1, 0), (1, 0), (0, 0), (0, 0)]
    request = RunRequest.objects.order_by("created_at")[0]
    assert (request.profile, request.parameters, request.directory) == ("quick", {"runtime": 5}, "/data")
    assert (request.via, request.repeats) == ("confirmation", Run.objects.get())
    assert request.change in changes


@pytest.mark.parametrize(
    "fields",
    [
        {"state": ChangeState.CONFIRMED},
        {"state": ChangeState.WITHDRAWN},
        {"is_regression": False},
        {"found_at": NOW - timedelta(days=365)},
        {"method": POOLED_METHOD},
    ],
)
def test_other_changes_request_nothing(changes: list[Change], fields: dict[str, Any]) -> None:
    Change.objects.update(**fields)
    set_confirmation_policy("blue", runs=3, daily_share=0.05, by=None)

    assert request_confirmations(now=timezone.now()) == 0


def test_nothing_is_requested_without_a_policy_of_the_pool_or_of_the_host(changes: list[Change]) -> None:
    set_confirmation_policy("green", runs=3, daily_share=0.05, by=None)
    assert request_confirmations(now=timezone.now()) == 0

    set_confirmation_policy("blue", runs=3, daily_share=0.05, by=None)
    Host.objects.get(name="db-7").request_policy.delete()
    assert request_confirmations(now=timezone.now()) == 0


def test_quota_of_the_host_holds_for_automatic_requests(changes: list[Change]) -> None:
    policy = Host.objects.get(name="db-7").request_policy
    policy.policy["per_day"] = 1
    policy.save()
    set_confirmation_policy("blue", runs=3, daily_share=0.05, by=None)
    now = timezone.now()

    assert request_confirmations(now=now) == 1
    RunRequest.objects.update(state=RunRequestState.DONE, started_at=now)
    assert request_confirmations(now=now) == 0


def test_policy_is_validated_listed_and_removed_with_0_runs(changes: list[Change]) -> None:
    with pytest.raises(BadConfirmationPolicy, match="0 to 3 runs"):
        set_confirmation_policy("blue", runs=4, daily_share=0.05, by=None)
    for share in (0.0, 0.26, float("nan")):
        with pytest.raises(BadConfirmationPolicy, match="at most 25 %"):
            set_confirmation_policy("blue", runs=3, daily_share=share, by=None)
    make_host("db-8")
    set_confirmation_policy("blue", runs=2, daily_share=0.1, by=None)

    pools = [(pool.pool, pool.runs, pool.hosts, pool.allowing_hosts) for pool in list_confirmation_pools()]

    assert pools == [("", 0, 1, 0), ("blue", 2, 3, 1)]
    set_confirmation_policy("blue", runs=0, daily_share=0.05, by=None)
    assert not ConfirmationPolicy.objects.exists()
