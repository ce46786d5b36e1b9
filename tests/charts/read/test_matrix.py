"""The matrix: what each combination stands at, and why some are empty."""

from datetime import timedelta

import pytest
from django.utils import timezone

from benchapp.catalog.grammar import parse_filter, write_filter
from benchapp.charts.read import matrix as module
from benchapp.charts.read.chart import BadChart
from benchapp.charts.read.matrix import read_matrix
from benchapp.charts.texts.matrix import list_omitted
from benchapp.judge import judge_series
from benchapp.models import Change, Measurement, Series
from benchapp.series.read.selected_levels import LevelRange
from tests.detection.write.judging import make_level
from tests.factories import (
    calculate_levels,
    make_change,
    make_host,
    make_incident,
    make_measurement,
    make_run,
    make_series,
    make_target,
    make_workload,
    note_measurements,
)

pytestmark = pytest.mark.django_db
GIB = 2**30


def add(values=(100.0,), *, host="db-01", volumes=1, rw="randread", days_ago=1, **fields) -> Series:
    """Make a series of daily runs with its summary; fields: of workload, and volume_size_bytes."""
    size = fields.pop("volume_size_bytes", None)
    target = make_target(volume_type="gp3", volume_count=volumes, volume_size_bytes=size)
    series = make_series(
        values,
        host=_find_host(host),
        target=target,
        workload=make_workload(rw=rw, **fields),
        direction="write" if "write" in rw else "read",
        start_at=timezone.now() - timedelta(days=days_ago + len(values) - 1),
        step=timedelta(days=1),
    )
    calculate_levels([series.pk])
    return series


def _find_host(name: str):
    from benchapp.models import Host

    return Host.objects.filter(name=name).first() or make_host(name)


def read(text: str = "", **chosen):
    return read_matrix(parse_filter(text), **chosen)


def rows_of(matrix) -> dict:
    """Return label → states of the only panel."""
    (panel,) = matrix.panels
    return {row.label: [cell.state for cell in row.cells] for row in panel.lines}


def test_patterns_stand_over_volumes_where_nobody_chose() -> None:
    add([100.0], volumes=1)
    add([200.0], volumes=4)
    add([90.0], volumes=4, rw="write")

    matrix = read()

    assert (matrix.metric.name, matrix.x.dimension.name) == ("iops", "volume_count")
    assert matrix.x.labels == ("1", "4")
    assert rows_of(matrix) == {
        "4k sequential write": ["missing", "measured"],
        "4k random read": ["measured", "measured"],
    }
    assert [cell.median for cell in matrix.cells] == [
        None,
        90.0,
        100.0,
        200.0,
    ]


def test_sizes_that_vary_are_panels_as_far_as_they_were_measured() -> None:
    for file_size in (5 * GIB, 50 * GIB):
        add([1.0], file_size_bytes=file_size, volume_size_bytes=20 * GIB)
    add([1.0], file_size_bytes=50 * GIB, volume_size_bytes=200 * GIB)

    matrix = read(x="volumes")

    assert [panel.label for panel in matrix.panels] == [
        "5 GiB files, 20 GiB volumes",
        "50 GiB files, 20 GiB volumes",
        "50 GiB files, 200 GiB volumes",
    ]
    assert (matrix.size, matrix.count("measured"), matrix.count("missing")) == (3, 3, 0)


def test_hidden_series_with_an_open_regression_are_counted() -> None:
    add([2.0], iodepth=32)
    add([2.0], iodepth=32, volumes=2)
    hidden = [add([1.0], iodepth=depth) for depth in (1, 2, 4)]
    make_incident(changes=[make_change(series) for series in hidden[:2]])
    make_incident(changes=[make_change(hidden[2])], state="resolved")

    omitted = read().omitted

    assert (omitted.hidden_by_fixed, omitted.hidden_regressions) == (3, 2)
    assert read(metric="latency_p99_ns").omitted.hidden_regressions == 0


def test_what_varies_beside_the_axes_is_held_and_can_be_chosen() -> None:
    add([1.0], iodepth=1)
    add([2.0], iodepth=32)
    add([2.0], iodepth=32, volumes=2)

    usual, chosen = read(), read("depth:1")

    assert [(fixed.dimension, fixed.values) for fixed in usual.fixed] == [("iodepth", (32,))]
    assert usual.omitted.hidden_by_fixed == 1
    assert write_filter(usual.shown_filter) == "iodepth:32"
    assert chosen.fixed == ()
    assert [cell.median for cell in chosen.cells if cell.n] == [1.0]


def test_every_host_of_a_fleet_has_its_column_with_the_layout_that_it_has() -> None:
    for number in range(48):
        add([float(number)], host=f"db-{number:02}", volumes=1 + number % 3, iodepth=16 if number % 2 else 32)
    add([9.0], host="db-01", volumes=8, iodepth=1)

    matrix = read(x="host")

    assert (len(matrix.x.values), matrix.count("measured")) == (48, 48)
    assert matrix.omitted.hidden_by_fixed == 1
    assert [cell.median for cell in matrix.cells if cell.n] == [float(each) for each in range(48)]


def test_axes_are_chosen_by_name() -> None:
    add([1.0], volumes=2)
    add([2.0], volumes=4, rw="write")

    matrix = read(x="pattern", rows="volumes", facet="none", metric="iops")

    assert matrix.x.labels == ("sequential write", "random read")
    assert rows_of(matrix) == {"2 volumes": ["missing", "measured"], "4 volumes": ["measured", "missing"]}


def test_empty_cells_say_why() -> None:
    add([1.0], volumes=1)
    failed = add([], volumes=2)
    make_measurement(make_run(error=5), failed, error=5, iops=1.0)
    Series.objects.filter(pk=failed.pk).update(badges=["failed-job"])
    excluded = add([1.0], volumes=3)
    Measurement.objects.filter(series=excluded).update(is_excluded=True)
    calculate_levels([excluded.pk])
    unvalued = add([], volumes=4)
    make_measurement(make_run(), unvalued, elapsed_s=9.0)
    add([1.0], volumes=5, rw="read")

    matrix = read(facet="none")

    assert rows_of(matrix)["4k random read"] == ["measured", "failed", "excluded", "unvalued", "missing"]
    assert (matrix.count("failed"), matrix.count("excluded"), matrix.count("missing")) == (1, 1, 5)


def test_series_without_a_place_on_x_are_told_from_those_held_out() -> None:
    add(volumes=1)
    add(volumes=2)
    add(volumes=None)

    matrix = read()

    assert (matrix.omitted.unknown_x, matrix.omitted.hidden_by_fixed) == (1, 0)
    assert list(list_omitted(matrix)) == ["1 series hidden: unknown volumes."]


def test_unknown_block_size_is_said_behind_the_pattern() -> None:
    add(block_size_bytes=None)

    assert list(rows_of(read())) == ["random read, unknown block size"]


def test_cell_is_of_the_current_level_with_its_open_change() -> None:
    series = add(make_level(1000.0, 24) + make_level(780.0, 10))
    judge_series([series.pk])
    change = Change.objects.get(series=series)

    ((_, _, _, cell),) = read().walk()

    assert (cell.n, cell.from_at) == (10, change.started_at)
    assert cell.median == pytest.approx(780.0, rel=0.01)
    assert cell.previous.median == pytest.approx(1000.0, rel=0.01)
    assert (cell.mark.state, cell.mark.relative, cell.mark.incident_id) == (
        "open",
        change.relative,
        change.incident_id,
    )
    assert not cell.is_stale


def test_what_is_no_longer_measured_is_stale() -> None:
    add([1.0, 1.0, 1.0], days_ago=15)

    ((_, _, _, cell),) = read().walk()

    assert cell.is_stale


def test_cell_is_the_median_of_several_series_the_freshest_first() -> None:
    old = add([1.0], days_ago=9, host="db-01")
    new = add([2.0], days_ago=2, host="db-02")

    matrix = read("host:*", x="volumes")

    ((_, _, _, cell),) = matrix.walk()
    assert cell.series_ids == (new.pk, old.pk)
    assert cell.median == 1.5
    assert matrix.mixed == ("host",)


@pytest.mark.parametrize("from_days", [None, 10, 2])
def test_series_whose_newest_run_failed_is_not_the_freshest(from_days: int | None) -> None:
    failed = add([1.0] * 3, host="db-01", days_ago=3)
    measured = add([2.0] * 3, host="db-02", days_ago=1)
    make_measurement(make_run(failed.host, started_at=timezone.now(), error=5), failed, error=5)
    note_measurements(failed)
    span = LevelRange(None if from_days is None else timezone.now() - timedelta(days=from_days))

    (cell,) = [cell for _, _, _, cell in read("host:*", x="volumes", span=span).walk()]

    assert (cell.median, cell.series_ids[0]) == (2.0 if from_days == 2 else 1.5, measured.pk)


def test_too_much_is_cut_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for volumes in (1, 2, 4, 8):
        add([1.0], volumes=volumes, file_size_bytes=GIB)
        add([1.0], volumes=volumes, file_size_bytes=2 * GIB)
    add([1.0], volumes=1, rw="write", file_size_bytes=GIB)
    monkeypatch.setattr(module, "COLUMNS_MAXIMUM", 2)
    monkeypatch.setattr(module, "ROWS_MAXIMUM", 1)
    monkeypatch.setattr(module, "CELLS_MAXIMUM", 3)

    matrix = read()

    assert (matrix.size, matrix.omitted.columns, matrix.omitted.rows, matrix.omitted.panels) == (2, 2, 1, 1)


def test_nothing_that_fits_is_an_empty_matrix() -> None:
    matrix = read("host:nobody")

    assert (matrix.panels, matrix.size, matrix.fixed) == ((), 0, ())


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"metric": "speed"}, "'speed' is not a valid metric; available: iops,"),
        ({"x": "speed"}, "'speed' is not a valid dimension; available: host,"),
        ({"x": "host,pool"}, "2 dimensions given, at most 1 allowed"),
        ({"rows": "host,pool,rw"}, "3 dimensions given, at most 2 allowed"),
        ({"rows": "host", "x": "host"}, "x, rows and facet must be different"),
        ({"facet": "bs,block_size_bytes"}, "x, rows and facet must be different"),
    ],
)
def test_what_makes_no_sense_is_refused(chosen: dict, message: str) -> None:
    with pytest.raises(BadChart) as caught:
        read(**chosen)

    assert message in str(caught.value)


def test_matrix_takes_four_queries_and_one_more_for_series_without_a_value(
    django_assert_num_queries,
) -> None:
    # Beside the one of scaling_rows, which has a cursor of its own that is not counted here.
    for volumes in (1, 2, 4):
        add([1.0], volumes=volumes)

    with django_assert_num_queries(3):
        read()
    make_measurement(make_run(), add([], volumes=8), elapsed_s=9.0)
    with django_assert_num_queries(4):
        read()
