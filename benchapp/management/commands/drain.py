"""`manage.py drain`: settle what was received without any broker."""

import time
from typing import Any

import structlog
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import InterfaceError, OperationalError, close_old_connections

from benchapp.pipeline.catch_up import renormalize_older
from benchapp.pipeline.normalize import normalize_batch

log = structlog.get_logger(__name__)
_PAUSE_S = 1.0


class Command(BaseCommand):
    """Run the step of the workers in this process: once, or for ever with --loop."""

    help = "Settle the submissions that wait, without a broker or workers."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --loop."""
        parser.add_argument("--loop", action="store_true", help="go on until stopped, looking every second")

    def handle(self, *args: Any, **options: Any) -> None:
        """Settle batch after batch."""
        settled = 0
        try:
            while True:
                claimed = self._settle_one_batch(is_loop=options["loop"])
                settled += claimed
                if claimed:
                    continue
                if not options["loop"]:
                    break
                if settings.AUTO_RENORMALIZE and self._catch_up():
                    continue
                close_old_connections()
                time.sleep(_PAUSE_S)
        except KeyboardInterrupt:
            pass
        self.stdout.write(f"{settled} submissions worked in")

    def _settle_one_batch(self, *, is_loop: bool) -> int:
        try:
            return normalize_batch().claimed
        except (OperationalError, InterfaceError) as error:
            if not is_loop:
                raise
            log.warning("drain.database_away", error=str(error)[:200])
            return 0

    def _catch_up(self) -> int:
        try:
            return renormalize_older()
        except (OperationalError, InterfaceError) as error:
            log.warning("drain.database_away", error=str(error)[:200])
            return 0
