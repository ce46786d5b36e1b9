"""Waiting until the server has stored or rejected a submission."""

import pytest

from agent.delivery.client import Client
from agent.delivery.submission_status import wait_until_processed
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
