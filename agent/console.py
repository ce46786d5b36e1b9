"""Output of the agent: results on standard output, everything else on standard error, all of it in a log file."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from typing import Any, Mapping, Sequence, TextIO

from agent.quantities import format_duration, format_place, format_time

_BAR_WIDTH = 24
_REDRAW_INTERVAL_S = 0.5
# Without a terminal, one line per minute shows progress without filling a log.
_PLAIN_INTERVAL_S = 60.0
# The last lines before a failure contain its cause.
_BUFFERED_LINES_MAXIMUM = 100
# Erases the rest of the line.
_ERASE = "\x1b[K"
# Controls of terminals (C0 but tab and line feed, DEL, C1), and marks that change the direction of text.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Some years of a daily run; together with FILE.1 at most twice this.
SIZE_MAXIMUM = 2**20


def write_text(text: str, stream: TextIO, *, before: str = "", after: str = "\n") -> None:
    """Write text of any origin (server, fio, names of files) to a stream, with its control characters escaped.

    The only place that writes to a terminal. before, after: of the agent itself, not escaped.
    """
    print(f"{before}{_escape_controls(text)}", end=after, file=stream, flush=True)


def is_confirmed(question: str) -> bool:
    """Return whether a person answers a question with yes."""
    write_text(question, sys.stderr, after=" ")
    return sys.stdin.readline().strip() == "yes"


def _escape_controls(text: str) -> str:
    return _CONTROLS.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)


class Console:
    """Prints according to --quiet (errors only) and --json (one object on standard output).

    is_terminal: whether a person reads the output: standard error is a terminal, unlike under cron or systemd.
    """

    def __init__(self, *, is_quiet: bool = False, is_json: bool = False, is_terminal: bool = False) -> None:
        self.is_quiet = is_quiet
        self.is_json = is_json
        self.is_terminal = is_terminal
        self.is_unattended = False
        self._buffered: list[str] = []
        self._log: LogFile | None = None

    def attach_log(self, log_file: LogFile) -> None:
        """Write all further output also to a log."""
        self._log = log_file

    def set_unattended(self) -> None:
        """Buffer progress output and print it, with times, only after an error: cron mails every line."""
        self.is_unattended = True

    def record(self, text: str) -> None:
        """Write a line to the log, and buffer it to be printed if an error follows."""
        if self._log is not None:
            self._log.write(_escape_controls(text))
            if self._log.problem:
                problem, self._log = self._log.problem, None
                self.warn(problem)
        if self.is_unattended and not self.is_quiet:
            self._buffered = [
                *self._buffered[1 - _BUFFERED_LINES_MAXIMUM :],
                f"{format_time(time.time())} {text}",
            ]

    def report(self, text: str) -> None:
        """Print a result."""
        self.record(text)
        if not (self.is_quiet or self.is_json):
            write_text(text, sys.stdout)

    def note(self, text: str) -> None:
        """Print progress."""
        self.record(text)
        if not (self.is_quiet or self.is_unattended):
            write_text(text, sys.stderr)

    def warn(self, text: str) -> None:
        """Print an error or warning, also with --quiet."""
        if self._log is not None:
            self._log.write(f"ERROR {_escape_controls(text)}")
        for line in self._buffered:
            write_text(line, sys.stderr)
        self._buffered = []
        when = f"{format_time(time.time())} " if self.is_unattended else ""
        write_text(f"{when}bench-agent: {text}", sys.stderr)

    def annotate(self, lines: Sequence[str]) -> None:
        """Print workflow commands, which GitHub Actions reads from both outputs, also with --quiet."""
        for line in lines:
            self.record(line)
            write_text(line, sys.stderr)

    def emit(self, document: Mapping[str, Any]) -> None:
        """Print the command's result as JSON if --json was given."""
        if self.is_json:
            write_text(json.dumps(document, indent=1), sys.stdout)


class Progress:
    """Shows elapsed and total time: one line that is rewritten on a terminal, a line per minute elsewhere."""

    def __init__(
        self, title: str, place: str, *, steps: Sequence[str], total_s: float, is_quiet: bool
    ) -> None:
        self._title = title
        self._place = place
        self._steps = steps
        self._total_s = total_s
        self._is_quiet = is_quiet
        self._is_terminal = not is_quiet and sys.stderr.isatty()
        self._shown_at = float("-inf")
        self._started_at = time.monotonic()

    def start(self) -> None:
        """Print what starts and how long it takes."""
        self._started_at = self._shown_at = time.monotonic()
        if not self._is_quiet:
            duration = format_duration(self._total_s)
            write_text(f"{self._title} {format_place(self._place)}: takes about {duration}", sys.stderr)
        if self._is_terminal:
            self._draw(0.0)

    def tick(self) -> None:
        """Update the display if the interval has passed; cheap enough to call at any rate."""
        now = time.monotonic()
        if self._is_quiet or now - self._shown_at < (
            _REDRAW_INTERVAL_S if self._is_terminal else _PLAIN_INTERVAL_S
        ):
            return
        self._shown_at = now
        elapsed_s = self._measure_elapsed(now)
        if self._is_terminal:
            self._draw(elapsed_s)
        else:
            write_text(f"{self._title}: {self._describe(elapsed_s)}", sys.stderr)

    def finish(self) -> None:
        """Clear the line."""
        if self._is_terminal:
            write_text("", sys.stderr, before="\r", after=_ERASE)

    def _measure_elapsed(self, now: float) -> float:
        return now - self._started_at

    def _draw(self, elapsed_s: float) -> None:
        filled = round(_BAR_WIDTH * min(elapsed_s / self._total_s, 1.0))
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        line = f"{self._title}  [{bar}]  {self._describe(elapsed_s)}"
        width = shutil.get_terminal_size().columns - 1
        write_text(line[:width], sys.stderr, before="\r", after=_ERASE)

    def _describe(self, elapsed_s: float) -> str:
        if elapsed_s > self._total_s:
            return f"{elapsed_s:.0f} s, finishing"
        step = self._steps[min(int(elapsed_s / self._total_s * len(self._steps)), len(self._steps) - 1)]
        return f"{step}, {elapsed_s:.0f} s of {self._total_s:.0f} s"


class WaitProgress(Progress):
    """Shows how long the command has waited, and its limit: on a terminal at once, elsewhere after a minute."""

    def __init__(self, title: str, *, total_s: float, is_quiet: bool) -> None:
        super().__init__(title, "", steps=(), total_s=total_s or 1.0, is_quiet=is_quiet)

    def start(self) -> None:
        """Start the clock."""
        self._started_at = self._shown_at = time.monotonic()
        if self._is_terminal:
            self._draw(0.0)

    def _describe(self, elapsed_s: float) -> str:
        return f"{elapsed_s:.0f} s of at most {self._total_s:.0f} s"


class SweepProgress(Progress):
    """Shows step number, number of steps and time left over all runs of a sweep or experiment.

    durations_s: planned duration of each step; if earlier steps took longer, the estimate is scaled up.
    """

    def __init__(
        self, steps: Sequence[str], *, durations_s: Sequence[float], is_quiet: bool, name: str = "sweep"
    ) -> None:
        super().__init__(name, "", steps=steps, total_s=sum(durations_s) or 1.0, is_quiet=is_quiet)
        self._name = name
        self._durations_s = durations_s
        self._step = -1
        self._planned_s = 0.0
        self._taken_s = 0.0

    def begin_step(self, number: int) -> None:
        """Print which step starts, counted from 1; a second call for the same step has no effect."""
        if self._step == number - 1:
            return
        self._step = number - 1
        self._started_at = self._shown_at = time.monotonic()
        if not self._is_quiet:
            self.finish()
            write_text(f"{self._name}: {self._describe(self._measure_elapsed(self._started_at))}", sys.stderr)

    def end_step(self) -> None:
        """Record how long the step took."""
        self._planned_s += self._durations_s[self._step]
        self._taken_s += time.monotonic() - self._started_at

    def start(self) -> None:
        """Show the line; begin_step has printed the step."""
        if self._is_terminal:
            self._draw(self._measure_elapsed(time.monotonic()))

    def _measure_elapsed(self, now: float) -> float:
        """Return the elapsed part of the planned time; a step counts at most its planned duration."""
        before_s = sum(self._durations_s[: self._step])
        return before_s + min(now - self._started_at, self._durations_s[self._step])

    def estimate_left(self, number: int) -> float:
        """Return the seconds that the steps after this one, counted from 1, will take."""
        return sum(self._durations_s[number:]) * self._find_pace()

    def _find_pace(self) -> float:
        return max(self._taken_s / self._planned_s, 1.0) if self._planned_s else 1.0

    def _describe(self, elapsed_s: float) -> str:
        left = format_duration((self._total_s - elapsed_s) * self._find_pace())
        return f"step {self._step + 1} of {len(self._steps)}, {self._steps[self._step]}, about {left} left"


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
