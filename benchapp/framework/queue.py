"""Publishes tasks by name, so that a process that accepts results imports no worker code.

A published task is a hint: the database row is the truth, and a lost hint is replaced by `tasks.sweep`.
"""

import time
from enum import StrEnum
from typing import Final

import structlog
from django.conf import settings
from kombu.connection import Connection
from kombu.exceptions import OperationalError as BrokerAway
from redis.exceptions import OutOfMemoryError

from benchapp.celery import app

log = structlog.get_logger(__name__)

NORMALIZE: Final = "benchapp.tasks.normalize"
NOTIFY: Final = "benchapp.tasks.notify"
DRY_RUN: Final = "benchapp.tasks.dry_run"
CORRECT_RUNS: Final = "benchapp.tasks.correct_runs"
SEND_RESET_LINKS: Final = "benchapp.tasks.mail_reset_links"
SEND_ADDRESS_LINK: Final = "benchapp.tasks.mail_address_link"
# After a publish that failed, nothing is published for this long: beat's sweep finds what was stored meanwhile.
_BROKER_PAUSE_S: Final = 10.0
# A hint that waited longer in the queue is dropped: a sweep has replaced it.
_EXPIRES_S: Final = 60
# After it a person has asked again.
_MAIL_EXPIRES_S: Final = 3600

_CHECK_TIMEOUT_S: Final = 1.0

_broker_away_until = 0.0


class BrokerState(StrEnum):
    """Whether the broker takes messages; none: no broker is configured."""

    OK = "ok"
    AWAY = "away"
    FULL = "full"
    NONE = "none"


def check_broker() -> BrokerState:
    """Write to the broker, as publishing does: a broker that is full still answers a ping. Within about two seconds."""
    if not settings.BROKER_URL:
        return BrokerState.NONE
    options = {
        "socket_connect_timeout": _CHECK_TIMEOUT_S,
        "socket_timeout": _CHECK_TIMEOUT_S,
        "max_retries": 0,
    }
    try:
        with Connection(settings.BROKER_URL, transport_options=options) as broker:  # type: ignore[no-untyped-call]
            broker.default_channel.client.set("benchapp-check", "", ex=1)
    except Exception as error:
        # Each transport has its own exceptions; all mean that the broker takes no message.
        log.warning("queue.check_failed", error=str(error)[:200])
        return BrokerState.FULL if isinstance(error, OutOfMemoryError) else BrokerState.AWAY
    return BrokerState.OK


def wake_up() -> bool:
    """Publish that submissions or series wait; False without a broker or while it is away."""
    return _publish(NORMALIZE)


def wake_notify() -> bool:
    """Publish that a notice waits; False without a broker or while it is away."""
    return _publish(NOTIFY)


def wake_dry_run() -> bool:
    """Publish that a dry run of thresholds waits; False without a broker or while it is away."""
    return _publish(DRY_RUN)


def wake_correction() -> bool:
    """Publish that runs wait to be corrected; False without a broker or while it is away."""
    return _publish(CORRECT_RUNS)


def queue_reset_links(login: str) -> bool:
    """Publish a request for a new password; False without a broker or while it is away.

    It has no row: a person who gets no mail asks again.
    """
    return _publish(SEND_RESET_LINKS, login, expires_s=_MAIL_EXPIRES_S)


def queue_address_link(user_id: int, address: str) -> bool:
    """Publish a request to confirm an address; as `queue_reset_links`."""
    return _publish(SEND_ADDRESS_LINK, user_id, address, expires_s=_MAIL_EXPIRES_S)


def _publish(name: str, *arguments: str | int, expires_s: int = _EXPIRES_S) -> bool:
    global _broker_away_until
    if not settings.BROKER_URL or time.monotonic() < _broker_away_until:
        return False
    try:
        app.send_task(name, arguments, expires=expires_s, ignore_result=True, retry=False)
    except (BrokerAway, OSError) as error:
        _broker_away_until = time.monotonic() + _BROKER_PAUSE_S
        log.warning("queue.broker_away", error=str(error)[:200], pause_s=_BROKER_PAUSE_S)
        return False
    return True
