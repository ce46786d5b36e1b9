"""A log that one can read: a line per event, in a file that stays small."""

from __future__ import annotations

import os
import time

from agent.quantities import format_time

# Some years of a daily run; with the one before it, the file takes twice this at most.
SIZE_MAXIMUM = 2**20


class Journal:
    """Appends to a file, which becomes FILE.1 when it is full; the FILE.1 before it is gone then."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problem: str | None = None

    def write(self, text: str) -> None:
        """Append one event, whose lines become one; a log that cannot be written ends no run: `problem` says why."""
        line = f"{format_time(time.time())} {' '.join(text.split())}\n"
        try:
            self._rotate(len(line))
            with open(self.path, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(line)
        except OSError as error:
            self.problem = f"the log {self.path} cannot be written: {error}"

    def _rotate(self, more_bytes: int) -> None:
        try:
            size_bytes = os.stat(self.path).st_size
        except FileNotFoundError:
            return
        if size_bytes + more_bytes > SIZE_MAXIMUM:
            os.replace(self.path, self.path + ".1")
