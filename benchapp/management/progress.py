"""Progress display on standard error: a bar on a terminal, else a line every few seconds."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import InterfaceError, OperationalError, connection

from benchapp.operation.embedded.backup import BackupFailed, Connection, find_home, open_database
from benchapp.operation.embedded.child import NoAccount
from benchapp.operation.embedded.command import default_data_directory
from benchapp.operation.embedded.servers import NoBinaries

_BAR_WIDTH: Final = 24
_BAR_EVERY_S: Final = 0.1
_LINE_EVERY_S: Final = 5.0
# A rate over less time is not meaningful.
_RATE_AFTER_S: Final = 0.5


@dataclass(slots=True)
class Progress:
    """Progress of a command; clock in s. unit: what is counted."""

    total: int
    stream: TextIO
    is_quiet: bool = False
    unit: str = "files"
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _shown: float = field(init=False)
    _width: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._began = self._shown = self.clock()

    def show(self, done: int) -> None:
        """Update the display if the interval has passed."""
        now = self.clock()
        is_terminal = self.stream.isatty()
        if self.is_quiet or now - self._shown < (_BAR_EVERY_S if is_terminal else _LINE_EVERY_S):
            return
        self._shown = now
        text = describe(done, self.total, now - self._began, unit=self.unit)
        if not is_terminal:
            self.stream.write(f"{text}\n")
        else:
            line = f"{draw_bar(done, self.total)} {text}"
            self.stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        self.stream.flush()

    def show_of(self, done: int, total: int) -> None:
        """Update the display of work whose total was not known at the start."""
        self.total = total
        self.show(done)

    def close(self) -> None:
        """Clear the bar."""
        if self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()


def describe(done: int, total: int, elapsed_s: float, *, unit: str = "files") -> str:
    """Return count, rate and time left as text: "120 of 2000 files, 310/s, 7 s left"."""
    text = f"{done} of {total} {unit}"
    if done == 0 or elapsed_s < _RATE_AFTER_S:
        return text
    rate = done / elapsed_s
    shown = f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s"
    return f"{text}, {shown}, {_format_time((total - done) / rate)} left"


def draw_bar(done: int, total: int) -> str:
    """Return a bar of `done` in `total`."""
    filled = _BAR_WIDTH * done // total if total else _BAR_WIDTH
    return "[" + "#" * filled + "." * (_BAR_WIDTH - filled) + "]"


def _format_time(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60:02} s"
        if whole < 3600
        else f"{whole // 3600} h {whole % 3600 // 60:02} min"
    )


def add_data_directory(parser: CommandParser) -> None:
    """Add the option --data-dir, for `use_database`."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=default_data_directory(os.environ),
        help="data directory of `up`, without DATABASE_URL (default: var)",
    )


@contextmanager
def use_database(
    data_directory: Path, *, failed: str = "run the command again later"
) -> Iterator[Connection]:
    """Use the database of DATABASE_URL, else the embedded one, whether its stack is running or not.

    Raises CommandError if there is none, or if it fails while it is used. failed: what the user needs to know then.
    """
    try:
        with open_database(data_directory, settings.DATABASES["default"]) as opened:
            if is_embedded := find_home(data_directory) is not None:
                known = opened.environment
                connection.close()
                connection.settings_dict.update(
                    HOST=known["PGHOST"], USER=known["PGUSER"], NAME=known["PGDATABASE"], PORT=""
                )
            yield opened
            if is_embedded:
                connection.close()
    except (BackupFailed, NoAccount, NoBinaries) as error:
        raise CommandError(str(error)) from error
    except (OperationalError, InterfaceError) as error:
        raise CommandError(f"database error: {error}; {failed}") from error
