"""The database of a command, and what a command reports without one."""

import json
import zipfile
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import InterfaceError, OperationalError

from benchapp.management.progress import use_database
from benchapp.operation.embedded.backup import collect_settings, restore_settings
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


def test_settings_of_a_backup_have_secrets_of_files_and_nothing_of_the_machine(tmp_path):
    (tmp_path / "key").write_text("k" * 50 + "\n")
    environ = {
        "BENCHAPP_SECRET_KEY_FILE": str(tmp_path / "key"),
        "BENCHAPP_PUBLIC_URL": "https://b",
        "BENCHAPP_DATA_DIR": "/srv",
        "DATABASE_URL": "postgresql:///b",
        "HOME": "/root",
    }

    settings = collect_settings(None, environ)

    assert settings == {"BENCHAPP_SECRET_KEY": "k" * 50, "BENCHAPP_PUBLIC_URL": "https://b"}


def test_settings_of_a_backup_are_restored_as_lines_for_the_shell(tmp_path):
    file = tmp_path / "history.dump"
    file.write_bytes(b"PGDMP")
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("settings.json", json.dumps({"BENCHAPP_EMAIL_FROM": "b <b@example.org>"}))

    path, _ = restore_settings(file, None, is_forced=False)

    assert path == tmp_path / "history.dump.env"
    assert path.read_text() == "BENCHAPP_EMAIL_FROM='b <b@example.org>'\n"


def test_backup_without_settings_restores_none(tmp_path):
    (tmp_path / "history.dump").write_bytes(b"PGDMP")

    assert restore_settings(tmp_path / "history.dump", None, is_forced=False) == (None, False)
