"""The database of a command, and what a command reports without one."""

from pathlib import Path

import pytest
from django.core.management import CommandError
from django.db import InterfaceError, OperationalError

from benchapp.management.database import use_database


@pytest.mark.parametrize("error", [OperationalError("gone"), InterfaceError("gone")])
def test_database_that_fails_ends_a_command_with_what_to_do(monkeypatch, error):
    monkeypatch.setenv("DATABASE_URL", "postgresql:///benchapp")

    with (
        pytest.raises(CommandError, match=r"^database error: gone; run the command again later$"),
        use_database(Path("var")),
    ):
        raise error
    with (
        pytest.raises(CommandError, match=r"^database error: gone; nothing was changed$"),
        use_database(Path("var"), failed="nothing was changed"),
    ):
        raise error


def test_missing_data_directory_ends_a_command(monkeypatch, tmp_path):
    monkeypatch.delenv("DATABASE_URL", raising=False)

    with pytest.raises(CommandError, match="nowhere"), use_database(tmp_path / "nowhere"):
        pytest.fail("there is no database")
