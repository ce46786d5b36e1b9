"""A log file with one line per event and bounded size."""

from __future__ import annotations

import os
import time

from agent.quantities import format_time

# Some years of a daily run; together with FILE.1 at most twice this.
SIZE_MAXIMUM = 2**20


class LogFile:
    """Appends to a file, which is renamed to FILE.1 when full, replacing an older FILE.1."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problem: str | None = None

    def write(self, text: str) -> None:
        """Append one event as one line; a write error does not end the run and is stored in `problem`."""
        line = f"{format_time(time.time())} {' '.join(text.split())}\n"
        try:
            self._rotate(len(line))
            with open(self.path, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(line)
        except OSError as error:
            self.problem = f"cannot write the log {self.path}: {error}"

    def _rotate(self, more_bytes: int) -> None:
        try:
            size_bytes = os.stat(self.path).st_size
        except FileNotFoundError:
            return
        if size_bytes + more_bytes > SIZE_MAXIMUM:
            os.replace(self.path, self.path + ".1")
