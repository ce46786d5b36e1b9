"""The command `poll`: requested runs within what the host allows, each result once."""

import json
import re
import signal
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent.delivery.spool import Spool
from agent.requests.poll_command import RequestLedger
from agent.requests.request_policy import RequestPolicy
from tests.agent import server as replies
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer

ID = "0f0e0d0c-0b0a-4908-8706-050403020100"
OTHER_ID = "0f0e0d0c-0b0a-4908-8706-050403020101"


def allow(host: Machine, **settings: str) -> None:
    """Allow the profile quick in the directory of the host, unless given otherwise."""
    usual = {"allow": "quick runtime=4..30", "directories": str(host.directory)}
    host.configure("requests", **{**usual, **settings})


def offer(server: HostileServer, host: Machine, **changes: Any) -> None:
    """Offer a run of 5 s per job in the directory of the host, unless given otherwise."""
    server.offers.append(
        {
            "id": ID,
            "profile": "quick",
            "parameters": {"runtime": 5},
            "directory": str(host.directory),
            **changes,
        }
    )


def read_polls(server: HostileServer) -> list[dict[str, Any]]:
    """Return the documents of the polls."""
    return [json.loads(seen.body) for seen in server.posts() if seen.path.endswith("/requests/next")]


def test_allowed_request_is_run_once_under_its_own_id(host: Machine, server: HostileServer) -> None:
    allow(host, quiet_hours="", per_day="2")
    offer(server, host)

    ended = host.run_json("poll")

    envelope = json.loads(server.stored[ID])
    assert (ended["exit_code"], ended["requests"]) == (0, {ID: "done"})
    assert (envelope["profile"], envelope["parameters"]) == ("quick", {"runtime": 5})
    assert "runtime=5\n" in envelope["command"]["jobfile"]
    assert server.reports == [{"id": ID, "state": "running", "duration_s": 22.0}]
    assert read_polls(server)[0] == {
        "profiles": [{"profile": "quick", "parameters": {"runtime": {"minimum": 4, "maximum": 30}}}],
        "directories": [str(host.directory)],
        "per_day": 2,
        "quiet_hours": [],
        "waits_for": None,
        "waits_until": None,
    }
    assert len(read_polls(server)) == 2


def test_outcomes_are_printed_with_the_url_or_the_reason(host: Machine, server: HostileServer) -> None:
    allow(host, per_day="1")
    offer(server, host)

    first = host.run("poll")
    server.offers_anyway = True
    offer(server, host, id=OTHER_ID)
    second = host.run("poll")

    assert first.stdout == f"request {ID}: done, {server.url}/api/v1/submissions/{ID}\n"
    assert second.stdout == f"request {OTHER_ID}: waiting, the host allows no more runs within 24 hours\n"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"profile": "saturation"}, "the profile is not in [requests] allow"),
        ({"parameters": {"size": 2**40}}, "a parameter is not in [requests] allow"),
        ({"parameters": {"runtime": 3600}}, "the value of a parameter is not in [requests] allow"),
        ({"directory": "/"}, "the directory is not in [requests] directories"),
    ],
)
def test_request_that_is_not_allowed_is_declined_whatever_the_server_checked(
    host: Machine, server: HostileServer, changes: dict[str, Any], reason: str
) -> None:
    allow(host)
    offer(server, host, **changes)

    ended = host.run_json("poll")

    assert ended["requests"] == {ID: "declined"}
    assert server.reports == [{"id": ID, "state": "declined", "reason": reason}]
    assert server.stored == {}


def test_host_without_allowed_requests_does_not_ask(host: Machine, server: HostileServer) -> None:
    offer(server, host)

    assert host.run_json("poll")["exit_code"] == 0
    assert server.seen == []


def test_withdrawn_policy_is_reported_once(host: Machine, server: HostileServer) -> None:
    allow(host)
    host.run("poll")
    config = Path(host.environ["BENCH_AGENT_CONFIG"])
    config.write_text(re.sub(r"allow = .*\n", "", config.read_text()))

    host.run("poll")
    host.run("poll")

    assert [len(document["profiles"]) for document in read_polls(server)] == [1, 0]


def test_request_of_a_killed_agent_is_started_once_more(host: Machine, server: HostileServer) -> None:
    allow(host)
    offer(server, host)
    agent = host.start("poll", FAKE_FIO="hanging")
    while not list(host.directory.glob("*/ready")):
        assert agent.poll() is None
        time.sleep(0.02)
    agent.send_signal(signal.SIGKILL)
    agent.communicate()
    ledger, now = RequestLedger(str(host.spool)), time.time()

    assert ledger.count_starts(ID, now) == 1
    ledger.add(ID, now)
    ended = host.run_json("poll")

    assert ended["requests"] == {ID: "failed"}
    assert [report["state"] for report in server.reports] == ["running", "failed"]
    assert server.reports[-1]["reason"] == "the agent was stopped 2 times during this run"
    assert server.stored == {}


def test_result_of_a_killed_delivery_is_delivered_and_not_measured_again(
    host: Machine, server: HostileServer
) -> None:
    allow(host)
    offer(server, host)
    server.usual = replies.reply_problem(503, "busy")
    host.run("poll", "--budget", "0")
    assert len(host.pending()) == 1

    refused = host.run_json("poll", "--budget", "0")
    server.usual = replies.accept
    host.run("poll")

    assert refused["requests"] == {ID: "done"}
    assert list(server.stored) == [ID]
    assert [report["state"] for report in server.reports] == ["running"]


def test_quota_and_quiet_hours_are_reported_and_nothing_is_started(
    host: Machine, server: HostileServer
) -> None:
    now = datetime.now()
    hours = "-".join(f"{now + timedelta(hours=offset):%H:%M}" for offset in (-1, 1))
    allow(host, per_day="1", quiet_hours=hours)
    offer(server, host)

    host.run("poll")
    RequestLedger(str(host.spool)).add(ID, time.time())
    host.run("poll")

    assert [document["waits_for"] for document in read_polls(server)] == ["quiet-hours", "quota"]
    assert server.reports == []


def test_host_starts_nothing_beyond_its_quota_whatever_the_server_offers(
    host: Machine, server: HostileServer
) -> None:
    allow(host, per_day="1")
    host.run("poll")
    RequestLedger(str(host.spool)).add("0" * 36, time.time())
    server.offers_anyway = True
    offer(server, host)

    ended = host.run_json("poll")

    assert ended["requests"] == {ID: "waiting"}
    assert [report["state"] for report in server.reports] == ["pending"]
    assert server.stored == {}


@pytest.mark.parametrize(("has_ended", "outcome"), [(False, "done"), (True, "waiting")])
def test_only_an_interrupted_request_is_started_beyond_the_quota(
    host: Machine, server: HostileServer, has_ended: bool, outcome: str
) -> None:
    allow(host, per_day="1")
    host.run("poll")
    ledger, now = RequestLedger(str(host.spool)), time.time()
    ledger.add(ID, now)
    if has_ended:
        ledger.end(ID, now)
    server.offers_anyway = True
    offer(server, host)

    assert host.run_json("poll")["requests"] == {ID: outcome}
    assert not ledger.is_interrupted(ID, now)


def test_run_that_fits_between_no_quiet_hours_is_declined(host: Machine, server: HostileServer) -> None:
    # All but a minute of each day; the run takes 98 s.
    allow(host, quiet_hours="00:00-12:00, 12:01-00:00", allow="quick runtime=4..30")
    server.offers_anyway = True
    offer(server, host, parameters={"runtime": 30})

    assert host.run_json("poll")["requests"] == {ID: "declined"}
    assert "longer than the time between quiet hours" in str(server.reports[-1]["reason"])


def test_run_is_stopped_when_quiet_hours_begin(
    host: Machine, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(host)
    offer(server, host)
    begins = datetime.now() + timedelta(seconds=0.5)
    monkeypatch.setattr(RequestPolicy, "find_quiet_start", lambda policy, now: begins)

    host.run("poll", FAKE_FIO="hanging")

    # With or without a report of fio, which may be stopped before it can write one.
    assert "time limit of 0 s" in f"{server.stored} {server.reports}"


def test_busy_host_defers_the_request_and_it_does_not_count(host: Machine, server: HostileServer) -> None:
    host.configure("run", max_load="0.000001")
    allow(host)
    offer(server, host)

    host.run("poll")

    assert [report["state"] for report in server.reports] == ["running", "pending"]
    assert RequestLedger(str(host.spool)).list_started(time.time()) == []


def test_failed_run_is_reported_with_the_error_of_fio(host: Machine, server: HostileServer) -> None:
    allow(host)
    offer(server, host)

    ended = host.run_json("poll", FAKE_FIO="silent")

    assert (ended["exit_code"], ended["requests"]) == (5, {ID: "failed"})
    assert "engine libaio not loadable" in str(server.reports[-1]["reason"])


def test_failed_run_with_a_report_is_delivered_and_its_request_failed(
    host: Machine, server: HostileServer
) -> None:
    allow(host)
    offer(server, host)

    ended = host.run_json("poll", FAKE_FIO="failing")

    assert (ended["exit_code"], ended["requests"]) == (5, {ID: "failed"})
    assert ID in server.stored


def test_scheduled_run_polls_afterwards_and_a_run_on_a_terminal_does_not(
    host: Machine, server: HostileServer
) -> None:
    allow(host)
    offer(server, host)

    host.measure("--wait", "0", is_terminal=True)
    assert ID not in server.stored
    host.measure()

    assert ID in server.stored


def test_poll_during_a_run_ends_without_an_error(host: Machine, server: HostileServer) -> None:
    allow(host)

    with Spool(str(host.spool), max_bytes=2**20).lock():
        ended = host.run_json("poll")

    assert (ended["exit_code"], ended["requests"]) == (0, {})
    assert "another bench-agent is running" in ended["problem"]


def test_server_that_is_away_fails_the_poll_with_a_temporary_status(
    host: Machine, server: HostileServer
) -> None:
    allow(host)

    assert host.run("poll", BENCH_AGENT_URL="http://127.0.0.1:1").returncode == 1


def test_check_shows_what_is_allowed(host: Machine, server: HostileServer) -> None:
    allow(host)

    found = {check["name"]: check for check in host.run_json("check")["checks"]}

    assert found["requests"]["detail"] == f"quick in {host.directory}; at most 4 in 24 h"
