"""Pages kept in the process: made once, bounded, and dropped when they are no longer true."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from types import SimpleNamespace

import pytest

from benchapp.web.studies.page_cache import KeptPages


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    def set_to(at_s: float) -> None:
        clock = SimpleNamespace(monotonic=lambda: at_s)
        monkeypatch.setattr("benchapp.web.studies.page_cache.time", clock)

    set_to(0.0)
    return set_to


def keep(pages: KeptPages, owner: str, page: bytes, *, name: str = "1", state: str = "a") -> bytes:
    return pages.read_or_make(owner, name, state=state, make=lambda: page)


def test_page_is_kept_for_its_time(set_clock: Callable[[float], None]) -> None:
    pages = KeptPages(kept_s=300, pages_maximum=10, bytes_maximum=1000)
    keep(pages, "x", b"old")

    set_clock(299.9)
    assert keep(pages, "x", b"new") == b"old"
    set_clock(300.0)
    assert keep(pages, "x", b"new") == b"new"


def test_page_of_another_state_is_made_anew(set_clock: Callable[[float], None]) -> None:
    pages = KeptPages(kept_s=300, pages_maximum=10, bytes_maximum=1000)
    keep(pages, "x", b"old")

    assert keep(pages, "x", b"new", state="b") == b"new"
    assert keep(pages, "x", b"newest", state="b") == b"new"


def test_forgotten_owner_has_no_page_and_others_keep_theirs(set_clock: Callable[[float], None]) -> None:
    pages = KeptPages(kept_s=300, pages_maximum=10, bytes_maximum=1000)
    for owner, name in (("x", "1"), ("x", "2"), ("y", "1")):
        keep(pages, owner, b"old", name=name)

    pages.forget("x")

    assert [keep(pages, "x", b"new", name=name) for name in ("1", "2")] == [b"new", b"new"]
    assert keep(pages, "y", b"new") == b"old"


def test_what_was_asked_for_longest_ago_goes_first(set_clock: Callable[[float], None]) -> None:
    pages = KeptPages(kept_s=300, pages_maximum=2, bytes_maximum=1000)
    keep(pages, "x", b"old")
    keep(pages, "y", b"old")
    keep(pages, "x", b"new")

    keep(pages, "z", b"old")

    assert keep(pages, "x", b"new") == b"old"
    assert keep(pages, "y", b"new") == b"new"


def test_bytes_are_bounded(set_clock: Callable[[float], None]) -> None:
    pages = KeptPages(kept_s=300, pages_maximum=10, bytes_maximum=10)
    keep(pages, "x", b"123456")
    keep(pages, "y", b"123456")

    assert keep(pages, "y", b"new") == b"123456"
    assert keep(pages, "x", b"new") == b"new"


def test_page_that_is_too_large_is_shown_and_not_kept(set_clock: Callable[[float], None]) -> None:
    pages = KeptPages(kept_s=300, pages_maximum=10, bytes_maximum=10)
    keep(pages, "x", b"small")

    assert keep(pages, "y", b"12345678901") == b"12345678901"
    assert keep(pages, "y", b"new") == b"new"
    assert keep(pages, "x", b"new") == b"small"


def test_page_that_many_ask_for_at_once_is_made_once() -> None:
    pages = KeptPages(kept_s=300, pages_maximum=10, bytes_maximum=1000)
    made: list[str] = []
    at_the_door = Barrier(8)
    is_asked = Event()

    def make() -> bytes:
        made.append("made")
        is_asked.wait(0.05)
        return b"page"

    def ask(_: int) -> bytes:
        at_the_door.wait()
        return pages.read_or_make("x", "1", state="a", make=make)

    with ThreadPoolExecutor(8) as asking:
        answers = list(asking.map(ask, range(8)))

    assert (answers, made) == ([b"page"] * 8, ["made"])


def test_page_that_could_not_be_made_is_tried_again() -> None:
    pages = KeptPages(kept_s=300, pages_maximum=10, bytes_maximum=1000)

    def fail() -> bytes:
        raise RuntimeError("the database is away")

    with pytest.raises(RuntimeError):
        pages.read_or_make("x", "1", state="a", make=fail)

    assert keep(pages, "x", b"page") == b"page"
