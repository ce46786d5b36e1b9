"""The database of a command, and what a command reports without one."""

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import InterfaceError, OperationalError

from benchapp.management.progress import use_database
from benchapp.operation.embedded.servers import NoBinaries


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


@pytest.mark.parametrize(("command", "tool"), [("backup", "pg_dump"), ("restore", "psql")])
def test_command_without_the_programs_of_postgresql_names_the_one_to_run(
    monkeypatch, tmp_path, command, tool
):
    def find_none() -> Path:
        raise NoBinaries

    monkeypatch.setenv("DATABASE_URL", "postgresql:///benchapp")
    monkeypatch.setattr("benchapp.operation.embedded.backup.find_installation", find_none)
    (tmp_path / "history.dump").touch()

    with pytest.raises(CommandError, match=rf"^{tool} is not installed here: .*docs/operations.md"):
        call_command(command, tmp_path / "history.dump")
