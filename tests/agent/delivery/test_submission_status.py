"""Waiting until the server has stored or rejected a submission."""

import pytest

from agent.delivery.client import Client
from agent.delivery.deliver import wait_until_processed
from agent.exit_codes import ConfigurationError
from tests.agent import server as replies
from tests.agent.server import TOKEN, HostileServer

ID = "6f1c2a9e-0000-4000-8000-000000000000"


@pytest.fixture
def client(server: HostileServer) -> Client:
    return Client(server.url, TOKEN, timeout_s=20.0, ca_file=None)


def test_stored_submission_names_its_pages(client: Client) -> None:
    submission_status = wait_until_processed(client, ID, timeout_s=60)

    assert (submission_status.state, submission_status.pages, submission_status.reason) == (
        "stored",
        ("/runs/5/",),
        None,
    )


def test_rejected_submission_has_a_reason(client: Client, server: HostileServer) -> None:
    server.final_state = "rejected"

    submission_status = wait_until_processed(client, ID, timeout_s=60)

    assert (submission_status.state, submission_status.reason) == ("rejected", "no fio report found")


def test_wait_ends_after_its_timeout(client: Client, server: HostileServer) -> None:
    server.polls_until_final = 1000

    assert wait_until_processed(client, ID, timeout_s=0.3).state == "received"


@pytest.mark.parametrize(
    ("status", "code"), [(401, "token-revoked"), (403, "host-retired"), (404, "not-found")]
)
def test_refusal_ends_the_wait(client: Client, server: HostileServer, status: int, code: str) -> None:
    server.state = replies.reply_problem(status, code)

    with pytest.raises(ConfigurationError, match=f"status {status}, it is {code}"):
        wait_until_processed(client, ID, timeout_s=60)

    assert len(server.seen) == 1


@pytest.mark.parametrize("reply", [replies.reply_problem(503, "busy"), replies.reset, replies.captive_portal])
def test_temporary_failure_does_not_end_the_wait(
    client: Client, server: HostileServer, reply: replies.Reply
) -> None:
    def fail_once(handler: replies.Handler, body: bytes) -> None:
        server.state = None
        reply(handler, body)

    server.state = fail_once

    assert wait_until_processed(client, ID, timeout_s=60).state == "stored"
