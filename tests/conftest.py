"""What holds for the tests of every room."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The same examples each time, however busy the machine is: what fails once fails again, and can be looked at.
# For others: `--hypothesis-profile=default`.
settings.register_profile(
    "steady", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")
# Hypothesis times each collection, so that the default of 700 objects takes a tenth of the collection of the tests.
gc.set_threshold(10_000, 10, 10)


def pytest_collection_finish() -> None:
    """Take what the collection made, which lives until the end, out of the garbage collection.

    Each full collection would look at these 250 000 objects, at a tenth of the CPU time of the tests.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def web_cache(settings: Any) -> Iterator[None]:
    """Cache results as a web process does; in other tests each read is new."""
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    from django.core.cache import cache

    yield
    cache.clear()
