"""The migrated cluster that later runs of the tests start from."""

import pytest

from benchapp.operation.embedded.child import SystemAccount
from tests.clusters import keep_cluster, name_kept


@pytest.fixture
def stopped(tmp_path):
    """Give the directory of a cluster."""
    directory = tmp_path / "migrated"
    directory.mkdir()
    (directory / "PG_VERSION").write_text("18\n")
    return directory


def test_name_changes_with_the_account_and_with_each_file(tmp_path):
    first, second = tmp_path / "0001_a.py", tmp_path / "0002_b.py"
    first.write_text("one")
    second.write_text("two")
    account = SystemAccount(name="benchapp", uid=990, gid=990)

    names = [name_kept(None, [first]), name_kept(account, [first]), name_kept(None, [second, first])]
    second.write_text("changed")
    names.append(name_kept(None, [first, second]))

    assert len(set(names)) == 4
    assert name_kept(None, [second, first]) == names[-1]


def test_kept_cluster_replaces_that_of_other_migrations(stopped, tmp_path):
    place = tmp_path / "cache" / "clusters"

    keep_cluster(stopped, place / "old")
    keep_cluster(stopped, place / "new")

    assert [path.name for path in place.iterdir()] == ["new"]
    assert (place / "new" / "PG_VERSION").read_text() == "18\n"


def test_first_of_two_copies_stays(stopped, tmp_path):
    kept = tmp_path / "clusters" / "same"
    keep_cluster(stopped, kept)
    (stopped / "PG_VERSION").write_text("17\n")

    keep_cluster(stopped, kept)

    assert (kept / "PG_VERSION").read_text() == "18\n"


def test_place_that_cannot_be_written_keeps_nothing(stopped, tmp_path):
    (tmp_path / "file").write_text("")

    keep_cluster(stopped, tmp_path / "file" / "kept")

    assert (tmp_path / "file").read_text() == ""
