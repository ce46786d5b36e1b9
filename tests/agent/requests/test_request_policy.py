"""What a host allows the server to request. The decisions are those of the server, too."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agent.exit_codes import ConfigurationError
from agent.requests.poll_command import RequestLedger
from agent.requests.request_policy import (
    AllowedProfile,
    AllowedValues,
    RequestedRun,
    RequestPolicy,
    find_refusal,
    parse_allowed,
    read_request_policy,
    read_requested_run,
)

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "requests" / "allowances.json").read_text())
ID = "0f0e0d0c-0b0a-4908-8706-050403020100"


def read_vector_policy() -> RequestPolicy:
    """Return the policy of the decisions."""
    document = VECTORS["policy"]
    return RequestPolicy(
        tuple(
            AllowedProfile(
                row["profile"],
                {
                    name: AllowedValues(tuple(values["values"]))
                    if "values" in values
                    else AllowedValues(**values)
                    for name, values in row["parameters"].items()
                },
            )
            for row in document["profiles"]
        ),
        tuple(document["directories"]),
    )


@pytest.mark.parametrize("vector", VECTORS["grammar"], ids=lambda vector: vector["text"])
def test_allowed_profiles_are_read_or_refused_with_the_reason(vector: dict[str, Any]) -> None:
    if "error" in vector:
        with pytest.raises(ValueError, match=vector["error"].replace("*", r"\*")):
            parse_allowed(vector["text"])
    else:
        assert RequestPolicy(parse_allowed(vector["text"])).dump()["profiles"] == vector["profiles"]


@pytest.mark.parametrize("vector", VECTORS["decisions"], ids=lambda vector: str(list(vector.values())[:3]))
def test_agent_decides_as_the_server(vector: dict[str, Any]) -> None:
    requested = RequestedRun(ID, vector["profile"], vector["parameters"], vector["directory"])

    assert find_refusal(read_vector_policy(), requested) == vector["refusal"]


def test_nothing_is_allowed_by_default() -> None:
    policy = read_request_policy({}, directory="/data")

    assert find_refusal(policy, RequestedRun(ID, "quick", {}, "/data")) == "profile-not-allowed"
    assert policy.directories == ("/data",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"allow": "quick", "directories": "data"}, "data is not an absolute path"),
        ({"allow": "quick", "per_day": "0"}, "per_day: 0 is not a number from 1 to 48"),
        ({"allow": "quick", "per_day": "many"}, "per_day: 'many'"),
        ({"allow": "quick", "quiet_hours": "8-18"}, "'8-18' is not HH:MM-HH:MM"),
        ({"allow": "quick", "quiet_hours": "08:00-08:00"}, "begins and ends at the same time"),
        ({"allow": "quick;" * 21}, "21 entries exceed the maximum of 20"),
    ],
)
def test_invalid_settings_are_refused_with_the_key(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        read_request_policy(settings, directory=None)


@pytest.mark.parametrize(
    ("hours", "duration_s", "expected"),
    [
        ("", 10**9, True),
        ("08:00-18:00", 14 * 3600 - 1, True),
        ("08:00-18:00", 14 * 3600, False),
        ("22:00-02:00, 08:00-18:00", 6 * 3600 - 1, True),
        ("22:00-02:00, 08:00-18:00", 6 * 3600, False),
        ("00:00-12:00, 12:00-00:00", 0, False),
    ],
)
def test_run_needs_a_gap_between_quiet_hours(hours: str, duration_s: float, expected: bool) -> None:
    policy = read_request_policy({"quiet_hours": hours}, directory=None)

    assert policy.has_time_for(duration_s) is expected


@pytest.mark.parametrize(
    ("now", "expected"), [("2026-11-23T18:00", "2026-11-23T23:00"), ("2026-11-23T23:00", "2026-11-24T08:00")]
)
def test_next_quiet_hours_begin_on_the_same_or_the_next_day(now: str, expected: str) -> None:
    policy = read_request_policy({"quiet_hours": "08:00-18:00, 23:00-02:00"}, directory=None)

    assert policy.find_quiet_start(datetime.fromisoformat(now)) == datetime.fromisoformat(expected)


def test_directories_are_allowed_as_runs_report_them(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    policy = read_request_policy({"directories": f"{tmp_path}/, {tmp_path}/link"}, directory=None)

    assert policy.directories == (str(tmp_path.resolve()),)


@pytest.mark.parametrize(
    ("now", "duration_s", "expected"),
    [
        ("2026-11-23T07:59", 0, None),
        ("2026-11-23T07:59", 120, "2026-11-23T18:00"),
        ("2026-11-23T08:00", 0, "2026-11-23T18:00"),
        ("2026-11-23T18:00", 0, None),
        ("2026-11-23T23:30", 0, "2026-11-24T02:00"),
        ("2026-11-24T01:00", 0, "2026-11-24T02:00"),
    ],
)
def test_quiet_hours_end_on_the_same_or_the_next_day(
    now: str, duration_s: float, expected: str | None
) -> None:
    policy = read_request_policy({"quiet_hours": "08:00-18:00, 23:00-02:00"}, directory=None)

    found = policy.find_quiet_end(datetime.fromisoformat(now), duration_s=duration_s)

    assert found == (datetime.fromisoformat(expected) if expected else None)


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "../../etc"},
        {"id": None},
        {"profile": 1},
        {"parameters": []},
        {"parameters": {"runtime": 1.5}},
        {"parameters": {"runtime": True}},
        {"directory": None},
    ],
)
def test_malformed_request_is_not_read(changed: dict[str, Any]) -> None:
    document = {"id": ID, "profile": "quick", "parameters": {"runtime": 4}, "directory": "/data"}

    assert read_requested_run(document) == RequestedRun(ID, "quick", {"runtime": 4}, "/data")
    assert read_requested_run({**document, **changed}) is None


def test_parameters_in_base_units_give_the_plan_of_the_command_line() -> None:
    requested = RequestedRun(ID, "saturation", {"limit": 1_500_000, "bs": 16384}, "/data")

    plan = requested.make_plan()

    assert plan.given == {"limit": 1_500_000, "bs": 16384}
    assert plan.values["runtime"] == 10


def test_ledger_counts_starts_of_24_hours(tmp_path: Path) -> None:
    ledger, other = RequestLedger(str(tmp_path)), ID.replace("0f", "1f")
    ledger.add(ID, 1_000.0)
    ledger.add(other, 50_000.0)
    ledger.add(ID, 60_000.0)

    assert ledger.count_starts(ID, 60_000.0) == 2
    assert ledger.find_quota_end(60_000.0, per_day=3) == 1_000.0 + 86_400
    assert ledger.find_quota_end(60_000.0, per_day=4) is None
    # The first start is over.
    assert ledger.find_quota_end(88_000.0, per_day=3) is None
    ledger.remove_last(ID, 60_000.0)
    assert ledger.count_starts(ID, 60_000.0) == 1


@pytest.mark.parametrize("content", ["", "[]", '{"started": 5}', '{"started": [{"at": "x"}, 3]}'])
def test_damaged_ledger_is_an_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "requests.json").write_text(content)

    assert RequestLedger(str(tmp_path)).list_started(0.0) == []
