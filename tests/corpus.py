"""Pytest plugin: data that is not part of the repository, and one skipped test where it is absent.

Tests that read it are marked `corpus`. They would be hundreds of skipped ones, among which others are not seen.
"""

from pathlib import Path
from typing import Final

import pytest

DATA: Final = Path(__file__).parents[1].parent / "shared" / "data"
ORIGINALS: Final = DATA / "fio"
PUBLIC: Final = ORIGINALS / "public"
SEEDS: Final = DATA / "seed-outputs"


def list_absent() -> list[str]:
    """Return the folders of data that are not there."""
    return [str(folder) for folder in (PUBLIC, SEEDS) if not folder.is_dir()]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave one of the tests marked `corpus` where their data is absent, and skip it with the count and the reason."""
    marked = [item for item in items if item.get_closest_marker("corpus")]
    absent = list_absent()
    if not marked or not absent:
        return
    first, *others = marked
    first.add_marker(
        pytest.mark.skip(reason=f"{len(marked)} tests need data that is not at {', '.join(absent)}")
    )
    removed = set(others)
    items[:] = [item for item in items if item not in removed]
