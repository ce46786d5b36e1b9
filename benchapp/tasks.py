"""The asynchronous flow, top to bottom. The database row is the truth; the queue carries hints.

post → queue.wake_up → normalize ─┐
beat → sweep ─────────────────────┴─▶ normalize again while anything waits or is due
       normalize ─▶ judge the series that it touched: when nothing waits, and every 2 s while something does
       judge ─▶ changes, levels, incidents and notices in the outbox, one transaction per batch ─▶ notify
beat → renormalize what an older parser read, while nothing waits ─▶ judge
beat → confirm: request additional runs of unconfirmed regressions
beat, page → notify: look for silent hosts, send what is due of the outbox
beat → answer_layout_questions: notices of changed answers ─▶ notify
page → mail_reset_links, mail_address_link: send a link of an account
page, API → dry_run: evaluate series with other thresholds, and compare the incidents
no task for 30 s → Substitute: the same steps without the queue, by `drain`, until beat is back
page, API, forget → correct_runs: delete or relabel runs, or undo it; retention ─▶ judge
beat → resolve_recovered: resolve incidents that recovered weeks ago
beat → forget notices that were settled long ago, old dry runs, audit records, run requests and deleted runs
"""

import gc
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

import structlog
from celery import bootsteps, shared_task
from celery.signals import task_prerun, worker_init, worker_ready
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.utils import timezone

from benchapp.accounts.write.throttle import forget_old_attempts
from benchapp.celery import app
from benchapp.corrections.retention import make_retentions_due
from benchapp.corrections.write import advance_corrections, has_due_corrections, remove_deleted_runs
from benchapp.framework.write.audit import forget_old_audit_records
from benchapp.incidents.actions import triage
from benchapp.intake.normalize.batch import has_waiting, normalize_batch
from benchapp.intake.normalize.reparse import reparse_outdated
from benchapp.judge import detect_and_notify, has_judging_due
from benchapp.models import Heartbeat, Pulse
from benchapp.notices.channels.transport import NotDelivered
from benchapp.notices.write.email_confirmation import send_address_link, send_reset_links
from benchapp.notices.write.enqueue import send_due
from benchapp.notices.write.layout_answers import is_question_due, notify_layout_answers
from benchapp.notices.write.outbox import forget_old_notices
from benchapp.notices.write.silence_notices import notify_silent_hosts
from benchapp.policies.write import advance_dry_runs, forget_old_dry_runs, has_running_dry_runs
from benchapp.requests.write.polling import expire_requests, forget_old_requests
from benchapp.requests.write.run_requests import request_confirmations

log = structlog.get_logger(__name__)

# A task processes batches for this time, and then leaves the worker to others.
_TASK_BUDGET_S: Final = 20.0
# Interval of detection during a long backlog: levels and changes follow it this closely.
_JUDGING_INTERVAL_S: Final = 2.0
_SWEEP_LOCK: Final = 0x62656E63  # pg_advisory lock: "benc"

_STOP_TIMEOUT_S: Final = 20.0


@worker_init.connect
def freeze_modules(**_: object) -> None:
    """Freeze what is loaded, before the worker forks: it stays in memory that parent and children share."""
    gc.collect()
    gc.freeze()


@worker_ready.connect
def look_at_once(**_: object) -> None:
    """Look for what waits as soon as this worker has signed in to the broker."""
    normalize.delay()


@task_prerun.connect
def record_worker(**_: object) -> None:
    """Record that a worker executes tasks. Without PostgreSQL there is nothing to record, and the task fails."""
    with suppress(OperationalError, InterfaceError):
        Heartbeat.objects.record(Pulse.WORKER)


@shared_task(time_limit=90)
def normalize() -> None:
    """Normalize waiting submissions. Never retried: their rows still wait, and the sweep comes every 10 s.

    The hard limit kills the worker's child, which drops its locks; the row has counted the attempt.
    """
    started = hinted = time.monotonic()
    while time.monotonic() - started < _TASK_BUDGET_S:
        Heartbeat.objects.record(Pulse.WORKER)
        if normalize_batch().claimed == 0:
            _hint_judge()
            return
        if time.monotonic() - hinted >= _JUDGING_INTERVAL_S:
            _hint_judge()
            hinted = time.monotonic()
    with transaction.atomic():
        normalize.delay_on_commit()


def _hint_judge() -> None:
    """Have judged, by whoever is free, what was stored."""
    if has_judging_due():
        with transaction.atomic():
            judge.delay_on_commit()


@shared_task(time_limit=90)
def judge() -> None:
    """Detect changes in series that are due, and write notices into the outbox. Never retried: series stay due."""
    started, has_notices = time.monotonic(), False
    while time.monotonic() - started < _TASK_BUDGET_S:
        judged = detect_and_notify()
        has_notices |= judged.has_notices
        if not judged.series_ids:
            break
    else:
        _hint_judge()
    if has_notices:
        with transaction.atomic():
            notify.delay_on_commit()


@shared_task(time_limit=90)
def notify() -> None:
    """Notice who fell silent, and send what is due. Never retried: a notice keeps its own attempts.

    The hard limit is shorter than a sender's lease on what it took (outbox.LEASE). No soft one: it could strike between
    the receiver's answer and our writing it down, which would send twice.
    """
    notify_silent_hosts()
    send_due(budget_s=_TASK_BUDGET_S)


@shared_task(time_limit=90)
def answer_layout_questions() -> None:
    """Evaluate the layout questions of subscriptions that are due. Never retried: beat comes every five minutes."""
    if not is_question_due():
        return
    # Takes 3 MiB in each worker process, and few installations have a question.
    from benchapp.layouts.texts import NotAnswerable, find_layout_answer

    if notify_layout_answers(find_layout_answer, refusal=NotAnswerable, budget_s=_TASK_BUDGET_S):
        with transaction.atomic():
            notify.delay_on_commit()


@shared_task(time_limit=90, autoretry_for=(NotDelivered,), max_retries=4, retry_backoff=10, retry_jitter=True)
def mail_reset_links(login: str) -> None:
    """Send links for a lost password, which are created here: the queue has no secrets. Retried for some minutes."""
    send_reset_links(login)


@shared_task(time_limit=90, autoretry_for=(NotDelivered,), max_retries=4, retry_backoff=10, retry_jitter=True)
def mail_address_link(user_id: int, address: str) -> None:
    """Send the link that confirms an address for lost passwords. Retried as `mail_reset_links`."""
    send_address_link(user_id, address)


@shared_task(time_limit=90)
def confirm() -> None:
    """Request runs that confirm regressions, where policies and hosts allow it.

    Never retried: beat comes every minute.
    """
    request_confirmations(now=timezone.now())


@shared_task(time_limit=90)
def dry_run() -> None:
    """Advance dry runs of thresholds. Never retried: their rows are running, and the sweep comes every 10 s."""
    if advance_dry_runs(budget_s=_TASK_BUDGET_S):
        with transaction.atomic():
            dry_run.delay_on_commit()


@shared_task(time_limit=90)
def correct_runs() -> None:
    """Advance corrections of runs, or undo them. Never retried: they stay due, and the sweep comes every 10 s."""
    if advance_corrections(budget_s=_TASK_BUDGET_S):
        with transaction.atomic():
            correct_runs.delay_on_commit()
    _hint_judge()


@shared_task(time_limit=90)
def resolve_recovered() -> None:
    """Resolve incidents that recovered some time ago. Never retried: beat comes every hour."""
    triage.resolve_recovered()


@shared_task(time_limit=90)
def forget() -> None:
    """Delete what is kept for a while only. Never retried: beat comes every hour."""
    forget_old_notices()
    forget_old_dry_runs()
    forget_old_audit_records()
    forget_old_requests()
    remove_deleted_runs()
    if make_retentions_due():
        with transaction.atomic():
            correct_runs.delay_on_commit()


@shared_task(soft_time_limit=20, time_limit=30)
def sweep() -> None:
    """Wake the workers for what lost its wake-up; one sweep at a time."""
    Heartbeat.objects.record(Pulse.BEAT, Pulse.WORKER)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_SWEEP_LOCK])
        if cursor.fetchone() != (True,):
            return
        forget_old_attempts(now=timezone.now())
        expire_requests(now=timezone.now())
        if has_waiting():
            normalize.delay_on_commit()
        elif has_judging_due():
            judge.delay_on_commit()
        if has_running_dry_runs():
            dry_run.delay_on_commit()
        if has_due_corrections():
            correct_runs.delay_on_commit()


@shared_task(time_limit=90)
def renormalize() -> None:
    """Read again what an older parser read, or a mapping names, while nothing fresh and no correction waits.

    Never retried: beat comes every minute.
    """
    started = time.monotonic()
    while time.monotonic() - started < _TASK_BUDGET_S and not (has_waiting() or has_due_corrections()):
        if reparse_outdated() == 0:
            break
    _hint_judge()


def is_quiet(silence_s: float) -> bool:
    """Return whether three tasks of beat are missing: beat or the broker is away, frozen or full, or workers hang."""
    return silence_s >= 3 * settings.SWEEP_INTERVAL_S


class Substitute(bootsteps.StartStopStep):  # type: ignore[misc]
    """Step of a worker: a thread that starts `drain --substitute` if no worker has executed a task for 30 s.

    The thread needs no broker: the main thread hangs while the broker is frozen. A process, not the pool: its results
    pass through the main thread.
    """

    requires: ClassVar = {"celery.worker.components:Pool"}

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="substitute", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, parent: Any) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, parent: Any) -> None:
        """End the thread and its process, which completes its batch."""
        self._ending.set()
        self._thread.join()
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()

    terminate = stop

    def _watch(self) -> None:
        heartbeat_file = os.environ.get("BENCHAPP_HEARTBEAT_FILE")
        started = time.monotonic()
        while not self._ending.wait(settings.SWEEP_INTERVAL_S / 2):
            try:
                silence_s = Heartbeat.objects.read_silences()[Pulse.WORKER]
            except (OperationalError, InterfaceError) as error:
                log.warning("worker.database_away", error=str(error)[:200])
                continue
            finally:
                # PostgreSQL has a process less between two looks.
                connection.close()
            if heartbeat_file and not is_quiet(silence_s):
                Path(heartbeat_file).touch()
            is_running = self._process is not None and self._process.poll() is None
            if not is_running and is_quiet(min(silence_s, time.monotonic() - started)):
                log.warning("worker.no_task", silence_s=round(silence_s), answer="drain asks PostgreSQL")
                self._process = _start_drain()


def _start_drain() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "django", "drain", "--substitute"],
        cwd=settings.BASE_DIR,
        # The worker itself records the heartbeat.
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "benchapp.settings", "BENCHAPP_HEARTBEAT_FILE": ""},
        stdin=subprocess.DEVNULL,
    )


app.steps["worker"].add(Substitute)
