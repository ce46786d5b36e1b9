import os
import stat
from dataclasses import replace

import pytest

from benchapp.operation.embedded.home import (
    AlreadyRunning,
    Home,
    HomeState,
    create_socket_directory,
    remove_socket_directory,
)


@pytest.fixture
def home(place):
    home = Home(place / "var")
    home.create(is_root=os.geteuid() == 0)
    return home


STATE = HomeState(pid=4711, instance="abc", address="http://127.0.0.1:8003", socket_directory="/nowhere")


def test_secret_key_is_made_once_and_only_its_owner_reads_it(home):
    key = home.read_or_create_key()

    assert len(key) >= 50
    assert home.read_or_create_key() == key
    assert stat.S_IMODE((home.path / "secret-key").stat().st_mode) == 0o600


def test_second_supervisor_is_told_where_the_first_one_is(home):
    home.write_state(STATE)

    words = r"http://127\.0\.0\.1:8003.*kill 4711.*--data-dir"
    with home.lock(), pytest.raises(AlreadyRunning, match=words), home.lock():
        pass


def test_lock_is_free_again_after_its_holder(home):
    with home.lock():
        pass
    with home.lock():
        pass


def test_lock_of_a_starting_supervisor_is_explained_too(home):
    with home.lock(), pytest.raises(AlreadyRunning, match="is starting"), home.lock():
        pass


def test_state_comes_back_as_it_was_written(home):
    state = replace(STATE, boot="b", children={"web": (12, 3456)})

    home.write_state(state)

    assert home.read_state() == state


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"children": 3}'])
def test_broken_state_is_no_state(home, text):
    (home.path / "up.json").write_text(text)

    assert home.read_state() is None


def test_sockets_lie_in_the_data_directory_when_its_path_is_short(home, account):
    directory = create_socket_directory(home, account)

    assert directory == home.path / "run"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_sockets_lie_elsewhere_when_the_path_is_long(place, account):
    home = Home(place / ("d" * 90))
    home.create(is_root=os.geteuid() == 0)

    directory = create_socket_directory(home, account)

    assert len(os.fsencode(directory / ".s.PGSQL.5432")) <= 103
    remove_socket_directory(directory)
    assert not directory.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another account to run servers as")
def test_sockets_lie_elsewhere_when_the_account_cannot_enter(place, account):
    home = Home(place / "var")
    home.create(is_root=True)
    place.chmod(0o700)

    directory = create_socket_directory(home, account)

    assert not directory.is_relative_to(place)
    assert directory.stat().st_uid == account.uid
    remove_socket_directory(directory)
