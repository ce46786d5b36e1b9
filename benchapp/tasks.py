"""The asynchronous flow, top to bottom. The database row is the truth; the queue carries hints.

post → wake_up → normalize ─┐
beat → sweep ───────────────┴─▶ normalize again while anything waits
beat → renormalize what an older parser read, while nothing waits
"""

import gc
import threading
import time
from typing import Final

import structlog
from celery import shared_task
from celery.signals import worker_process_init
from django.conf import settings
from django.db import connection, transaction
from kombu.exceptions import OperationalError as BrokerAway

from benchapp.pipeline.accounts import forget_old_attempts
from benchapp.pipeline.catch_up import renormalize_older
from benchapp.pipeline.normalize import has_waiting, normalize_batch

log = structlog.get_logger(__name__)

# After a publish that failed, posts do not try for a while: beat's sweep takes what they brought.
_BROKER_PAUSE_S: Final = 10.0
# One task settles batches for this long, then lets others have the worker.
_TASK_BUDGET_S: Final = 20.0
_SWEEP_LOCK: Final = 0x62656E63  # pg_advisory lock: "benc"

_broker_lock = threading.Lock()
_broker_away_until = 0.0


@worker_process_init.connect
def tune_collector(**_: object) -> None:
    """Collect garbage rarely: a batch makes 100 000 objects that all die with it (measured: a fifth of its time)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@shared_task(time_limit=90)
def normalize() -> None:
    """Settle what waits. Never retried: the rows wait still, and the sweep comes every 10 s.

    The hard limit kills the worker's child, which drops its locks; the row has counted the attempt.
    """
    started = time.monotonic()
    while time.monotonic() - started < _TASK_BUDGET_S:
        if normalize_batch().claimed == 0:
            return
    with transaction.atomic():
        normalize.delay_on_commit()


@shared_task(soft_time_limit=20, time_limit=30)
def sweep() -> None:
    """Wake the workers for what lost its wake-up; one sweep at a time."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_SWEEP_LOCK])
        if cursor.fetchone() != (True,):
            return
        forget_old_attempts()
        if has_waiting():
            normalize.delay_on_commit()


@shared_task(time_limit=90)
def renormalize() -> None:
    """Read again what an older parser read, while nothing fresh waits. Never retried: beat comes every minute."""
    started = time.monotonic()
    while settings.AUTO_RENORMALIZE and time.monotonic() - started < _TASK_BUDGET_S and not has_waiting():
        if renormalize_older() == 0:
            return


def wake_up() -> bool:
    """Hint to the workers that something waits; False when there is no broker or it is away."""
    global _broker_away_until
    if not settings.BROKER_URL or time.monotonic() < _broker_away_until:
        return False
    try:
        normalize.apply_async(expires=60, ignore_result=True, retry=False)
    except (BrokerAway, OSError) as error:
        with _broker_lock:
            _broker_away_until = time.monotonic() + _BROKER_PAUSE_S
        log.warning("tasks.broker_away", error=str(error)[:200], pause_s=_BROKER_PAUSE_S)
        return False
    return True
