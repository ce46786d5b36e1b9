"""Settings from the environment: strict, with errors that name the variable."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from benchapp.framework.env import (
    read_broker,
    read_database,
    read_email_server,
    read_oidc_provider,
    read_origins,
    read_secret,
    read_secret_key,
)
from benchapp.operation.embedded.preflight import Address, build_environment

ROOT = Path(__file__).parent.parent
KEY = "0123456789abcdef" * 4


@pytest.mark.parametrize("key", ["k", "k" * 60, "abcd" * 20, KEY[:49]])
def test_secret_key_that_could_be_guessed_is_refused(monkeypatch, key):
    monkeypatch.setenv("BENCHAPP_SECRET_KEY", key)

    with pytest.raises(
        ImproperlyConfigured, match=rf"BENCHAPP_SECRET_KEY has {len(key)} characters.*openssl rand"
    ):
        read_secret_key("BENCHAPP_SECRET_KEY", default="unused")


@pytest.mark.parametrize(
    ("text", "expected"), [(KEY, KEY), (f" {KEY[:50]}\n", KEY[:50]), ("", "default"), (" ", "default")]
)
def test_secret_key_is_read(monkeypatch, text, expected):
    monkeypatch.setenv("BENCHAPP_SECRET_KEY", text)

    assert read_secret_key("BENCHAPP_SECRET_KEY", default="default") == expected


@pytest.mark.parametrize("role", ["web", "worker", "command"])
def test_no_process_starts_with_a_key_of_one_letter(role):
    started = subprocess.run(
        [sys.executable, "-c", "import benchapp.settings"],
        cwd=ROOT,
        env={**os.environ, "BENCHAPP_SECRET_KEY": "k", "BENCHAPP_ROLE": role},
        capture_output=True,
        text=True,
        check=False,
    )

    assert started.returncode == 1
    assert "ImproperlyConfigured: BENCHAPP_SECRET_KEY has 1 characters" in started.stderr


@pytest.fixture
def secret_file(tmp_path):
    file = tmp_path / "secret"
    file.write_text("p@ss/word\n")
    return file


def test_secret_is_read_from_a_file(monkeypatch, secret_file):
    monkeypatch.setenv("DATABASE_PASSWORD_FILE", str(secret_file))

    assert read_secret("DATABASE_PASSWORD") == "p@ss/word"


def test_secret_is_read_from_its_variable(monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "word")

    assert read_secret("DATABASE_PASSWORD") == "word"
    assert read_secret("BROKER_PASSWORD") == ""


def test_secret_that_is_given_twice_is_refused(monkeypatch, secret_file):
    monkeypatch.setenv("DATABASE_PASSWORD", "word")
    monkeypatch.setenv("DATABASE_PASSWORD_FILE", str(secret_file))

    with pytest.raises(
        ImproperlyConfigured, match="DATABASE_PASSWORD and DATABASE_PASSWORD_FILE are both set"
    ):
        read_secret("DATABASE_PASSWORD")


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read"), (b" \n", "is empty"), (b"\xff", "cannot be read")]
)
def test_file_without_a_secret_is_refused_with_its_name(monkeypatch, tmp_path, content, words):
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("DATABASE_PASSWORD_FILE", str(file))

    with pytest.raises(ImproperlyConfigured, match=rf"DATABASE_PASSWORD_FILE: {file} {words}"):
        read_secret("DATABASE_PASSWORD")


def test_secret_key_and_mail_server_are_read_from_files(monkeypatch, tmp_path):
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "mail").write_text("smtps://bench:secret@mail.example.org\n")
    monkeypatch.delenv("BENCHAPP_SECRET_KEY")
    monkeypatch.setenv("BENCHAPP_SECRET_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("BENCHAPP_EMAIL_URL_FILE", str(tmp_path / "mail"))

    assert read_secret_key("BENCHAPP_SECRET_KEY", default="unused") == KEY
    assert read_email_server("BENCHAPP_EMAIL_URL").password == "secret"


@pytest.mark.parametrize(
    ("url", "password"),
    [("postgresql://benchapp@db/benchapp", "p@ss/word"), ("postgresql://benchapp:own@db/benchapp", "own")],
)
def test_database_password_is_that_of_the_address_else_of_the_file(monkeypatch, secret_file, url, password):
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv("DATABASE_PASSWORD_FILE", str(secret_file))

    database = read_database("DATABASE_URL", "DATABASE_PASSWORD", default="")

    assert (database["PASSWORD"], database["HOST"]) == (password, "db")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://valkey:6379/0", "redis://:p%40ss%2Fword@valkey:6379/0"),
        ("rediss://bench@valkey:6379/0", "rediss://bench:p%40ss%2Fword@valkey:6379/0"),
        ("redis://:own@valkey:6379/0", "redis://:own@valkey:6379/0"),
        ("redis+socket:///run/valkey.sock?virtual_host=0", "redis+socket:///run/valkey.sock?virtual_host=0"),
        ("", ""),
    ],
)
def test_broker_password_is_that_of_the_address_else_of_the_file(monkeypatch, secret_file, url, expected):
    monkeypatch.setenv("BROKER_URL", url)
    monkeypatch.setenv("BROKER_PASSWORD_FILE", str(secret_file))

    assert read_broker("BROKER_URL", "BROKER_PASSWORD") == expected


def test_embedded_servers_are_not_given_the_passwords_of_others(tmp_path):
    base = {
        "DATABASE_URL": "postgresql://benchapp@db/benchapp",
        "DATABASE_PASSWORD_FILE": "/run/secrets/database",
        "BROKER_PASSWORD_FILE": "/run/secrets/broker",
        "BENCHAPP_SECRET_KEY_FILE": "/run/secrets/key",
    }

    environment = build_environment(
        base,
        database_url=base["DATABASE_URL"],
        broker_url="redis+socket:///run/valkey.sock?virtual_host=0",
        data_directory=tmp_path,
        secret_key=KEY,
        address=Address("127.0.0.1", 8000),
        instance="i",
        static_root=tmp_path / "static",
    )

    assert environment["DATABASE_PASSWORD_FILE"] == "/run/secrets/database"
    assert environment["BENCHAPP_SECRET_KEY_FILE"] == "/run/secrets/key"
    assert not {"BROKER_PASSWORD_FILE", "BENCHAPP_SECRET_KEY"} & environment.keys()


def test_origins_have_a_scheme_and_a_host_alone(monkeypatch):
    monkeypatch.setenv("ORIGINS", "https://grafana.example, http://127.0.0.1:3000")
    assert read_origins("ORIGINS") == ["https://grafana.example", "http://127.0.0.1:3000"]

    monkeypatch.setenv("ORIGINS", "*")
    assert read_origins("ORIGINS") == ["*"]


@pytest.mark.parametrize(
    "text", ["grafana.example", "https://a.example/", "ftp://a", "https://u@a", "*,https://a"]
)
def test_text_that_is_not_an_origin_is_refused(monkeypatch, text):
    monkeypatch.setenv("ORIGINS", text)

    with pytest.raises(ImproperlyConfigured, match="ORIGINS"):
        read_origins("ORIGINS")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"ISSUER": "http://id.example"}, "BENCHAPP_OIDC_ISSUER must be https://"),
        ({"CLIENT_ID": ""}, "BENCHAPP_OIDC_CLIENT_ID is not set"),
        ({"SCOPES": "email"}, "must contain openid"),
        ({"ROLES": "storage=root"}, "'storage=root' is not GROUP=ROLE"),
        ({"ROLES": "storage=admin:db"}, "'storage=admin:db' is not GROUP=viewer:POOL"),
        ({"ROLES": "storage=viewer:"}, "'storage=viewer:' is not GROUP=viewer:POOL"),
    ],
)
def test_invalid_setting_of_a_provider_is_refused_by_its_name(monkeypatch, values, words):
    for name, value in ({"ISSUER": "https://id.example", "CLIENT_ID": "benchapp"} | values).items():
        monkeypatch.setenv(f"BENCHAPP_OIDC_{name}", value)

    with pytest.raises(ImproperlyConfigured, match=words):
        read_oidc_provider(roles=("viewer", "admin"))


def test_provider_is_read_with_the_roles_of_groups(monkeypatch):
    monkeypatch.setenv("BENCHAPP_OIDC_ISSUER", "https://id.example")
    monkeypatch.setenv("BENCHAPP_OIDC_CLIENT_ID", "benchapp")
    monkeypatch.setenv("BENCHAPP_OIDC_ROLES", "a=b=admin, *=viewer, c=viewer:db+web")

    provider = read_oidc_provider(roles=("viewer", "admin"))

    assert provider["roles"] == {"a=b": "admin", "*": "viewer", "c": "viewer"}
    assert provider["pools"] == {"c": ("db", "web")}
    assert (provider["username_claim"], provider["links_by_email"]) == ("preferred_username", False)
