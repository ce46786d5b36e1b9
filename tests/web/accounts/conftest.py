"""Cheap password hashes: one of production takes 100 MiB and a quarter of a second, and these tests make a hundred."""

import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Argon2PasswordHasher, "memory_cost", 64)
    monkeypatch.setattr(Argon2PasswordHasher, "time_cost", 1)
