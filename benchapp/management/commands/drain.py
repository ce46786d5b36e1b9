"""`manage.py drain`: process submissions without a broker."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import structlog
from django.core.management.base import BaseCommand, CommandParser
from django.db import InterfaceError, OperationalError, close_old_connections

from benchapp.corrections.write import advance_corrections, has_due_corrections
from benchapp.incidents.actions.triage import resolve_recovered
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import reparse_outdated
from benchapp.judge import detect_and_notify
from benchapp.layouts.texts import NotAnswerable, find_layout_answer
from benchapp.models import Heartbeat, Pulse
from benchapp.notices.write.enqueue import send_due
from benchapp.notices.write.layout_answers import notify_layout_answers
from benchapp.notices.write.outbox import forget_old_notices
from benchapp.notices.write.silence_notices import notify_silent_hosts
from benchapp.tasks import is_quiet

log = structlog.get_logger(__name__)
_PAUSE_S = 1.0
_JUDGING_INTERVAL_S = 2.0
_NOTIFY_INTERVAL_S = 60.0
_CORRECTING_S = 20.0


class Command(BaseCommand):
    """Run the worker steps in this process: once, or forever with --loop."""

    _is_stopping = False
    help = "Process pending submissions, without a broker or workers."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --loop and --substitute."""
        parser.add_argument("--loop", action="store_true", help="run until stopped, polling every second")
        parser.add_argument(
            "--substitute",
            action="store_true",
            help="for workers: as --loop, until tasks of beat reach a worker, or the process that started it ends",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Process batches; update levels and detect changes every few seconds during a long backlog."""
        is_loop = options["loop"] or options["substitute"]
        parent = os.getppid() if options["substitute"] else None
        processed, judged_at, notified_at = 0, time.monotonic(), 0.0
        if is_loop:
            # A stop completes the batch.
            signal.signal(signal.SIGTERM, self._request_stop)
        try:
            while not self._is_over(parent):
                if heartbeat_file := os.environ.get("BENCHAPP_HEARTBEAT_FILE"):
                    Path(heartbeat_file).touch()
                claimed = self._try(_process_one_batch, is_loop=is_loop)
                processed += claimed
                if claimed and time.monotonic() - judged_at < _JUDGING_INTERVAL_S:
                    continue
                judged = self._try(_judge_one_batch, is_loop=is_loop)
                judged_at = time.monotonic()
                if claimed or judged:
                    continue
                if not is_loop:
                    break
                if self._try(_correct_or_reread, is_loop=is_loop):
                    continue
                if time.monotonic() - notified_at >= _NOTIFY_INTERVAL_S:
                    self._try(_notify, is_loop=is_loop)
                    notified_at = time.monotonic()
                close_old_connections()
                time.sleep(_PAUSE_S)
        except KeyboardInterrupt:
            pass
        self.stdout.write(f"{processed} submissions processed")

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True

    def _is_over(self, parent: int | None) -> bool:
        """Return whether the loop was stopped; a substitute, which has a parent, also ends without it or with beat."""
        if self._is_stopping or parent is None:
            return self._is_stopping
        try:
            return os.getppid() != parent or not is_quiet(Heartbeat.objects.read_silences()[Pulse.BEAT])
        except (OperationalError, InterfaceError):
            return False

    def _try(self, step: Callable[[], int], *, is_loop: bool) -> int:
        """Return how much a step did; a loop ignores an unavailable database."""
        try:
            return step()
        except (OperationalError, InterfaceError) as error:
            if not is_loop:
                raise
            log.warning("drain.database_away", error=str(error)[:200])
            return 0


def _process_one_batch() -> int:
    Heartbeat.objects.record(Pulse.WORKER)
    return normalize_batch().claimed


def _correct_or_reread() -> int:
    if has_due_corrections():
        return int(advance_corrections(budget_s=_CORRECTING_S))
    return reparse_outdated()


def _judge_one_batch() -> int:
    return len(detect_and_notify().series_ids)


def _notify() -> int:
    answers = notify_layout_answers(find_layout_answer, refusal=NotAnswerable)
    return answers + notify_silent_hosts() + send_due() + resolve_recovered() + forget_old_notices()
