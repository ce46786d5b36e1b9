"""Columns of series are kept, and never stale: whoever writes, in whichever process or transaction."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import Filter, parse_filter
from benchapp.models import Level, Series
from benchapp.pipeline.exclusions import exclude_run
from benchapp.queries.charts import series_columns as scaling_rows
from benchapp.queries.charts.series_cache import Columns, SeriesColumnCache, Versions
from benchapp.queries.charts.series_columns import make_kept, read_table
from benchapp.queries.charts.series_table import Codes
from tests.ebs import make_level
from tests.factories import calculate_levels, make_series, make_target
from tests.pipeline.detection.test_levels_any_order import STEPS, take

_METRICS = ("iops", "latency_p99_ns")
_PARTS = ("n", "median", "p10", "p90", "to_at")
_COLUMNS = (
    *("id", "measurement_count", "last_at", "badges"),
    *DIMENSIONS,
    *(f"{metric}.{part}" for metric in _METRICS for part in _PARTS),
)


def read_all(text: str = "") -> dict[str, list[Any]]:
    """Return all columns of the series of a filter."""
    table, _ = read_table(parse_filter(text), _METRICS)
    return {name: list(table.column(name)) for name in _COLUMNS}


@pytest.fixture
def read_anew(monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, list[Any]]]:
    """Read as a process does that has just begun."""

    def read() -> dict[str, list[Any]]:
        with monkeypatch.context() as patch:
            patch.setattr(scaling_rows, "_KEPT", make_kept())
            return read_all()

    return read


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """List the columns of each query that is made for a table, from an empty process on."""
    found: list[tuple[str, ...]] = []
    fetch, fetch_rows = scaling_rows.fetch_arrays, scaling_rows._fetch_rows

    def count_arrays(rows: Any, values: Any, *, columns: Any) -> Any:
        found.append(tuple(columns))
        return fetch(rows, values, columns=columns)

    def count_rows(ids: Sequence[int]) -> Any:
        found.append(("shared", *map(str, ids)))
        return fetch_rows(ids)

    monkeypatch.setattr(scaling_rows, "fetch_arrays", count_arrays)
    monkeypatch.setattr(scaling_rows, "_fetch_rows", count_rows)
    monkeypatch.setattr(scaling_rows, "_KEPT", make_kept())
    return found


@pytest.mark.django_db
def test_what_nobody_wrote_is_asked_for_by_its_version_alone(fetched: list[tuple[str, ...]]) -> None:
    for count in (1, 2, 4):
        make_level(make_series([1.0], target=make_target(volume_count=count)), "iops", 1.0)

    read_table(Filter(), ["iops"])
    first = len(fetched)
    read_table(Filter(), ["iops"])
    read_table(parse_filter("volume_count:2"), ["iops"])

    # Versions, series, what they share, one metric; and then the versions alone.
    assert first == 4
    assert fetched[first:] == [("id", "written_by", "place")] * 2


@pytest.mark.django_db
def test_version_is_the_transaction_and_the_place_of_the_row() -> None:
    make_series([1.0])
    versions, _ = scaling_rows._fetch(Series.objects.all(), {})

    with connection.cursor() as cursor:
        cursor.execute("SELECT xmin::text::bigint, ctid::text FROM benchapp_series")
        written_by, place = cursor.fetchone()

    at = versions.places.item()
    assert (versions.written_by.item(), f"({at >> 16},{at & 0xFFFF})") == (written_by, place)


@pytest.mark.django_db
def test_only_the_series_that_was_written_is_read_again(fetched: list[tuple[str, ...]]) -> None:
    first, second = make_series([1.0]), make_series([2.0])
    calculate_levels()
    read_table(Filter(), ["iops"])
    fetched.clear()

    Series.objects.filter(pk=second.pk).update(badges=["failed-job"])
    table, _ = read_table(Filter(), ["iops"])

    assert dict(zip(table.column("id"), table.column("badges"), strict=True)) == {
        first.pk: (),
        second.pk: ("failed-job",),
    }
    assert ("shared", str(second.pk)) in fetched
    assert len(fetched) == 4


@pytest.mark.django_db
def test_filter_that_nothing_fits_has_its_columns_all_the_same(
    read_anew: Callable[[], dict[str, list[Any]]],
) -> None:
    assert read_anew() == {name: [] for name in _COLUMNS}


@pytest.mark.django_db
def test_another_metric_reads_itself_alone(fetched: list[tuple[str, ...]]) -> None:
    make_series([1.0])
    calculate_levels()
    read_table(Filter(), ["iops"])
    fetched.clear()

    read_table(Filter(), ["iops", "latency_p99_ns"])

    assert len(fetched) == 2


@pytest.mark.django_db
def test_what_a_series_stands_at_moves_its_row_whoever_writes_it() -> None:
    make_series([1.0])
    calculate_levels()
    series = make_series([2.0, 3.0])

    for write in (
        calculate_levels,
        lambda: calculate_levels([series.pk]),
        lambda: exclude_run(series.measurements.latest("id").run_id, None, reason="noise"),
        calculate_levels,
    ):
        before, standing = _read_versions(), _read_standings()
        write()
        moved = {each for each in before if _read_versions()[each] != before[each]}
        changed = {series_id for series_id, *_ in {*standing} ^ {*_read_standings()}}
        assert changed <= moved


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=2, max_size=10))
@pytest.mark.django_db
def test_after_any_order_of_changes_the_kept_columns_are_those_read_anew(
    steps: list[tuple[Any, ...]], read_anew: Callable[[], dict[str, list[Any]]]
) -> None:
    with transaction.atomic():
        for step in (("arrive", 0, 100.0, 0), ("evaluate", 2), *steps, ("evaluate", 2)):
            before, standing = _read_versions(), _read_standings()
            take(*step)
            moved = {each for each in before if _read_versions().get(each) != before[each]}
            new = set(_read_versions()) - set(before)

            assert read_all() == read_anew()
            assert {each for each, *_ in standing ^ _read_standings()} <= moved | new
        transaction.set_rollback(True)


def _read_versions() -> dict[int, tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, xmin::text, ctid::text FROM benchapp_series")
        return {series_id: (written_by, place) for series_id, written_by, place in cursor.fetchall()}


def _read_standings() -> set[tuple[Any, ...]]:
    return set(Level.objects.values_list("series_id", "metric", "n", "median", "p10", "p90", "to_at"))


@pytest.mark.django_db(transaction=True)
def test_another_connection_is_seen_once_it_commits_and_not_before() -> None:
    series = make_series([1.0])
    calculate_levels()
    has_written, may_commit = threading.Event(), threading.Event()

    def write() -> None:
        with transaction.atomic():
            exclude_run(series.measurements.get().run_id, None, reason="noise")
            calculate_levels()
            has_written.set()
            may_commit.wait(timeout=30)
        connection.close()

    first = read_all()["iops.median"]
    writer = threading.Thread(target=write)
    writer.start()
    has_written.wait(timeout=30)
    during = read_all()["iops.median"]
    may_commit.set()
    writer.join(timeout=30)

    assert (first, during, read_all()["iops.median"]) == ([1.0], [1.0], [None])


@pytest.mark.django_db(transaction=True)
def test_what_was_rolled_back_is_forgotten() -> None:
    make_series([1.0])
    calculate_levels()
    before = read_all()

    with transaction.atomic():
        Series.objects.update(measurement_count=7)
        seen = read_all()["measurement_count"]
        transaction.set_rollback(True)

    assert (seen, read_all()) == ([7], before)


@pytest.mark.django_db(transaction=True)
def test_many_threads_read_nothing_older_than_what_was_committed_before() -> None:
    ids = [make_series([1.0]).pk for _ in range(8)]
    committed, problems, is_over = [0], [], threading.Event()

    def read(text: str) -> None:
        while not is_over.is_set():
            least = committed[0]
            table, _ = read_table(parse_filter(text), ["iops"])
            counts = list(table.column("measurement_count"))
            if min(counts) < least:
                problems.append((least, counts))
        connection.close()

    Series.objects.update(measurement_count=0)
    # Half of them ask for some of the series, so that what one keeps is what another lacks.
    some = f"host:{Series.objects.get(pk=ids[0]).scope[5:]}"
    readers = [threading.Thread(target=read, args=(text,)) for text in ("", some, "", some)]
    for reader in readers:
        reader.start()
    for count in range(1, 60):
        Series.objects.update(measurement_count=count)
        committed[0] = count
    is_over.set()
    for reader in readers:
        reader.join(timeout=30)

    assert problems == []


def test_no_more_is_kept_than_there_is_room_for(settings: Any) -> None:
    settings.KEPT_SERIES = 5
    kept = SeriesColumnCache(_load_numbers)

    first = kept.read(_make_versions([1, 2, 3]))
    second = kept.read(_make_versions([7, 6, 5, 4]))
    many = kept.read(_make_versions([9, 8, 7, 6, 5, 4]))

    assert [list(each.arrays["number"]) for each in (first, second, many)] == [
        [1, 2, 3],
        [7, 6, 5, 4],
        [9, 8, 7, 6, 5, 4],
    ]
    assert [many.shared["name"].values[code] for code in many.shared["name"].codes] == list("987654")
    assert len(kept) == 4


def test_where_there_is_no_room_all_is_read_each_time(settings: Any) -> None:
    settings.KEPT_SERIES = 0
    asked: list[list[int]] = []
    kept = SeriesColumnCache(lambda ids: asked.append(ids.tolist()) or _load_numbers(ids))

    found = [list(kept.read(_make_versions([2, 1])).arrays["number"]) for _ in range(2)]

    assert (found, asked, len(kept)) == ([[2, 1]] * 2, [[2, 1]] * 2, 0)


def test_who_waits_for_another_reader_takes_what_it_has_read() -> None:
    asked: list[list[int]] = []
    is_reading, may_go_on = threading.Event(), threading.Event()

    def load(ids: Any) -> Columns:
        asked.append(ids.tolist())
        is_reading.set()
        may_go_on.wait(timeout=30)
        return _load_numbers(ids)

    kept = SeriesColumnCache(load)
    readers = [threading.Thread(target=kept.read, args=(_make_versions([1, 2]),)) for _ in range(4)]
    for reader in readers:
        reader.start()
    is_reading.wait(timeout=30)
    may_go_on.set()
    for reader in readers:
        reader.join(timeout=30)

    assert asked == [[1, 2]]


def test_series_that_went_away_meanwhile_is_left_out() -> None:
    kept = SeriesColumnCache(lambda ids: _load_numbers(ids[ids != 2]))

    found = kept.read(_make_versions([3, 2, 1]))

    assert list(found.versions.ids) == [3, 1]


def _make_versions(ids: Sequence[int]) -> Versions:
    wanted = np.array(ids, dtype=np.int64)
    return Versions(wanted, np.ones_like(wanted), np.ones_like(wanted))


def _load_numbers(ids: Any) -> Columns:
    names = Codes.of([str(each) for each in ids.tolist()], np.arange(len(ids)))
    return Columns(_make_versions(ids), {"number": ids}, {"name": names})
