"""Counting within a window of the clock."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from benchapp.accounts.write.throttle import Counted, WindowQuota


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    def set_to(at_s: float) -> None:
        clock = SimpleNamespace(time=lambda: at_s)
        monkeypatch.setattr("benchapp.accounts.write.throttle.time", clock)

    return set_to


def test_keys_are_counted_separately(set_clock: Callable[[float], None]) -> None:
    set_clock(7200.0)
    quota = WindowQuota(window_s=3600)

    counted = [quota.count(key) for key in ("a", "a", "b")]

    assert counted == [Counted(1, 3600), Counted(2, 3600), Counted(1, 3600)]


def test_next_window_begins_with_the_clock_and_counts_anew(set_clock: Callable[[float], None]) -> None:
    quota = WindowQuota(window_s=60)
    set_clock(119.5)
    quota.count("a")
    last = quota.count("a")
    set_clock(120.0)

    assert last == Counted(2, 1)
    assert quota.count("a") == Counted(1, 60)


def test_keys_beyond_the_maximum_are_counted_as_one(set_clock: Callable[[float], None]) -> None:
    set_clock(0.0)
    quota = WindowQuota(window_s=60, keys_maximum=2)

    counts = [quota.count(key).count for key in ("a", "b", "c", "d", "a", "e")]

    assert counts == [1, 1, 1, 2, 2, 3]
