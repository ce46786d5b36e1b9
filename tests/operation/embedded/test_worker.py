"""The worker with beat in one process."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from celery.apps.worker import Worker
from celery.worker.components import Beat

from benchapp.celery import app
from benchapp.operation.embedded.worker import BeatThread, EmbeddedWorker


def test_worker_has_the_steps_of_celery_and_beat_as_a_thread(tmp_path: Path) -> None:
    steps, usual = EmbeddedWorker.Blueprint.default_steps, Worker.Blueprint.default_steps
    worker: Any = SimpleNamespace(
        app=app, beat=None, schedule_filename=str(tmp_path / "schedule"), scheduler=None
    )

    service = BeatThread(worker, beat=True).create(worker)

    assert (usual - steps, steps - usual) == ({"celery.worker.components:Beat"}, {BeatThread})
    assert BeatThread.name == Beat.name
    assert service is worker.beat
    assert service.daemon and not service.is_alive()
    assert service.service.schedule_filename == str(tmp_path / "schedule")
