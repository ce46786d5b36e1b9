"""Configuration from a file and the environment, and the token, which only its owner may read."""

import os
from pathlib import Path

import pytest

from agent.config import Config, check_url, load_config, read_token
from agent.exit_codes import ConfigurationError
from tests.agent.conftest import Machine


def load(tmp_path: Path, text: str, **environ: str) -> Config:
    path = tmp_path / "agent.ini"
    path.write_text(text)
    return load_config(str(path), environ)


def test_everything_is_read(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "[server]\nurl = https://bench.example.com/\ntoken_file = secret/token\ntimeout = 5s\n"
        "[spool]\ndirectory = /srv/spool\nmax_bytes = 1g\n"
        "[run]\ndirectory = /srv\nprofile = quick\nreserve = 2g\n"
        "[target]\nvolume_type = gp3\n[labels]\nRack = 50% off\n",
    )

    assert config.url == "https://bench.example.com"
    assert config.token_file == str(tmp_path / "secret/token")
    assert (config.timeout_s, config.spool_directory) == (5, "/srv/spool")
    assert (config.spool_max_bytes, config.reserve_bytes) == (2**30, 2**31)
    assert (config.directory, config.profile) == ("/srv", "quick")
    assert (config.target, config.labels) == ({"volume_type": "gp3"}, {"Rack": "50% off"})


def test_settings_of_earlier_versions_are_ignored_with_a_note(machine: Machine) -> None:
    with Path(machine.environ["BENCH_AGENT_CONFIG"]).open("a") as file:
        file.write("[update]\nauto = yes\npublic_key = x\nself_update = yes\n[spool]\nmax_age = 90d\n")

    measured = machine.measure("--no-send", is_terminal=True)

    assert measured.returncode == 0
    assert "[update] is ignored: update the agent as it was installed" in measured.stderr
    assert "[spool] max_age is ignored: results stay until" in measured.stderr
    assert len(machine.pending()) == 1
    assert machine.measure("--no-send").stderr == ""


def test_missing_configuration_has_defaults(tmp_path: Path) -> None:
    config = load(tmp_path, "")

    assert (config.url, config.directory, config.reserve_bytes) == (None, None, None)
    assert config.token_file == str(tmp_path / "agent.token")
    assert config.spool_max_bytes == 256 * 2**20


@pytest.mark.parametrize(
    ("uid", "environ", "directory"),
    [
        (0, {}, "/var/lib/bench-agent"),
        (1000, {}, "/home/ada/.local/state/bench-agent"),
        (1000, {"XDG_STATE_HOME": "/home/ada/state"}, "/home/ada/state/bench-agent"),
    ],
)
def test_default_spool_is_that_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, environ: dict[str, str], directory: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    # Root would refuse the file of the user who runs the tests.
    monkeypatch.setattr("agent.trust._list_passed", lambda path: ())
    monkeypatch.setenv("HOME", "/home/ada")

    assert load(tmp_path, "", **environ).spool_directory == directory


def test_environment_overrides_the_file(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "[server]\nurl=https://a.example\n[spool]\ndirectory=/a\n",
        BENCH_AGENT_URL="https://b.example",
        BENCH_AGENT_SPOOL="/b",
    )

    assert (config.url, config.spool_directory) == ("https://b.example", "/b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[sever]\nurl=x\n",
            r"unknown section \[sever\]; available: server, spool, run, requests, schedule, target, labels",
        ),
        ("[server]\nurll=x\n", "unknown key 'urll' in \\[server\\]; available: url, token_file"),
        ("[server]\ntimeout=fast\n", r"agent.ini: \[server\] timeout: 'fast' is not a valid duration"),
        ("[server]\ntimeout=0\n", r"agent.ini: \[server\] timeout: '0' is not a valid timeout"),
        ("[server]\nurl=a\nurl=b\n", "already exists"),
        ("url=x\n", "no section headers"),
        ("[server]\nurl=ftp://x\n", "not a valid server URL"),
    ],
)
def test_invalid_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load(tmp_path, text)


def test_relative_paths_start_at_the_configuration(tmp_path: Path) -> None:
    config = load(tmp_path, "[run]\ndirectory = data\nfio = bin/fio\nlog = run.log\n")

    assert config.directory == str(tmp_path / "data")
    assert (config.fio, config.log) == (str(tmp_path / "bin/fio"), str(tmp_path / "run.log"))


def test_name_of_a_program_is_searched_on_path(tmp_path: Path) -> None:
    assert load(tmp_path, "[run]\nfio = fio-3.36\n").fio == "fio-3.36"


def test_world_writable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent.ini").touch()
    (tmp_path / "agent.ini").chmod(0o666)

    with pytest.raises(ConfigurationError, match="has mode 0666: any user can change what"):
        load(tmp_path, "[run]\nfio = /tmp/mine\n")


ONLY_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@ONLY_ROOT
def test_root_does_not_read_the_configuration_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "agent.ini").touch(mode=0o600)
    os.chown(tmp_path / "agent.ini", 65534, 65534)

    with pytest.raises(ConfigurationError, match="belongs to user nobody, who could change what root uses"):
        load(tmp_path, "[run]\nfio = /tmp/mine\n")


@ONLY_ROOT
@pytest.mark.parametrize("mode", [0o660, 0o664, 0o620])
def test_root_does_not_read_a_configuration_that_a_group_may_write(tmp_path: Path, mode: int) -> None:
    (tmp_path / "agent.ini").touch()
    (tmp_path / "agent.ini").chmod(mode)

    with pytest.raises(ConfigurationError, match=f"has mode {mode:04o}: its group can change what root uses"):
        load(tmp_path, "[run]\nfio = /tmp/mine\n")


def test_other_users_read_a_configuration_that_their_group_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.ini").touch()
    (tmp_path / "agent.ini").chmod(0o664)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert load(tmp_path, "[run]\nfio = fio-3.36\n").fio == "fio-3.36"


@ONLY_ROOT
def test_root_does_not_follow_a_link_to_another_users_file(tmp_path: Path) -> None:
    (tmp_path / "his.ini").write_text("[run]\nfio = /tmp/mine\n")
    os.chown(tmp_path / "his.ini", 65534, 65534)
    (tmp_path / "agent.ini").symlink_to("his.ini")

    with pytest.raises(ConfigurationError, match="belongs to user nobody"):
        load_config(str(tmp_path / "agent.ini"), {})


def test_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        load_config(None, {"BENCH_AGENT_CONFIG": str(tmp_path / "none.ini")})


@pytest.mark.parametrize("url", ["https://bench.example.com", "http://127.0.0.1:8000", "http://[::1]:8000"])
def test_valid_url_is_accepted(url: str) -> None:
    assert check_url(url + "/") == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "bench.example.com",
        "file:///etc/passwd",
        "https://",
        "https://me:pw@x.example",
        "https://x.example/?a=b",
        "https://x.example:no",
        "https://x.example/a b",
        "https://x.example/#a",
        "http://[::1",
        "https://ä.example",
    ],
)
def test_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        check_url(url)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_token_readable_by_others_is_refused(tmp_path: Path, mode: int) -> None:
    config = load(tmp_path, "")
    Path(config.token_file).write_text("bench_secret\n")
    Path(config.token_file).chmod(mode)

    with pytest.raises(ConfigurationError, match="other users can read the token"):
        read_token(config, {})


def test_token_is_read_from_a_private_file(tmp_path: Path) -> None:
    config = load(tmp_path, "")
    Path(config.token_file).write_text("bench_secret\n")
    Path(config.token_file).chmod(0o600)

    assert read_token(config, {}) == "bench_secret"
    assert read_token(config, {"BENCH_AGENT_TOKEN": "bench_other"}) == "bench_other"


def test_missing_token_names_the_command_that_creates_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="enroll this host with `bench-agent enroll URL`"):
        read_token(load(tmp_path, ""), {})


@pytest.mark.parametrize("token", ["short", "two words here", "line\nX-Evil: 1", "ünïcödé-token"])
def test_invalid_token_is_refused_without_showing_it(tmp_path: Path, token: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_token(load(tmp_path, ""), {"BENCH_AGENT_TOKEN": token})

    assert token not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("https://bench.example.com/hosts/", "https://bench.example.com"),
        ("http://127.0.0.1:8000/api/v1", "http://127.0.0.1:8000"),
    ],
)
def test_url_with_a_path_is_refused_with_the_address_to_use(url: str, root: str) -> None:
    with pytest.raises(ConfigurationError, match=f"has the path .*; use {root}$"):
        check_url(url)


def test_user_of_a_host_that_root_enrolled_learns_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load(tmp_path, "[server]\nurl = https://x.example\n")
    Path(config.token_file).write_text("bench_0123456789")

    def refuse(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(ConfigurationError) as caught:
        read_token(config, {})

    assert "who enrolled this host, and cannot be read by" in str(caught.value)
    assert "bench-agent enroll URL --config ~/.config/bench-agent/agent.ini --name NAME" in str(caught.value)
