"""Tasks are published by name: what arrives at the broker, and what happens without one."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchapp.celery import app
from benchapp.framework import queue
from tests.stack import Server

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def forget_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start without the pause of an earlier test."""
    monkeypatch.setattr(queue, "_broker_away_until", 0.0)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the names that are published, to a broker that refuses notices."""
    names: list[str] = []

    def send_task(name: str, arguments: tuple[Any, ...], **options: Any) -> None:
        names.append(name)
        if name == queue.NOTIFY:
            raise ConnectionRefusedError("nobody listens")

    monkeypatch.setattr(app, "send_task", send_task)
    return names


def test_published_names_are_registered_tasks() -> None:
    app.loader.import_default_modules()

    names = {
        queue.NORMALIZE,
        queue.NOTIFY,
        queue.DRY_RUN,
        queue.SEND_RESET_LINKS,
        queue.SEND_ADDRESS_LINK,
    }
    assert names <= set(app.tasks)


def test_hint_reaches_the_broker_with_its_name_and_expires(valkey_server: Server) -> None:
    with app.connection_for_write() as connection:
        inbox = connection.SimpleQueue("celery")
        inbox.clear()

        # In a thread, as the ingest API does: Celery's current application is that of the thread.
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(queue.wake_up).result()
            assert threads.submit(queue.wake_notify).result()
            assert threads.submit(queue.wake_dry_run).result()
            assert threads.submit(queue.queue_address_link, 7, "anna@example.org").result()

        messages = [inbox.get(timeout=30) for _ in range(4)]
        for message in messages:
            message.ack()
    assert [message.headers["task"] for message in messages] == [
        "benchapp.tasks.normalize",
        "benchapp.tasks.notify",
        "benchapp.tasks.dry_run",
        "benchapp.tasks.mail_address_link",
    ]
    assert messages[-1].payload[0] == [7, "anna@example.org"]
    assert all(message.headers["expires"] for message in messages)


def test_without_a_broker_nothing_is_published(settings: Any, published: list[str]) -> None:
    settings.BROKER_URL = ""

    assert not queue.wake_up()
    assert not queue.wake_notify()
    assert published == []


def test_after_a_failed_publish_the_broker_is_asked_again_ten_seconds_later(
    published: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(queue.time, "monotonic", lambda: clock[0])

    assert not queue.wake_notify()
    clock[0] += 9.9
    assert not queue.wake_up()
    assert published == [queue.NOTIFY]

    clock[0] += 0.2
    published.clear()

    assert queue.wake_up()
    assert published == [queue.NORMALIZE]


def test_worker_freezes_its_objects_before_it_forks() -> None:
    """Children inherit frozen objects and thresholds; a freeze in the child would copy what it shares."""
    program = (
        "import django, gc; django.setup()\n"
        "import benchapp.tasks\n"
        "from celery.signals import worker_init\n"
        "worker_init.send(sender=None)\n"
        "print(gc.get_freeze_count() > 10_000, gc.get_threshold())"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout == "True (50000, 20, 50)\n"
