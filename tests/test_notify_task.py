"""The task that tells: from a host that fell silent to the letter about it."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from benchapp import tasks
from benchapp.framework.env import EmailServer
from benchapp.models import Subscription
from tests.factories import make_host
from tests.mail_server import serve_mail
from tests.received_notices import make_subscription

pytestmark = pytest.mark.django_db


def test_silent_host_arrives_by_mail_in_one_pass_and_once(settings: Any) -> None:
    settings.EMAIL_FROM = "bench@example.org"
    long_ago = timezone.now() - timedelta(days=3)
    entry = {"profile": "quick", "every_s": 3600, "splay_s": 0, "directory": "/data"}
    make_host("db-1", schedule=[entry], schedule_since_at=long_ago)
    make_subscription()
    Subscription.objects.update(created_at=long_ago)

    with serve_mail() as mail:
        settings.EMAIL_SERVER = EmailServer("127.0.0.1", mail.port, "", "", "none")
        tasks.notify()
        tasks.notify()

    assert [letter.message["Subject"] for letter in mail.letters] == ["[benchapp] Silent host: db-1"]


def test_beat_tells_every_minute(settings: Any) -> None:
    entry = settings.CELERY_BEAT_SCHEDULE["notify"]

    assert (entry["task"], entry["schedule"]) == ("benchapp.tasks.notify", 60.0)
