"""Requests of runs: what may be requested, what a host is offered, and how results settle requests."""

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from agent.profiles.profile import list_profiles
from agent.profiles.shipped import PROFILES
from agent.quantities import parse_size
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.models import Host, RunRequest, RunRequestState, State, Submission
from benchapp.models.requests import (
    RunSpecification,
    describe_allowed,
    describe_parameters,
    find_refusal,
    is_number,
    parse_parameter,
    read_value,
)
from benchapp.requests.read.run_requests import RequestFilter, page_run_requests
from benchapp.requests.write.polling import (
    STARTS_MAXIMUM,
    end_request,
    expire_requests,
    forget_old_requests,
    poll_host,
    release_request,
    start_request,
)
from benchapp.requests.write.run_requests import (
    RequestOrigin,
    RequestRefused,
    RequestSettled,
    UnknownRunRequest,
    cancel_run_request,
    repeat_run,
    request_run,
)
from tests.envelopes import pack_envelope
from tests.factories import (
    make_environment,
    make_host,
    make_request_policy,
    make_run,
    make_run_request,
    make_submission,
)

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "requests" / "allowances.json").read_text())
ORIGIN = RequestOrigin(via="bench_x")


@pytest.fixture
def host(db: Any) -> Host:
    """Make a host that allows the profile quick in /data."""
    host = make_host("db-7")
    make_request_policy(host)
    return host


def poll(host: Host, *, waits_for: str = "", **policy: Any) -> RunRequest | None:
    """Poll as the agent of a host; the policy is the stored one unless given otherwise."""
    known = {**host.request_policy.policy, **policy}
    return poll_host(host.pk, known, waits_for=waits_for, waits_until=None)


@pytest.mark.parametrize("vector", VECTORS["decisions"], ids=lambda vector: str(list(vector.values())[:3]))
def test_server_decides_as_the_agent(vector: dict[str, Any]) -> None:
    wanted = RunSpecification(vector["profile"], vector["parameters"], vector["directory"])

    assert find_refusal(VECTORS["policy"], wanted) == vector["refusal"]


def test_policy_is_described_as_the_configuration_writes_it() -> None:
    assert describe_allowed(VECTORS["policy"]["profiles"]) == [
        "quick runtime=4..30 size=64m",
        "saturation rw=randread",
        "saturation rw=randwrite runtime=5",
    ]


def test_allowed_sizes_have_the_suffixes_of_the_agent() -> None:
    texts = {
        parameter.name: describe_allowed([{"profile": "quick", "parameters": {parameter.name: allowed}}])
        for profile in list_profiles()
        for parameter in profile.parameters
        if parameter.unit == "bytes"
        for allowed in [{"values": [512, 4096, 3 * 2**20, 1025, 2**40]}]
    }
    (limits,) = describe_allowed(
        [{"profile": "quick", "parameters": {"size": {"minimum": 2**26, "maximum": 2**30}}}]
    )

    assert texts == {name: [f"quick {name}=512,4k,3m,1025,1t"] for name in ("size", "bs")}
    assert [parse_size(text) for text in ("512", "4k", "3m", "1025", "1t")] == [
        512,
        4096,
        3 * 2**20,
        1025,
        2**40,
    ]
    assert limits == "quick size=64m..1g"


@pytest.mark.parametrize(
    ("name", "text", "value", "described"),
    [
        ("size", "64m", 2**26, "size=64m"),
        ("size", "67108864", 2**26, "size=64m"),
        ("bs", "4K", 4096, "bs=4k"),
        ("bs", "4097", 4097, "bs=4097"),
        ("size", "0", 0, "size=0"),
        ("size", "1.5g", 1536 * 2**20, "size=1536m"),
        ("size", "64MiB", 2**26, "size=64m"),
        ("size", "64MB", 64_000_000, "size=62500k"),
        ("runtime", "10", 10, "runtime=10"),
        ("runtime", "10m", 600, "runtime=600"),
        ("ramp", "0", 0, "ramp=0"),
        ("limit", "1.5ms", 1_500_000, "limit=1500000"),
        ("iodepth", "1k", 1000, "iodepth=1000"),
        ("drop_caches", "yes", "yes", "drop_caches=yes"),
        ("rate", "-1", -1, "rate=-1"),
        ("rw", "randread", "randread", "rw=randread"),
    ],
)
def test_parameter_is_described_as_it_can_be_written(
    name: str, text: str, value: int | str, described: str
) -> None:
    parsed = parse_parameter(name, text)

    assert (parsed, type(parsed)) == (value, type(value))
    assert describe_parameters({name: parsed}) == described
    assert parse_parameter(*described.split("=")) == value


@pytest.mark.parametrize("name", ["size", "bs"])
@pytest.mark.parametrize(
    "text",
    [
        "0",
        "4096",
        "4k",
        "4K",
        "64MiB",
        "64MB",
        "64mb",
        "64Mi",
        "64i",
        "4096B",
        "1.5g",
        "1.000001kB",
        "2TiB",
        "1p",
    ],
)
def test_size_is_read_as_by_the_agent(name: str, text: str) -> None:
    assert parse_parameter(name, text) == parse_size(text)


@pytest.mark.parametrize("text", ["", "64x", "-1", "1.5.0g", "1e3", "٤", "5000p", "1.1234567g", "½k"])
def test_size_that_the_agent_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a valid size; use bytes|too large"):
        parse_size(text)
    with pytest.raises(ValueError, match=r"not a valid size; use bytes|too large"):
        parse_parameter("size", text)


SHIPPED = {each.name: each for profile in PROFILES.values() for each in profile["parameters"]}


def test_parameters_of_the_agent_that_are_numbers_are_known() -> None:
    text = {"rw", "precondition", "drop_caches", "file"}

    assert {name for name in SHIPPED if is_number(name)} == SHIPPED.keys() - text


@pytest.mark.parametrize(
    "name", [name for name in SHIPPED if is_number(name) and SHIPPED[name].unit != "bytes"]
)
@pytest.mark.parametrize(
    "text",
    [
        *("0", "1s", "10s", "10M", "2 h", "1d", "500us", "10ms", "1.5S", "16k", "64MiB"),
        *("-1", "", "x", "٤s", "999999999d", "9999999999m"),
    ],
)
def test_number_is_read_or_refused_as_by_the_agent(name: str, text: str) -> None:
    def read(parse: Callable[[str], Any]) -> Any:
        try:
            return parse(text)
        except ValueError:
            return "refused"

    assert read(partial(read_value, name)) == read(SHIPPED[name].read)


def test_run_is_repeated_with_its_parameters_in_its_directory(host: Host) -> None:
    run = make_run(
        host,
        profile="quick",
        command={"parameters": {"runtime": 5}},
        environment=make_environment(facts={"directory": "/data"}),
    )

    request = repeat_run(run.pk, origin=ORIGIN)

    assert (request.profile, request.parameters, request.directory) == ("quick", {"runtime": 5}, "/data")
    assert (request.repeats, request.state) == (run, RunRequestState.PENDING)
    assert poll(host) == request


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"profile": "ebs-series"}, "profile-not-allowed"),
        ({"parameters": {"size": 2**40}}, "parameter-not-allowed"),
        ({"parameters": {"runtime": 3600}}, "value-not-allowed"),
        ({"directory": "/"}, "directory-not-allowed"),
    ],
)
def test_request_outside_of_the_policy_is_refused(host: Host, fields: dict[str, Any], code: str) -> None:
    wanted: dict[str, Any] = {"profile": "quick", "parameters": {}, "directory": "/data", **fields}

    with pytest.raises(RequestRefused) as refused:
        request_run(host.name, wanted.pop("profile"), origin=ORIGIN, **wanted)

    assert refused.value.code == code
    assert not RunRequest.objects.exists()


def test_host_without_policy_retired_host_and_unreported_run_are_refused(host: Host) -> None:
    silent, run = make_host("db-8"), make_run(host, profile="quick")
    codes = []

    for ask in (
        lambda: request_run(silent.name, "quick", parameters={}, directory="/data", origin=ORIGIN),
        lambda: repeat_run(run.pk, origin=ORIGIN),
        lambda: (
            Host.objects.filter(pk=host.pk).update(retired_at=timezone.now())
            and request_run(host.name, "quick", parameters={}, directory="/data", origin=ORIGIN)
        ),
    ):
        with pytest.raises(RequestRefused) as refused:
            ask()
        codes.append(refused.value.code)

    assert codes == ["policy-unknown", "parameters-unknown", "host-retired"]
    with pytest.raises(UnknownRunRequest):
        request_run("nobody", "quick", parameters={}, directory="/data", origin=ORIGIN)
    with pytest.raises(UnknownRunRequest):
        repeat_run(run.pk, origin=ORIGIN, host_name="db-8")


def test_open_requests_and_starts_of_a_day_count_towards_the_quota(host: Host) -> None:
    now = timezone.now()
    done = RunRequestState.DONE
    make_run_request(host, state=done, started_at=now - timedelta(hours=23))
    make_run_request(host, state=done, started_at=now - timedelta(hours=25))
    make_run_request(host)
    make_run_request(host)
    request_run(host.name, "quick", parameters={}, directory="/data", origin=ORIGIN)

    with pytest.raises(RequestRefused) as refused:
        request_run(host.name, "quick", parameters={}, directory="/data", origin=ORIGIN)

    assert refused.value.code == "quota-reached"


def test_interrupted_request_is_offered_first_and_fails_after_three_starts(host: Host) -> None:
    make_run_request(host, created_at=timezone.now() - timedelta(hours=1))
    interrupted = make_run_request(host)

    for _ in range(STARTS_MAXIMUM):
        start_request(host.pk, interrupted.pk, duration_s=18.0)
        offered = poll(host)

    interrupted.refresh_from_db()
    assert offered is not None and offered != interrupted
    assert (interrupted.state, interrupted.starts) == (RunRequestState.FAILED, STARTS_MAXIMUM)
    assert "stopped 3 times" in interrupted.reason


def test_waiting_host_is_offered_nothing_and_its_policy_is_stored(host: Host) -> None:
    request = make_run_request(host)

    assert poll(host, waits_for="quiet-hours", per_day=7) is None
    host.request_policy.refresh_from_db()
    assert (host.request_policy.waits_for, host.request_policy.policy["per_day"]) == ("quiet-hours", 7)
    assert poll(host) == request


def test_request_that_is_not_allowed_any_more_is_declined(host: Host) -> None:
    request = make_run_request(host)

    assert poll(host, directories=["/other"]) is None
    request.refresh_from_db()
    assert (request.state, request.reason) == (
        RunRequestState.DECLINED,
        "the host does not allow this directory",
    )


def test_deferred_request_keeps_its_reason_and_is_offered_again(host: Host) -> None:
    request = make_run_request(host)
    start_request(host.pk, request.pk, duration_s=18.0)

    release_request(host.pk, request.pk, reason="load 12.0 exceeds 4.0")

    request.refresh_from_db()
    assert (request.state, request.starts, request.started_at) == (RunRequestState.PENDING, 0, None)
    assert request.reason == "load 12.0 exceeds 4.0"
    assert poll(host) == request


def test_stored_result_settles_its_request_once_and_is_linked(host: Host) -> None:
    request = make_run_request(host)
    start_request(host.pk, request.pk, duration_s=18.0)
    make_submission(
        host, id=request.pk, kind="envelope", body=pack_envelope(id=str(request.pk)), state=State.RECEIVED
    )
    # The result has arrived, and is not stored yet: the host shall not run it again.
    assert poll(host) is None

    normalize_batch()

    (row,) = page_run_requests(RequestFilter(host_name=host.name)).items
    assert (row.state, row.progress) == (RunRequestState.DONE, None)
    assert row.run_id == Submission.objects.get(pk=request.pk).runs.get().pk


def test_result_of_a_failed_run_fails_its_request(host: Host) -> None:
    request = make_run_request(host)
    body = pack_envelope(id=str(request.pk), command={"exit_status": None, "signal": 9})
    make_submission(host, id=request.pk, kind="envelope", body=body, state=State.RECEIVED)

    normalize_batch()

    request.refresh_from_db()
    assert (request.state, request.reason) == (RunRequestState.FAILED, "fio was killed by signal 9")


def test_rejected_result_fails_its_request_and_one_of_another_host_does_not(host: Host) -> None:
    own, foreign = make_run_request(host), make_run_request(host)
    make_submission(host, id=own.pk, kind="envelope", body=b"{}", state=State.RECEIVED)
    make_submission(make_host("db-8"), id=foreign.pk, kind="envelope", body=b"{}", state=State.RECEIVED)

    normalize_batch()

    own.refresh_from_db()
    foreign.refresh_from_db()
    assert own.state == RunRequestState.FAILED and own.reason.startswith("the result was rejected: schema")
    assert foreign.state == RunRequestState.PENDING


def test_result_of_another_host_under_the_id_of_a_request_is_not_shown_and_does_not_block_it(
    host: Host,
) -> None:
    request, other = make_run_request(host), make_host("db-8")
    make_run(other, submission=make_submission(other, id=request.pk))

    (row,) = page_run_requests(RequestFilter(host_name=host.name)).items

    assert row.run_id is None
    assert poll(host) == request


def test_interrupted_request_is_offered_while_the_quota_is_used_up(host: Host) -> None:
    make_run_request(host)
    interrupted = make_run_request(host, state=RunRequestState.RUNNING, starts=1)

    assert poll(host, waits_for="quota") == interrupted
    assert poll(host, waits_for="quiet-hours") is None


def test_only_pending_requests_can_be_canceled_and_only_open_ones_started(host: Host) -> None:
    request, running = make_run_request(host), make_run_request(host)
    start_request(host.pk, running.pk, duration_s=18.0)

    assert cancel_run_request(host.name, request.pk, by=None).state == RunRequestState.CANCELED
    assert cancel_run_request(host.name, request.pk, by=None).state == RunRequestState.CANCELED
    with pytest.raises(RequestSettled, match="running"):
        cancel_run_request(host.name, running.pk, by=None)
    with pytest.raises(RequestSettled, match="canceled"):
        start_request(host.pk, request.pk, duration_s=18.0)
    with pytest.raises(UnknownRunRequest):
        end_request(make_host().pk, running.pk, state=RunRequestState.FAILED, reason="x")


def test_expired_requests_end_and_are_forgotten_after_90_days(host: Host) -> None:
    now = timezone.now()
    late = make_run_request(host, expires_at=now - timedelta(seconds=1))
    make_run_request(host)

    assert expire_requests(now=now) == 1
    late.refresh_from_db()
    assert late.state == RunRequestState.EXPIRED
    with pytest.raises(RequestSettled, match="expired"):
        start_request(host.pk, late.pk, duration_s=18.0)
    assert forget_old_requests(now=now + timedelta(days=89)) == 0
    assert forget_old_requests(now=now + timedelta(days=91)) == 1


@pytest.mark.parametrize(("elapsed_s", "progress"), [(-5, 0.0), (45, 0.5), (900, 0.99)])
def test_progress_follows_the_duration(host: Host, elapsed_s: int, progress: float) -> None:
    started_at = timezone.now() - timedelta(seconds=elapsed_s)
    make_run_request(host, state=RunRequestState.RUNNING, started_at=started_at, duration_s=90.0)

    (row,) = page_run_requests(RequestFilter(host_name=host.name)).items

    assert row.progress == pytest.approx(progress, abs=0.01)
