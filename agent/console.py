"""What the agent says: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from agent.quantities import format_duration, format_time

if TYPE_CHECKING:
    from agent.journal import Journal

_BAR_WIDTH = 24
_REDRAW_INTERVAL_S = 0.5
# On no terminal, a line a minute shows that a long run lives and fills no log.
_PLAIN_INTERVAL_S = 60.0
# What led to a failure is in its last lines.
_HELD_MAXIMUM = 100


class Console:
    """Speaks as --quiet and --json ask: quiet leaves only what is wrong, json one object on standard output."""

    def __init__(self, *, is_quiet: bool = False, is_json: bool = False) -> None:
        self.is_quiet = is_quiet
        self.is_json = is_json
        self.is_unattended = False
        self._held: list[str] = []
        self._journal: Journal | None = None

    def keep_journal(self, journal: Journal) -> None:
        """Write all that is said from now on to a log, too."""
        self._journal = journal

    def expect_nobody(self) -> None:
        """Say what goes on only if something is wrong, and when it was: cron mails every line that it sees."""
        self.is_unattended = True

    def record(self, text: str) -> None:
        """Keep what a display shows by itself for the log, and for whoever asks after a failure what came before."""
        if self._journal is not None:
            self._journal.write(text)
            if self._journal.problem:
                problem, self._journal = self._journal.problem, None
                self.warn(problem)
        if self.is_unattended and not self.is_quiet:
            self._held = [*self._held[1 - _HELD_MAXIMUM :], f"{format_time(time.time())} {text}"]

    def say(self, text: str) -> None:
        """Print what was asked for."""
        self.record(text)
        if not (self.is_quiet or self.is_json):
            print(text, flush=True)

    def note(self, text: str) -> None:
        """Print what goes on."""
        self.record(text)
        if not (self.is_quiet or self.is_unattended):
            print(text, file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Print what is wrong, always."""
        if self._journal is not None:
            self._journal.write(f"WRONG {text}")
        for line in self._held:
            print(line, file=sys.stderr)
        self._held = []
        when = f"{format_time(time.time())} " if self.is_unattended else ""
        print(f"{when}bench-agent: {text}", file=sys.stderr, flush=True)

    def emit(self, document: Mapping[str, Any]) -> None:
        """Print the command's outcome as JSON, where it was asked for."""
        if self.is_json:
            print(json.dumps(document, indent=1), flush=True)


class Progress:
    """Shows elapsed of the known total: one line that is redrawn on a terminal, few plain ones elsewhere."""

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
        """Say what begins and how long it takes."""
        self._started_at = self._shown_at = time.monotonic()
        if not self._is_quiet:
            text = f"{self._title} in {self._place}: takes about {format_duration(self._total_s)}"
            print(text, file=sys.stderr, flush=True)
        if self._is_terminal:
            self._draw(0.0)

    def tick(self) -> None:
        """Show how far it is, if it is time to; cheap enough to be called at any rate."""
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
            print(f"{self._title}: {self._describe(elapsed_s)}", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Take the line away."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _measure_elapsed(self, now: float) -> float:
        return now - self._started_at

    def _draw(self, elapsed_s: float) -> None:
        filled = round(_BAR_WIDTH * min(elapsed_s / self._total_s, 1.0))
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        line = f"{self._title}  [{bar}]  {self._describe(elapsed_s)}"
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{line[:width]}\x1b[K", end="", file=sys.stderr, flush=True)

    def _describe(self, elapsed_s: float) -> str:
        if elapsed_s > self._total_s:
            return f"{elapsed_s:.0f} s, about to end"
        step = self._steps[min(int(elapsed_s / self._total_s * len(self._steps)), len(self._steps) - 1)]
        return f"{step}, {elapsed_s:.0f} s of {self._total_s:.0f} s"


class SweepProgress(Progress):
    """Shows which step of how many, and the time left, over all the runs of a sweep.

    durations_s: what each step takes by the plan; where steps so far took longer, the rest is taken to do so, too.
    """

    def __init__(self, steps: Sequence[str], *, durations_s: Sequence[float], is_quiet: bool) -> None:
        super().__init__("sweep", "", steps=steps, total_s=sum(durations_s) or 1.0, is_quiet=is_quiet)
        self._durations_s = durations_s
        self._step = -1
        self._planned_s = 0.0
        self._taken_s = 0.0

    def begin_step(self, number: int) -> None:
        """Say which step comes, counted from 1 among all; said twice, it has begun with the first."""
        if self._step == number - 1:
            return
        self._step = number - 1
        self._started_at = self._shown_at = time.monotonic()
        if not self._is_quiet:
            self.finish()
            print(
                f"sweep: {self._describe(self._measure_elapsed(self._started_at))}",
                file=sys.stderr,
                flush=True,
            )

    def end_step(self) -> None:
        """Learn how long the step took."""
        self._planned_s += self._durations_s[self._step]
        self._taken_s += time.monotonic() - self._started_at

    def start(self) -> None:
        """Show the line; what begins was said by begin_step."""
        if self._is_terminal:
            self._draw(self._measure_elapsed(time.monotonic()))

    def _measure_elapsed(self, now: float) -> float:
        """Return how much of the planned time is behind us; a step that takes longer stands at its end."""
        before_s = sum(self._durations_s[: self._step])
        return before_s + min(now - self._started_at, self._durations_s[self._step])

    def _describe(self, elapsed_s: float) -> str:
        pace = max(self._taken_s / self._planned_s, 1.0) if self._planned_s else 1.0
        left = format_duration((self._total_s - elapsed_s) * pace)
        return f"step {self._step + 1} of {len(self._steps)}, {self._steps[self._step]}, about {left} left"
