"""Visitors of the pages."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client, override_settings

from benchapp.models import Role
from tests.visitors import sign_in


@pytest.fixture(scope="package", autouse=True)
def static_files_as_they_lie() -> Iterator[None]:
    """Serve static files without `collectstatic`."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    storages = {"default": {"BACKEND": "django.core.files.storage.FileSystemStorage"}, "staticfiles": plain}
    with override_settings(STORAGES=storages):
        yield


@pytest.fixture
def visitor(db: Any) -> Callable[[Role], Client]:
    """Give a client of somebody who signed in with this role."""

    return sign_in


@pytest.fixture
def viewer(visitor: Callable[[Role], Client]) -> Client:
    return visitor(Role.VIEWER)


@pytest.fixture
def editor(visitor: Callable[[Role], Client]) -> Client:
    return visitor(Role.EDITOR)


@pytest.fixture
def admin(visitor: Callable[[Role], Client]) -> Client:
    return visitor(Role.ADMIN)
