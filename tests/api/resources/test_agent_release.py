"""The agent that the server ships: version, digest, signature, and whom the roll-out has reached."""

import hashlib

from django.test import Client

from benchapp.agent_archive import read_agent_version
from benchapp.models import Scope
from tests.factories import make_host


def test_release_describes_the_file_that_is_sent(reader, settings):
    settings.AGENT_SIGNATURE = "c2ln"
    content = Client().get("/agent/bench-agent.pyz").content

    body = reader.get("/api/v1/agent").json()

    assert body["version"] == read_agent_version()
    assert (body["sha256"], body["size_bytes"]) == (hashlib.sha256(content).hexdigest(), len(content))
    assert (body["signature"], body["rollout_percent"], body["is_offered"]) == ("c2ln", 100, None)


def test_release_is_offered_to_the_share_of_the_hosts(client_of, settings):
    client = client_of(Scope.INGEST, make_host("db-7"))

    offered = []
    for settings.AGENT_ROLLOUT_PERCENT in (0, 100):
        body = client.get("/api/v1/agent").json()
        offered.append((body["is_offered"], body["signature"]))

    assert offered == [(False, None), (True, None)]
