"""The page cache: one rendering per page, bounded size, invalidation."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from types import SimpleNamespace

import pytest

from benchapp.web.studies.page_cache import PageCache, TooManyReaders
from tests.servers import wait_for


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    def set_to(at_s: float) -> None:
        clock = SimpleNamespace(monotonic=lambda: at_s)
        monkeypatch.setattr("benchapp.web.studies.page_cache.time", clock)

    set_to(0.0)
    return set_to


def cache(pages: PageCache, owner: str, page: bytes, *, name: str = "1", state: str = "a") -> bytes:
    return pages.get_or_render(owner, name, state=state, render=lambda: page)


def test_page_is_cached_until_it_expires(set_clock: Callable[[float], None]) -> None:
    pages = PageCache(ttl_s=300, pages_maximum=10, bytes_maximum=1000, waiting_maximum=16)
    cache(pages, "x", b"old")

    set_clock(299.9)
    assert cache(pages, "x", b"new") == b"old"
    set_clock(300.0)
    assert cache(pages, "x", b"new") == b"new"


def test_page_in_another_state_is_rendered_again(set_clock: Callable[[float], None]) -> None:
    pages = PageCache(ttl_s=300, pages_maximum=10, bytes_maximum=1000, waiting_maximum=16)
    cache(pages, "x", b"old")

    assert cache(pages, "x", b"new", state="b") == b"new"
    assert cache(pages, "x", b"newest", state="b") == b"new"


def test_discarding_an_owner_does_not_affect_others(set_clock: Callable[[float], None]) -> None:
    pages = PageCache(ttl_s=300, pages_maximum=10, bytes_maximum=1000, waiting_maximum=16)
    for owner, name in (("x", "1"), ("x", "2"), ("y", "1")):
        cache(pages, owner, b"old", name=name)

    pages.discard("x")

    assert [cache(pages, "x", b"new", name=name) for name in ("1", "2")] == [b"new", b"new"]
    assert cache(pages, "y", b"new") == b"old"


def test_least_recently_used_page_is_evicted(set_clock: Callable[[float], None]) -> None:
    pages = PageCache(ttl_s=300, pages_maximum=2, bytes_maximum=1000, waiting_maximum=16)
    cache(pages, "x", b"old")
    cache(pages, "y", b"old")
    cache(pages, "x", b"new")

    cache(pages, "z", b"old")

    assert cache(pages, "x", b"new") == b"old"
    assert cache(pages, "y", b"new") == b"new"


def test_total_size_is_bounded(set_clock: Callable[[float], None]) -> None:
    pages = PageCache(ttl_s=300, pages_maximum=10, bytes_maximum=10, waiting_maximum=16)
    cache(pages, "x", b"123456")
    cache(pages, "y", b"123456")

    assert cache(pages, "y", b"new") == b"123456"
    assert cache(pages, "x", b"new") == b"new"


def test_page_over_the_size_limit_is_not_cached(set_clock: Callable[[float], None]) -> None:
    pages = PageCache(ttl_s=300, pages_maximum=10, bytes_maximum=10, waiting_maximum=16)
    cache(pages, "x", b"small")

    assert cache(pages, "y", b"12345678901") == b"12345678901"
    assert cache(pages, "y", b"new") == b"new"
    assert cache(pages, "x", b"new") == b"small"


def test_concurrent_requests_render_a_page_once() -> None:
    pages = PageCache(ttl_s=300, pages_maximum=10, bytes_maximum=1000, waiting_maximum=16)
    made: list[str] = []
    at_the_door = Barrier(8)
    is_asked = Event()

    def make() -> bytes:
        made.append("made")
        is_asked.wait(0.05)
        return b"page"

    def ask(_: int) -> bytes:
        at_the_door.wait()
        return pages.get_or_render("x", "1", state="a", render=make)

    with ThreadPoolExecutor(8) as asking:
        answers = list(asking.map(ask, range(8)))

    assert (answers, made) == ([b"page"] * 8, ["made"])


def test_page_is_rendered_again_after_an_error() -> None:
    pages = PageCache(ttl_s=300, pages_maximum=10, bytes_maximum=1000, waiting_maximum=16)

    def fail() -> bytes:
        raise RuntimeError("the database is away")

    with pytest.raises(RuntimeError):
        pages.get_or_render("x", "1", state="a", render=fail)

    assert cache(pages, "x", b"page") == b"page"


def test_only_so_many_requests_wait_for_a_page_that_another_renders() -> None:
    pages = PageCache(ttl_s=300, pages_maximum=10, bytes_maximum=1000, waiting_maximum=1)
    is_rendering, is_done = Event(), Event()

    def render() -> bytes:
        is_rendering.set()
        is_done.wait(60)
        return b"page"

    def ask(_: int) -> bytes:
        return pages.get_or_render("x", "1", state="a", render=render)

    with ThreadPoolExecutor(2) as asking:
        first = asking.submit(ask, 1)
        assert is_rendering.wait(60)
        second = asking.submit(ask, 2)
        wait_for(lambda: pages._waiting._value == 0, within_s=60, what="one request waits")
        try:
            with pytest.raises(TooManyReaders):
                ask(3)
        finally:
            is_done.set()

        assert (first.result(60), second.result(60)) == (b"page", b"page")

    assert ask(4) == b"page"
