from datetime import timedelta

import pytest

from benchapp.accounts.read import read_tokens
from benchapp.catalog.grammar import parse_filter
from benchapp.models import Scope
from benchapp.storage.read.hosts import HostFilter, page_hosts, read_host
from tests.factories import NOON, add_series, make_host, make_run, make_token, make_user, make_workload

pytestmark = pytest.mark.django_db


def test_host_shows_its_runs_and_tokens():
    host = make_host("db-7", pool="db", last_seen_at=NOON)
    make_run(host, started_at=NOON)
    last = make_run(host, started_at=NOON + timedelta(hours=1), error=5)
    token, _ = make_token(host=host, label="cron", created_by=make_user(username="ann"))

    row = read_host("db-7")

    assert (row.pool, row.last_seen_at, row.run_count) == ("db", NOON, 2)
    assert (row.last_run.id, row.last_run.error) == (last.id, 5)
    (shown,) = read_tokens(host.id)
    assert (shown.public_id, shown.label, shown.created_by.username) == (token.public_id, "cron", "ann")
    assert "digest" not in repr(shown)


def test_host_without_runs_has_none():
    make_host("new")

    row = read_host("new")

    assert (row.run_count, row.last_run, row.mark) == (0, None, None)
    assert read_tokens(row.id) == ()


def test_tokens_that_belong_to_no_host_are_shown_at_none():
    host = make_host("a")
    make_token(Scope.READ)

    assert read_tokens(host.id) == ()


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (HostFilter(match=parse_filter("pool:blue")), ["a"]),
        (HostFilter(match=parse_filter("host:b")), ["b"]),
        (HostFilter(match=parse_filter("LU")), ["a"]),
        (HostFilter(match=parse_filter("rw:randwrite")), ["b"]),
        (HostFilter(match=parse_filter("randwrite host:a")), []),
        (HostFilter(text="LU"), ["a"]),
        (HostFilter(is_retired=True), ["b"]),
        (HostFilter(is_retired=False), ["a"]),
    ],
)
def test_filter_leaves_the_wanted_host_only(filters, names):
    make_host("a", pool="blue")
    add_series([100.0], host=make_host("b", retired_at=NOON), workload=make_workload(rw="randwrite"))

    assert [host.name for host in page_hosts(filters).items] == names
