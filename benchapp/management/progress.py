"""Progress display on standard error: a bar on a terminal, else a line every few seconds."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TextIO

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
