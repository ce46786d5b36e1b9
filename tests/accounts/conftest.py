import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher


class QuickHasher(Argon2PasswordHasher):
    """Argon2 in less than a millisecond: its hashes were half of the CPU time of these tests."""

    time_cost, memory_cost, parallelism = 1, 8, 1


@pytest.fixture(autouse=True)
def _quick_passwords(settings):
    settings.PASSWORD_HASHERS = [f"{__name__}.QuickHasher"]
