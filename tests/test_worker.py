"""What a worker does without its broker; tests/chaos has the faults themselves."""

import os
from math import inf
from typing import Any

import pytest
from django.core.management import call_command
from redis.exceptions import ConnectionError as BrokerLost

from benchapp.celery import app
from benchapp.management.commands import drain
from benchapp.models import Heartbeat, Pulse
from benchapp.tasks import Substitute
from tests.intake.normalize.test_batch import submit
from tests.stack import Server


def test_message_whose_settling_is_lost_leaves_room_for_the_next(
    valkey_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with app.connection_for_write() as connection:
        inbox = connection.SimpleQueue("celery")
        inbox.clear()
        app.send_task("benchapp.tasks.normalize")
        inbox.channel.basic_qos(prefetch_size=0, prefetch_count=1)
        message = inbox.get(timeout=30)

        def lose(*_: object) -> None:
            raise BrokerLost("closed by server")

        monkeypatch.setattr(inbox.channel.qos, "_remove_from_indices", lose)
        with pytest.raises(BrokerLost):
            message.ack()

        assert inbox.channel.qos.can_consume()


def test_substitute_is_a_step_of_the_worker() -> None:
    app.loader.import_default_modules()

    assert Substitute in app.steps["worker"]


@pytest.mark.django_db
@pytest.mark.parametrize("reason", ["beat is back", "parent has ended"])
def test_substitute_ends_when_it_is_not_needed(
    reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    submit()
    rounds = []

    def end_need(_: float) -> None:
        rounds.append(1)
        if reason == "beat is back":
            Heartbeat.objects.record(Pulse.BEAT)
        else:
            monkeypatch.setattr(os, "getppid", lambda: 1)

    monkeypatch.setattr(drain.signal, "signal", lambda *_: None)
    monkeypatch.setattr(drain, "close_old_connections", lambda: None)
    monkeypatch.setattr(drain.time, "sleep", end_need)
    call_command("drain", "--substitute")

    assert capsys.readouterr().out == "1 submissions processed\n"
    assert len(rounds) == 1
    assert Heartbeat.objects.read_silences()[Pulse.WORKER] < inf


@pytest.fixture(autouse=True)
def no_pause(settings: Any) -> None:
    settings.AUTO_RENORMALIZE = False
