"""A sender that is killed after the receiver got the notice: a duplicate, recognizable by its id."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings as configured
from django.utils import timezone

from benchapp.models import Channel, Notice, NoticeState
from benchapp.notices.write.enqueue import enqueue, send_due
from tests.hook_server import HookServer, serve_hook
from tests.received_notices import make_event, make_incident, make_subscription

SENDER = "import django; django.setup(); from benchapp.notices.write.enqueue import send_due; send_due()"


@pytest.fixture
def hook(settings: Any) -> Iterator[HookServer]:
    with serve_hook() as server:
        settings.WEBHOOK_PORTS = (server.port,)
        settings.WEBHOOK_ALLOW_PRIVATE = [ip_network("127.0.0.0/8")]
        yield server


def start_sender(hook: HookServer) -> subprocess.Popen[bytes]:
    """Start a process that sends what is due of the test database."""
    database = urlsplit(os.environ["DATABASE_URL"])._replace(
        path=f"/{configured.DATABASES['default']['NAME']}"
    )
    env = os.environ | {
        "DATABASE_URL": database.geturl(),
        "DJANGO_SETTINGS_MODULE": "benchapp.settings",
        "BENCHAPP_WEBHOOK_PORTS": str(hook.port),
        "BENCHAPP_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8",
    }
    return subprocess.Popen([sys.executable, "-c", SENDER], env=env, cwd=configured.BASE_DIR)


@pytest.mark.django_db(transaction=True)
def test_notice_of_a_killed_sender_is_sent_again_under_the_same_id(hook: HookServer) -> None:
    came, may_answer = threading.Event(), threading.Event()

    def hold(handler: BaseHTTPRequestHandler) -> None:
        came.set()
        may_answer.wait(120)

    hook.respond = hold
    make_subscription(channel=Channel.WEBHOOK, address=hook.url)
    enqueue([make_event(make_incident()).pk])
    sender = start_sender(hook)
    assert came.wait(120)
    sender.kill()
    sender.wait()
    may_answer.set()

    left = Notice.objects.get()
    assert (left.state, left.attempts, left.log[0]["outcome"]) == (NoticeState.WAITING, 1, "")
    assert send_due() == 0  # the lease holds
    hook.respond = None
    Notice.objects.update(not_before_at=timezone.now())  # the lease is over
    assert send_due() == 1

    assert Notice.objects.get().state == NoticeState.SENT
    assert len({request.headers["webhook-id"] for request in hook.requests}) == 1
    assert len(hook.requests) == 2
