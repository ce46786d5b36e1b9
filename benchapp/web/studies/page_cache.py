"""Cache of expensive pages in this process: each is rendered once for any number of concurrent requests."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


class TooManyReaders(Exception):
    """As many requests as may wait already wait for pages that others render."""


@dataclass(frozen=True, slots=True)
class _CachedPage:
    state: str
    page: bytes
    until_s: float


class PageCache:
    """Pages by owner, name and state of the owner.

    ttl_s: lifetime of a page. pages_maximum, bytes_maximum: of the whole cache; the least recently used pages are
    evicted. A page larger than bytes_maximum is not cached. waiting_maximum: requests that wait for pages which others
    render; each occupies a thread.
    """

    def __init__(self, *, ttl_s: float, pages_maximum: int, bytes_maximum: int, waiting_maximum: int) -> None:
        self._ttl_s = ttl_s
        self._pages_maximum = pages_maximum
        self._bytes_maximum = bytes_maximum
        self._pages: OrderedDict[tuple[str, str], _CachedPage] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(waiting_maximum)
        self._render_locks: dict[tuple[str, str, str], threading.Lock] = {}

    def get_or_render(self, owner: str, name: str, *, state: str, render: Callable[[], bytes]) -> bytes:
        """Return the page in this state; concurrent requests wait for the first one to render it.

        Raises TooManyReaders if waiting_maximum requests wait already.
        """
        cached = self._read((owner, name), state)
        if cached is not None:
            return cached
        with self._lock:
            lock = self._render_locks.setdefault((owner, name, state), threading.Lock())
        self._acquire(lock)
        try:
            cached = self._read((owner, name), state)
            if cached is not None:
                return cached
            try:
                page = render()
                self._store((owner, name), _CachedPage(state, page, time.monotonic() + self._ttl_s))
            finally:
                with self._lock:
                    self._render_locks.pop((owner, name, state), None)
        finally:
            lock.release()
        return page

    def discard(self, owner: str) -> None:
        """Remove all pages of an owner."""
        with self._lock:
            for key in [key for key in self._pages if key[0] == owner]:
                self._drop(key)

    def _acquire(self, lock: threading.Lock) -> None:
        if lock.acquire(blocking=False):
            return
        if not self._waiting.acquire(blocking=False):
            raise TooManyReaders
        try:
            lock.acquire()
        finally:
            self._waiting.release()

    def _read(self, key: tuple[str, str], state: str) -> bytes | None:
        """Return the cached page; drop one in another state, or an expired one."""
        with self._lock:
            cached = self._pages.get(key)
            if cached is None:
                return None
            if cached.state != state or cached.until_s <= time.monotonic():
                self._drop(key)
                return None
            self._pages.move_to_end(key)
            return cached.page

    def _store(self, key: tuple[str, str], cached: _CachedPage) -> None:
        if len(cached.page) > self._bytes_maximum:
            return
        with self._lock:
            if key in self._pages:
                self._drop(key)
            self._pages[key] = cached
            self._bytes += len(cached.page)
            while len(self._pages) > self._pages_maximum or self._bytes > self._bytes_maximum:
                self._drop(next(iter(self._pages)))

    def _drop(self, key: tuple[str, str]) -> None:
        self._bytes -= len(self._pages.pop(key).page)
