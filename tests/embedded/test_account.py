import os
import pwd

import pytest

from benchapp.embedded.account import Account, can_reach, choose_account, copy_where_reachable

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def nobody():
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


@needs_root
def test_root_becomes_the_owner_of_the_checkout(place, nobody):
    os.chown(place, nobody.uid, nobody.gid)

    assert choose_account(place) == nobody


@needs_root
def test_root_becomes_nobody_where_the_checkout_is_roots(place, nobody):
    assert choose_account(place) == nobody


@needs_root
def test_owner_without_a_name_is_passed_over(place, nobody):
    os.chown(place, 54321, 54321)

    assert choose_account(place) == nobody


@pytest.mark.skipif(os.geteuid() == 0, reason="root has an account to become")
def test_others_stay_who_they_are(place):
    assert choose_account(place) is None


@needs_root
def test_path_below_a_closed_directory_is_out_of_reach(place, nobody):
    inside = place / "closed" / "inside"
    inside.mkdir(parents=True)
    (place / "closed").chmod(0o700)

    assert can_reach(place, nobody)
    assert not can_reach(inside, nobody)
    assert can_reach(inside, None)


@needs_root
def test_copy_is_made_once_and_can_be_reached(place, nobody):
    source = place / "closed" / "server"
    source.parent.mkdir(mode=0o700)
    source.write_text("first")

    copy = copy_where_reachable({"bin/server": source}, "server-1", account=nobody, state=place / "state")
    source.write_text("second")
    again = copy_where_reachable({"bin/server": source}, "server-1", account=nobody, state=place / "state")

    assert copy == again
    assert (copy / "bin" / "server").read_text() == "first"
    assert can_reach(copy / "bin" / "server", nobody)


@needs_root
def test_copy_in_a_closed_place_is_refused_in_words(place, nobody):
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    (place / "server").write_text("")

    with pytest.raises(PermissionError, match="closed to nobody"):
        copy_where_reachable({"server": place / "server"}, "server-1", account=nobody, state=closed / "state")
