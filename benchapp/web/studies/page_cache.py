"""Pages that cost the database much, kept in this process for a few minutes: each is made once, however many ask."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Kept:
    state: str
    page: bytes
    until_s: float


class KeptPages:
    """Pages by what they belong to (owner), its state, and their name in it.

    kept_s: how long a page is shown after it was made. pages_maximum, bytes_maximum: of all that is kept; what was
    asked for longest ago goes first. A page that is larger than bytes_maximum is made and not kept.
    """

    def __init__(self, *, kept_s: float, pages_maximum: int, bytes_maximum: int) -> None:
        self._kept_s = kept_s
        self._pages_maximum = pages_maximum
        self._bytes_maximum = bytes_maximum
        self._pages: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._makers: dict[tuple[str, str, str], threading.Lock] = {}

    def read_or_make(self, owner: str, name: str, *, state: str, make: Callable[[], bytes]) -> bytes:
        """Return the page of this state; whoever asks while another makes it waits for that one."""
        kept = self._read((owner, name), state)
        if kept is not None:
            return kept
        with self._lock:
            maker = self._makers.setdefault((owner, name, state), threading.Lock())
        with maker:
            kept = self._read((owner, name), state)
            if kept is not None:
                return kept
            try:
                page = make()
                self._keep((owner, name), _Kept(state, page, time.monotonic() + self._kept_s))
            finally:
                with self._lock:
                    self._makers.pop((owner, name, state), None)
        return page

    def forget(self, owner: str) -> None:
        """Drop all pages of an owner."""
        with self._lock:
            for key in [key for key in self._pages if key[0] == owner]:
                self._drop(key)

    def _read(self, key: tuple[str, str], state: str) -> bytes | None:
        """Return the page that is kept. One of another state, or one that is too old, is dropped."""
        with self._lock:
            kept = self._pages.get(key)
            if kept is None:
                return None
            if kept.state != state or kept.until_s <= time.monotonic():
                self._drop(key)
                return None
            self._pages.move_to_end(key)
            return kept.page

    def _keep(self, key: tuple[str, str], kept: _Kept) -> None:
        if len(kept.page) > self._bytes_maximum:
            return
        with self._lock:
            if key in self._pages:
                self._drop(key)
            self._pages[key] = kept
            self._bytes += len(kept.page)
            while len(self._pages) > self._pages_maximum or self._bytes > self._bytes_maximum:
                self._drop(next(iter(self._pages)))

    def _drop(self, key: tuple[str, str]) -> None:
        self._bytes -= len(self._pages.pop(key).page)
