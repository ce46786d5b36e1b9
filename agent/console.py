"""What the agent says: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import Any, Mapping, Sequence

from agent.quantities import format_duration

_BAR_WIDTH = 24
_REDRAW_INTERVAL_S = 0.5
# On no terminal, a line a minute shows that a long run lives and fills no log.
_PLAIN_INTERVAL_S = 60.0


class Console:
    """Speaks as --quiet and --json ask: quiet leaves only what is wrong, json one object on standard output."""

    def __init__(self, *, is_quiet: bool = False, is_json: bool = False) -> None:
        self.is_quiet = is_quiet
        self.is_json = is_json

    def say(self, text: str) -> None:
        """Print what was asked for."""
        if not (self.is_quiet or self.is_json):
            print(text, flush=True)

    def note(self, text: str) -> None:
        """Print what goes on."""
        if not self.is_quiet:
            print(text, file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Print what is wrong, always."""
        print(f"bench-agent: {text}", file=sys.stderr, flush=True)

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
        elapsed_s = now - self._started_at
        if self._is_terminal:
            self._draw(elapsed_s)
        else:
            print(f"{self._title}: {self._describe(elapsed_s)}", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Take the line away."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

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
