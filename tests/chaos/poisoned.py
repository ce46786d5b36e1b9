"""A worker's application whose parser is killed by one text, as by a fault in a C library.

Only a worker's process may import it: it replaces the reader and the pauses between attempts.
"""

# ruff: noqa: E402

import os
import signal
from typing import Any

import django

from benchapp.celery import app

django.setup()  # Celery does this only after the import of its application

from benchapp.intake.normalize import batch, plan
from tests.chaos import POISON

_read_output = plan.read_output


def _read_or_die(text: bytes, **options: Any) -> object:
    if POISON.encode() in text:
        os.kill(os.getpid(), signal.SIGKILL)
    return _read_output(text, **options)


plan.read_output = _read_or_die  # type: ignore[assignment]
batch.RETRY_PAUSES_S[:] = [1, 1, 1, 1, 0]

__all__ = ["app"]
