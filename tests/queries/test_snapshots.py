"""The cache of results by snapshot: what is written and read again is never an earlier result."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import connections, transaction
from django.test import Client
from django.utils import timezone

from benchapp.grammar import Filter
from benchapp.metrics import format_integer
from benchapp.models import Level, Measurement, Series, User
from benchapp.queries import snapshots
from benchapp.queries.charts.matrix import read_matrix
from benchapp.queries.charts.scaling import ScalingRequest, read_scaling
from benchapp.queries.series_grid import read_series_grid
from benchapp.queries.snapshots import SnapshotCache, read_snapshot
from tests.factories import calculate_levels, make_series, make_user
from tests.notices import make_subscription
from tests.servers import wait_for


class Loads:
    """Count how often a value is loaded."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> int:
        self.count += 1
        return self.count


def read(cache: SnapshotCache, key: object, load: Any, *, size: int = 1) -> Any:
    return cache.read(key, load, estimate_bytes=lambda _: size)


def set_snapshot(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    monkeypatch.setattr(snapshots, "read_snapshot", lambda: text)


def test_value_is_loaded_once_for_each_key_and_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, load = SnapshotCache(), Loads()

    set_snapshot(monkeypatch, "1")
    first = [read(cache, key, load) for key in ("a", "a", "b", "a")]
    set_snapshot(monkeypatch, "2")
    later = [read(cache, key, load) for key in ("a", "a")]

    assert (first, later) == ([1, 1, 2, 1], [3, 3])


def test_nothing_is_cached_without_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, load = SnapshotCache(), Loads()
    set_snapshot(monkeypatch, None)

    assert [read(cache, "a", load) for _ in range(2)] == [1, 2]


def test_least_recently_read_values_are_dropped_beyond_the_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, load = SnapshotCache(maximum_bytes=20), Loads()
    set_snapshot(monkeypatch, "1")

    for key in ("a", "b", "a", "c"):
        read(cache, key, load, size=10)
    again = [read(cache, key, load, size=10) for key in ("a", "c", "b")]
    too_large = [read(cache, "d", load, size=21) for _ in range(2)]
    kept = [read(cache, key, load, size=10) for key in ("c", "b")]

    assert again == [1, 3, 4]
    assert too_large == [5, 6]
    assert kept == [3, 4]


def test_value_of_a_snapshot_that_a_later_one_replaced_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, load = SnapshotCache(), Loads()

    def load_while_another_request_reads_a_later_snapshot() -> int:
        set_snapshot(monkeypatch, "2")
        read(cache, "other", load)
        return 99

    set_snapshot(monkeypatch, "1")
    assert read(cache, "a", load_while_another_request_reads_a_later_snapshot) == 99
    set_snapshot(monkeypatch, "2")

    assert read(cache, "a", load) == 2


def test_value_that_could_not_be_loaded_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, load = SnapshotCache(), Loads()
    set_snapshot(monkeypatch, "1")

    with pytest.raises(ZeroDivisionError):
        read(cache, "a", lambda: 1 // 0)

    assert read(cache, "a", load) == 1


def test_requests_that_miss_the_same_value_at_one_time_load_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, load, loading, waited = SnapshotCache(), Loads(), Event(), Event()
    set_snapshot(monkeypatch, "1")

    def load_slowly() -> int:
        loading.set()
        assert waited.wait(60)
        return load()

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(read, cache, "a", load_slowly)
        assert loading.wait(60)
        others = [threads.submit(read, cache, "a", load) for _ in range(2)]
        wait_for(lambda: cache._turns["1", "a"].requests == 3, within_s=60, what="the others wait")
        assert read(cache, "b", load) == 1
        waited.set()

        assert [each.result() for each in (first, *others)] == [2, 2, 2]
    assert not cache._turns


def test_request_loads_a_value_itself_if_the_one_before_fails_or_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache, load, loading, done = SnapshotCache(), Loads(), Event(), Event()
    set_snapshot(monkeypatch, "1")
    monkeypatch.setattr(snapshots, "_WAIT_S", 0.01)

    def fail_slowly() -> int:
        loading.set()
        assert done.wait(60)
        return 1 // 0

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(read, cache, "a", fail_slowly)
        assert loading.wait(60)
        assert read(cache, "a", load) == 1
        done.set()
        with pytest.raises(ZeroDivisionError):
            first.result()

    assert read(cache, "a", load) == 1
    assert not cache._turns


def test_requests_share_a_value_of_their_snapshot_that_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, load, loading, waited = SnapshotCache(), Loads(), Event(), Event()
    set_snapshot(monkeypatch, "1")

    def load_slowly() -> int:
        loading.set()
        assert waited.wait(60)
        return load()

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(read, cache, "a", load_slowly)
        assert loading.wait(60)
        others = [threads.submit(read, cache, "a", load) for _ in range(2)]
        wait_for(lambda: cache._turns["1", "a"].requests == 3, within_s=60, what="the others wait")
        set_snapshot(monkeypatch, "2")
        read(cache, "b", lambda: 0)
        waited.set()

        assert [each.result() for each in (first, *others)] == [1, 1, 1]
    assert read(cache, "a", load) == 2


def test_request_after_a_write_does_not_wait_for_one_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, load, loading, done = SnapshotCache(), Loads(), Event(), Event()
    set_snapshot(monkeypatch, "1")

    def load_slowly() -> int:
        loading.set()
        assert done.wait(60)
        return 99

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(read, cache, "a", load_slowly)
        assert loading.wait(60)
        set_snapshot(monkeypatch, "2")
        monkeypatch.setattr(snapshots, "_WAIT_S", 60)
        later = threads.submit(read, cache, "a", load)
        try:
            assert later.result(timeout=10) == 1
        finally:
            done.set()
        assert first.result() == 99

    assert read(cache, "a", load) == 1
    assert not cache._turns


@pytest.mark.django_db(transaction=True)
def test_only_the_end_of_a_transaction_that_wrote_makes_another_snapshot() -> None:
    make_series([1.0])
    with _connect() as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM benchapp_series")
        other.execute("SELECT pg_current_xact_id_if_assigned()")
        assert other.fetchone() == (None,)

        other.execute("UPDATE benchapp_series SET judging_is_due = NOT judging_is_due")
        other.execute("SELECT pg_current_xact_id()::text")
        (own,) = other.fetchone()
        before = read_snapshot()
        other.execute("COMMIT")
        after = read_snapshot()

    # Other databases of the server have transactions of their own meanwhile.
    assert _has_ended(own, before) is False
    assert _has_ended(own, after) is True
    assert before != after


@pytest.mark.django_db(transaction=True)
def test_transaction_that_began_earlier_and_ends_later_makes_another_snapshot() -> None:
    series = make_series([1.0])
    with _connect() as other:
        other.execute("BEGIN")
        other.execute("UPDATE benchapp_series SET judging_is_due = NOT judging_is_due")
        with transaction.atomic():
            series.host.save()
        before = read_snapshot()

        other.execute("COMMIT")

        assert read_snapshot() != before


@pytest.mark.django_db(transaction=True)
def test_transaction_that_has_written_has_no_snapshot() -> None:
    series = make_series([1.0])

    with transaction.atomic():
        assert read_snapshot() is not None
        Series.objects.filter(pk=series.pk).update(judging_is_due=True)
        assert read_snapshot() is None


@pytest.mark.django_db(transaction=True)
def test_charts_have_each_write_in_the_next_read(
    django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = make_series([100.0] * 3, start_at=timezone.now() - timedelta(days=3), step=timedelta(days=1))
    calculate_levels([series.pk])

    for median in (100.0, 200.0, 300.0):
        Level.objects.filter(series=series, metric="iops").update(median=median)

        assert _read_medians() == [median] * 3
        with monkeypatch.context() as patch:
            # Other databases of the server have transactions of their own meanwhile.
            set_snapshot(patch, read_snapshot())
            _read_medians()
            with django_assert_num_queries(0):
                assert _read_medians() == [median] * 3


@pytest.mark.django_db(transaction=True)
def test_pages_have_each_write_in_the_next_read(client: Client, settings: Any) -> None:
    settings.PUBLIC_READ = True
    series = make_series([1.0] * 3, start_at=timezone.now() - timedelta(days=3), step=timedelta(days=1))
    calculate_levels([series.pk])
    shown = []

    for median in (1234.0, 2345.0):
        Level.objects.filter(series=series, metric="iops").update(median=median)
        Measurement.objects.filter(series=series).update(iops=median)
        text = format_integer(int(median))
        for path in ("/matrix/", "/scaling/", "/series/"):
            shown.append([text in client.get(path).text for _ in range(2)])
        for path in (
            *("/api/v1/matrix", "/api/v1/scaling", f"/api/v1/history?series={series.pk}"),
            *("/api/v1/series", f"/api/v1/series/{series.pk}/points"),
        ):
            shown.append([repr(median) in client.get(path).text for _ in range(2)])

    assert shown == [[True, True]] * 16


@pytest.mark.django_db(transaction=True)
def test_kept_history_of_one_user_is_not_sent_to_another(
    client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PUBLIC_READ = True
    series = make_series([1.0])
    for name, threshold in (("anna", "IOPS > 5k"), ("ben", "IOPS > 7k")):
        make_subscription(make_user(username=name), thresholds=[threshold])
    set_snapshot(monkeypatch, read_snapshot())
    shown = []

    for name in ("anna", "ben", "", "anna"):
        client.logout()
        if name:
            client.force_login(User.objects.get(username=name))
        answer = client.get(f"/api/v1/history?series={series.pk}").json()
        shown.append([each["text"] for each in answer["thresholds"]])

    assert shown == [["IOPS > 5k"], ["IOPS > 7k"], [], ["IOPS > 5k"]]


def _has_ended(transaction_id: str, snapshot: str | None) -> bool:
    """Return whether a transaction has ended in a snapshot, "DATABASE START XMIN:XMAX:RUNNING"."""
    assert snapshot is not None
    _, xmax, running = snapshot.split()[-1].split(":")
    return int(transaction_id) < int(xmax) and transaction_id not in running.split(",")


def _read_medians() -> list[float | None]:
    """Return the median of the only series in matrix, scaling chart and series grid."""
    ((_, _, _, in_matrix),) = read_matrix(Filter()).walk()
    ((_, _, _, in_chart),) = read_scaling(ScalingRequest(Filter())).walk()
    ((in_grid,),) = [part.series for part in read_series_grid(Filter(), metric=None).parts]
    return [each.level and each.level.median for each in (in_matrix, in_grid)] + [in_chart.value]


@contextmanager
def _connect() -> Iterator[Any]:
    """Open another connection to the database of the test."""
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            yield cursor
    finally:
        other.close()
