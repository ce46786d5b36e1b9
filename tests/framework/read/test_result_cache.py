"""Results in Django's cache: how old they get, what makes them new at once, and for whom they are."""

import re
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import show_rates_in
from benchapp.charts.read.history import read_small_steps
from benchapp.charts.read.matrix import read_matrix
from benchapp.charts.read.scaling import read_scaling
from benchapp.charts.read.scaling_shapes import ScalingRequest
from benchapp.charts.read.series_grid import read_series_grid
from benchapp.framework.read.binary_columns import CHART_S, DAYS_S, make_key, read_cached
from benchapp.layouts.read.question import read_question
from benchapp.layouts.read.ranking import rank_layouts
from benchapp.models import AuditRecord, Level, Measurement, Role, Series, name_person
from benchapp.overview.read.fleet import read_fleet_days
from benchapp.series.read.environment_changes import read_environment_changes
from benchapp.series.read.levels import read_levels
from benchapp.series.read.series import read_series_versions
from tests.factories import (
    calculate_levels,
    make_change,
    make_incident,
    make_points,
    make_run,
    make_series,
    make_target,
    make_workload,
)
from tests.visitors import sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("web_cache")]
_LIMITED = ScalingRequest(Filter(), metric="bandwidth_bytes_per_s", limits=("known",))


def make_measured() -> Series:
    series = make_series(
        [1000.0] * 3,
        target=make_target(volume_type="gp3", volume_count=1),
        workload=make_workload(rw="randread", block_size_bytes=4096),
        start_at=timezone.now() - timedelta(days=3),
        step=timedelta(days=1),
    )
    calculate_levels()
    return series


def read_numbers(series: Series) -> list[Any]:
    """Return what each function with a cache returns of the only series."""
    versions = read_series_versions([series.pk])
    levels = {series.pk: read_levels([series.pk], ["iops"])[series.pk]["iops"]}
    return [
        read_matrix(Filter()),
        read_scaling(ScalingRequest(Filter())),
        read_series_grid(Filter(), metric=None),
        rank_layouts(read_question(QueryDict("iops=500"))),
        read_fleet_days().patterns,
        read_environment_changes(versions),
        read_small_steps(versions, "iops", levels=levels),
    ]


def record_write(number: int) -> None:
    AuditRecord.objects.create(pk=number, at=timezone.now(), kind="price", action="changed")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stop the clock of the cache."""
    clock = SimpleNamespace(now_s=1_800_000_000.0)
    monkeypatch.setattr("django.core.cache.backends.locmem.time", SimpleNamespace(time=lambda: clock.now_s))
    monkeypatch.setattr("django.core.cache.backends.base.time", SimpleNamespace(time=lambda: clock.now_s))
    return clock


def test_cached_results_are_equal_to_those_that_were_read(django_assert_max_num_queries: Any) -> None:
    series = make_measured()
    first = read_numbers(series)

    # One for each result, and those for versions, levels, thresholds and losses.
    with django_assert_max_num_queries(12):
        again = read_numbers(series)

    assert again == first


def test_pages_of_cached_results_are_those_of_new_ones(settings: Any, client: Client) -> None:
    settings.PUBLIC_READ = True
    make_measured()
    paths = ("/matrix/", "/scaling/", "/series/", "/layouts/?iops=500", "/", "/hosts/")

    def read_pages() -> list[str]:
        return [re.sub(r'nonce="[^"]+"|value="\w{64}"', "", client.get(path).text) for path in paths]

    cached = read_pages()
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}

    assert cached == read_pages()


def test_number_of_an_arrived_result_is_seen_when_the_result_expires(clock: SimpleNamespace) -> None:
    series = make_measured()

    def read_median() -> float | None:
        ((*_, cell),) = read_matrix(Filter()).walk()
        return cell.median

    medians = [read_median()]
    Level.objects.filter(series=series, metric="iops").update(median=2000.0)
    for seconds in (0, CHART_S - 1, 1):
        clock.now_s += seconds
        medians.append(read_median())

    assert medians == [1000.0, 1000.0, 1000.0, 2000.0]


def test_person_sees_an_accepted_incident_at_once() -> None:
    editor, series = sign_in(Role.EDITOR), make_measured()
    incident = make_incident(changes=[make_change(series)])

    def read_states() -> list[str | None]:
        ((*_, cell),) = read_matrix(Filter()).walk()
        ((line,),) = [part.series for part in read_series_grid(Filter(), metric=None).parts]
        ((*_, place),) = read_scaling(ScalingRequest(Filter())).walk()
        return [one.mark and one.mark.state for one in (cell, line, place)]

    states = [read_states(), read_states()]
    editor.post(f"/incidents/{incident.pk}/resolve", {"verdict": "expected"})

    assert [*states, read_states()] == [["open"] * 3, ["open"] * 3, ["accepted"] * 3]


def test_new_run_is_seen_at_once_where_runs_and_one_series_are_shown(settings: Any, client: Client) -> None:
    settings.PUBLIC_READ = True
    series = make_measured()
    addresses = (
        *(f"/series/{series.pk}/", f"/api/v1/series/{series.pk}/points"),
        *(f"/api/v1/history?series={series.pk}", "/api/v1/runs", "/runs/"),
    )
    before = ["4321" in client.get(address).text.replace("\u202f", "") for address in addresses]

    make_points(series, make_run(), [timezone.now()], iops=4321.0)
    Series.objects.filter(pk=series.pk).update(last_at=timezone.now())

    after = ["4321" in client.get(address).text.replace("\u202f", "") for address in addresses]
    assert (before, after) == ([False] * 5, [True] * 5)


def test_write_with_a_smaller_number_that_is_committed_later_is_seen() -> None:
    record_write(7)
    counts = iter(range(9))

    def read() -> int:
        return read_cached("count", load=lambda: next(counts), age_s=DAYS_S)

    numbers = [read(), read()]
    record_write(6)

    assert [*numbers, read()] == [0, 0, 1]


def test_result_names_no_person_as_strangers_may_read_it() -> None:
    assert name_person("ada") == "ada"
    assert read_cached("name", load=lambda: name_person("ada"), age_s=DAYS_S) == "a user"


def test_texts_have_the_units_of_their_reader() -> None:
    make_measured()
    Measurement.objects.update(bandwidth_bytes_per_s=1e8)
    calculate_levels()

    names = []
    for units in ("si", "binary", "si"):
        with show_rates_in(units):
            limit = read_scaling(_LIMITED).panels[0].limits[0]
            names.append(limit.name.replace("\u202f", " "))

    assert names == ["gp3 1.05 GB/s × n", "gp3 1000 MiB/s × n", "gp3 1.05 GB/s × n"]


def test_keys_tell_types_apart() -> None:
    assert len({make_key(value) for value in (1, 1.0, True, "1", (1,), None)}) == 6
