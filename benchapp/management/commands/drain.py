"""`manage.py drain`: settle what was received without any broker."""

import time
from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import InterfaceError, OperationalError, close_old_connections

from benchapp.pipeline.judge import detect_and_notify
from benchapp.pipeline.normalize.batch import normalize_batch
from benchapp.pipeline.normalize.reparse import reparse_outdated
from benchapp.pipeline.normalize.summaries import summarize_due
from benchapp.pipeline.notifications.enqueue import send_due
from benchapp.pipeline.notifications.outbox import forget_old_notices
from benchapp.pipeline.notifications.silence_notices import notify_silent_hosts

log = structlog.get_logger(__name__)
_PAUSE_S = 1.0
_SUMMARY_INTERVAL_S = 2.0
_NOTIFY_INTERVAL_S = 60.0


class Command(BaseCommand):
    """Run the step of the workers in this process: once, or for ever with --loop."""

    help = "Settle the submissions that wait, without a broker or workers."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --loop."""
        parser.add_argument("--loop", action="store_true", help="go on until stopped, looking every second")

    def handle(self, *args: Any, **options: Any) -> None:
        """Settle batch after batch; summarise behind it, every few seconds of a long backlog; judge at the end."""
        is_loop = options["loop"]
        settled, summarized, told = 0, time.monotonic(), 0.0
        try:
            while True:
                claimed = self._try(_settle_one_batch, is_loop=is_loop)
                settled += claimed
                if claimed and time.monotonic() - summarized < _SUMMARY_INTERVAL_S:
                    continue
                is_summarizing = self._try(summarize_due, is_loop=is_loop) > 0
                summarized = time.monotonic()
                if claimed or is_summarizing or self._try(_judge_one_batch, is_loop=is_loop):
                    continue
                if not is_loop:
                    break
                if settings.AUTO_RENORMALIZE and self._try(reparse_outdated, is_loop=is_loop):
                    continue
                if time.monotonic() - told >= _NOTIFY_INTERVAL_S:
                    self._try(_notify, is_loop=is_loop)
                    told = time.monotonic()
                close_old_connections()
                time.sleep(_PAUSE_S)
        except KeyboardInterrupt:
            pass
        self.stdout.write(f"{settled} submissions worked in")

    def _try(self, step: Callable[[], int], *, is_loop: bool) -> int:
        """Return how much a step did; a loop goes on where the database is away."""
        try:
            return step()
        except (OperationalError, InterfaceError) as error:
            if not is_loop:
                raise
            log.warning("drain.database_away", error=str(error)[:200])
            return 0


def _settle_one_batch() -> int:
    return normalize_batch().claimed


def _judge_one_batch() -> int:
    return len(detect_and_notify().series_ids)


def _notify() -> int:
    return notify_silent_hosts() + send_due() + forget_old_notices()
