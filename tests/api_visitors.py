"""Clients that ask the API as somebody."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from benchapp.models import Host, Role, Scope
from tests.factories import make_token
from tests.visitors import sign_in


@pytest.fixture
def client_of(db: Any) -> Callable[..., Client]:
    """Give a client that brings a token of this scope (of this host)."""

    def make(scope: Scope, host: Host | None = None) -> Client:
        _, plaintext = make_token(scope, host=host)
        return Client(headers={"Authorization": f"Bearer {plaintext}"})

    return make


@pytest.fixture
def reader(client_of: Callable[..., Client]) -> Client:
    """Give a client with a token that reads."""
    return client_of(Scope.READ)


@pytest.fixture
def admin(client_of: Callable[..., Client]) -> Client:
    """Give a client with a token that administers."""
    return client_of(Scope.ADMIN)


@pytest.fixture
def person(db: Any) -> Callable[[Role], Client]:
    """Give a client of somebody who signed in with this role."""
    return sign_in
