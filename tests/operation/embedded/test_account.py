import os
import pwd
import stat
import subprocess

import pytest

from benchapp.operation.embedded.child import (
    NoAccount,
    SystemAccount,
    can_reach,
    choose_account,
    copy_where_reachable,
    create_private_directory,
    find_inaccessible_part,
    write_private_file,
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def nobody():
    entry = pwd.getpwnam("nobody")
    return SystemAccount(entry.pw_name, entry.pw_uid, entry.pw_gid)


@needs_root
def test_root_becomes_the_owner_of_the_checkout(place, nobody):
    os.chown(place, nobody.uid, nobody.gid)

    assert choose_account(place) == nobody


@needs_root
def test_root_becomes_an_account_of_its_own_where_the_checkout_is_roots(place, nobody):
    account = choose_account(place)

    assert account.name == "benchapp"
    assert account.uid not in (0, nobody.uid)


@needs_root
def test_missing_account_is_created_once(place):
    name = f"benchapp-{os.getpid()}"
    lines = []
    try:
        created = choose_account(place, name, report=lines.append)
        again = choose_account(place, name, report=lines.append)
        shell = pwd.getpwnam(name).pw_shell
    finally:
        subprocess.run(["/usr/sbin/userdel", name], check=True)

    assert created == again
    assert (created.name, shell) == (name, "/usr/sbin/nologin")
    assert len(lines) == 1
    assert f"userdel {name}" in lines[0]


@needs_root
def test_account_that_cannot_be_created_is_an_error_with_the_reason(place, monkeypatch):
    useradd = place / "useradd"
    useradd.write_text("#!/bin/sh\necho cannot lock /etc/passwd >&2; exit 1\n")
    useradd.chmod(0o755)
    monkeypatch.setenv("PATH", str(place))

    with pytest.raises(NoAccount, match="cannot create account missing-account: cannot lock /etc/passwd"):
        choose_account(place, "missing-account")


@needs_root
def test_owner_without_a_name_is_passed_over(place):
    os.chown(place, 54321, 54321)

    assert choose_account(place).name == "benchapp"


@needs_root
def test_closed_directory_on_the_way_to_a_file_is_found(place, nobody):
    closed = place / "closed"
    (closed / "bin").mkdir(parents=True)
    (closed / "bin" / "python").write_text("")
    (place / "link").symlink_to(closed / "bin" / "python")
    closed.chmod(0o700)

    assert find_inaccessible_part(closed / "bin" / "python", nobody) == closed
    assert find_inaccessible_part(place / "link", nobody) == place / "link"
    assert find_inaccessible_part(place, nobody) is None


@needs_root
def test_files_of_an_earlier_account_become_the_new_ones(place, nobody):
    directory = place / "agent"
    file = directory / "spool" / "result.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    outside = place / "outside"
    outside.write_text("")
    (directory / "link").symlink_to(outside)

    create_private_directory(directory, nobody)

    assert {path.lstat().st_uid for path in directory.rglob("*")} == {nobody.uid}
    assert outside.stat().st_uid == 0
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_private_file_replaces_a_link_and_is_read_by_its_owner_only(place):
    target = place / "target"
    target.write_text("kept")
    (place / "secret").symlink_to(target)

    write_private_file(place / "secret", "new")

    assert (place / "secret").read_text() == "new"
    assert stat.S_IMODE((place / "secret").lstat().st_mode) == 0o600
    assert target.read_text() == "kept"


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

    with pytest.raises(PermissionError, match="nobody cannot access"):
        copy_where_reachable({"server": place / "server"}, "server-1", account=nobody, state=closed / "state")
