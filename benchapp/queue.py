"""Publishes tasks by name, so that a process that accepts results imports no worker code.

A published task is a hint: the database row is the truth, and a lost hint is replaced by `tasks.sweep`.
"""

import time
from typing import Final

import structlog
from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError as BrokerAway

log = structlog.get_logger(__name__)

NORMALIZE: Final = "benchapp.tasks.normalize"
NOTIFY: Final = "benchapp.tasks.notify"
DRY_RUN: Final = "benchapp.tasks.dry_run"
# After a publish that failed, nothing is published for this long: beat's sweep finds what was stored meanwhile.
_BROKER_PAUSE_S: Final = 10.0
# A hint that waited longer in the queue is dropped: a sweep has replaced it.
_EXPIRES_S: Final = 60

_broker_away_until = 0.0


def wake_up() -> bool:
    """Publish that submissions or series wait; False without a broker or while it is away."""
    return _publish(NORMALIZE)


def wake_notify() -> bool:
    """Publish that a notice waits; False without a broker or while it is away."""
    return _publish(NOTIFY)


def wake_dry_run() -> bool:
    """Publish that a dry run of thresholds waits; False without a broker or while it is away."""
    return _publish(DRY_RUN)


def _publish(name: str) -> bool:
    global _broker_away_until
    if not settings.BROKER_URL or time.monotonic() < _broker_away_until:
        return False
    try:
        current_app.send_task(name, expires=_EXPIRES_S, ignore_result=True, retry=False)
    except (BrokerAway, OSError) as error:
        _broker_away_until = time.monotonic() + _BROKER_PAUSE_S
        log.warning("queue.broker_away", error=str(error)[:200], pause_s=_BROKER_PAUSE_S)
        return False
    return True
