"""Request counts per key in the current time window, in this process, with bounded memory."""

import math
import threading
import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Counted:
    """count: of this key in the window, including this one. seconds_left: until the next window, at least 1.

    is_over: this one exceeds the maximum, and is not kept.
    """

    count: int
    seconds_left: int
    is_over: bool = False


@dataclass(slots=True)
class WindowQuota:
    """Counts keys in windows of window_s seconds that follow the clock: an hour's begin at the full hour.

    keys_maximum: in one window; further keys are counted as one, which bounds the memory and gives no extra
    quota. None: the number of keys is bounded elsewhere.
    """

    window_s: int
    keys_maximum: int | None = None
    _window: int = -1
    _counts: dict[object, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, key: object, times: int = 1, *, maximum: int | None = None) -> Counted:
        """Count one more of this key, or several; what would exceed the maximum is not kept."""
        now = time.time()
        window = int(now // self.window_s)
        with self._lock:
            if window != self._window:
                self._window, self._counts = window, {}
            if self.keys_maximum is not None and len(self._counts) >= self.keys_maximum:
                key = key if key in self._counts else None
            count = self._counts.get(key, 0) + times
            is_over = maximum is not None and count > maximum
            if not is_over:
                self._counts[key] = count
        return Counted(count, max(1, math.ceil((window + 1) * self.window_s - now)), is_over)
