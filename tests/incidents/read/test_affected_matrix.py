"""The affected matrix of an incident."""

from datetime import timedelta
from typing import Any

import pytest

from benchapp.incidents.read import affected_matrix as incident_cells
from benchapp.incidents.read.affected_matrix import AffectedMatrix, read_affected_matrix
from benchapp.incidents.read.incidents import read_incident
from benchapp.models import Host, Incident, Series
from tests.factories import (
    NOON,
    make_change,
    make_detection_result,
    make_host,
    make_incident,
    make_series,
    make_target,
    make_workload,
)

pytestmark = pytest.mark.django_db


def make_cell(host: Host, *, volumes: int | None = 1, is_judged: bool = True, **workload: Any) -> Series:
    work = make_workload(**{"rw": "randread", "block_size_bytes": 4096, **workload})
    target = make_target(volume_count=volumes)
    series = make_series([1000.0, 850.0], host=host, target=target, workload=work, direction="read")
    if is_judged:
        make_detection_result(series)
    return series


def read(incident: Incident, **asked: Any) -> AffectedMatrix:
    detail = read_incident(incident.pk)
    assert detail
    matrix = read_affected_matrix(detail.row, **asked)
    assert matrix
    return matrix


def list_states(matrix: AffectedMatrix) -> dict[str, list[str]]:
    return {label: [cell.state for cell in cells] for label, cells in matrix.lines}


def test_rows_are_patterns_and_columns_the_varying_dimension() -> None:
    host = make_host()
    changed = [make_cell(host, volumes=count) for count in (4, 8)]
    make_cell(host, volumes=1)
    make_cell(host, volumes=8, rw="randwrite", is_judged=False)
    make_cell(host, volumes=1, rw="randwrite")
    incident = make_incident(changes=[make_change(series) for series in changed])

    matrix = read(incident)

    assert (matrix.x.name, matrix.columns) == ("volume_count", ("1", "4", "8"))
    assert list_states(matrix) == {
        "4k random read": ["unchanged", "changed", "changed"],
        "4k random write, reads": ["unchanged", "missing", "unjudged"],
    }
    assert (matrix.changed, matrix.judged, matrix.unjudged) == (2, 4, 1)


def test_cell_shows_the_largest_change_and_its_series() -> None:
    host = make_host()
    one, other = make_cell(host, volumes=1), make_cell(host, volumes=2)
    changes = [make_change(one, after=900.0), make_change(other, after=700.0)]
    matrix = read(make_incident(changes=changes))

    first, second = (cells[0] for _, cells in matrix.lines)

    assert (first.series_id, second.series_id) == (one.pk, other.pk)
    assert second.change
    assert (round(second.change["relative"], 3), second.change["id"]) == (-0.3, changes[1].pk)


def test_axes_are_the_two_dimensions_of_the_change_whatever_else_varies() -> None:
    host = make_host()
    cells = {
        (count, depth, size): make_cell(host, volumes=count, iodepth=depth, file_size_bytes=size)
        for count in (1, 2)
        for depth in (1, 32)
        for size in (2**30, 2**34)
    }
    changed = [cells[1, 32, 2**30], cells[1, 32, 2**34]]

    matrix = read(make_incident(changes=[make_change(series) for series in changed]))

    assert ([row.name for row in matrix.rows], matrix.x and matrix.x.name) == (["volume_count"], "iodepth")
    assert list_states(matrix) == {
        "1 volume": ["unchanged", "changed"],
        "2 volumes": ["unchanged", "unchanged"],
    }


def test_dimensions_that_vary_together_are_not_both_axes() -> None:
    host = make_host()
    cells = []
    for count in (1, 2, 4):
        target = make_target(volume_count=count, stripe_count=count)
        for depth in (1, 32):
            work = make_workload(rw="randread", block_size_bytes=4096, iodepth=depth)
            cells.append(make_series([1000.0, 850.0], host=host, target=target, workload=work))
            make_detection_result(cells[-1])

    matrix = read(make_incident(changes=[make_change(cells[0])]))

    assert ([row.name for row in matrix.rows], matrix.x and matrix.x.name) == (["volume_count"], "iodepth")
    assert list_states(matrix) == {
        "1 volume": ["changed", "unchanged"],
        "2 volumes": ["unchanged", "unchanged"],
        "4 volumes": ["unchanged", "unchanged"],
    }


def test_pattern_and_its_only_block_size_are_one_label() -> None:
    host = make_host()
    cells = [
        make_cell(host, volumes=count, rw=rw, block_size_bytes=size)
        for count in (1, 2)
        for rw, size in (("randread", 4096), ("read", 2**20))
    ]

    matrix = read(make_incident(changes=[make_change(cells[0])]))

    assert matrix.x
    assert matrix.x.name == "volume_count"
    assert list_states(matrix) == {
        "1M sequential read": ["unchanged", "unchanged"],
        "4k random read": ["changed", "unchanged"],
    }


def test_one_varying_dimension_is_a_list() -> None:
    host = make_host()
    cells = [make_cell(host, volumes=count) for count in (1, 2, 4)]

    matrix = read(make_incident(changes=[make_change(cells[1])]))

    assert (matrix.x, matrix.columns) == (None, ("",))
    assert list_states(matrix) == {
        "1 volume": ["unchanged"],
        "2 volumes": ["changed"],
        "4 volumes": ["unchanged"],
    }


def test_series_that_differ_in_no_dimension_of_the_axes_have_no_matrix() -> None:
    host = make_host()
    cells = [make_cell(host, runtime_s=seconds) for seconds in (30, 60)]
    detail = read_incident(make_incident(changes=[make_change(cells[0])]).pk)

    assert detail
    assert read_affected_matrix(detail.row) is None


def test_hosts_are_an_axis() -> None:
    hosts = [make_host(name) for name in ("db-1", "db-2", "db-3")]
    cells = [make_cell(host, volumes=count) for host in hosts for count in (1, 2)]
    matrix = read(make_incident(changes=[make_change(cell) for cell in cells], scope=""))

    assert matrix.columns == ("1", "2")
    assert list_states(matrix) == {name: ["changed", "changed"] for name in ("db-1", "db-2", "db-3")}


def test_rows_with_changes_are_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incident_cells, "ROWS_MAXIMUM", 2)
    host = make_host()
    sizes = [1024 * number for number in (1, 2, 4, 8)]
    cells = [make_cell(host, volumes=count, block_size_bytes=size) for size in sizes for count in (1, 2)]
    changes = [make_change(cell) for cell in (cells[5], cells[6], cells[7])]

    matrix = read(make_incident(changes=changes))

    assert list_states(matrix) == {
        "4k random read": ["unchanged", "changed"],
        "8k random read": ["changed", "changed"],
    }
    assert (matrix.rows_left_out, matrix.changed_left_out, matrix.changed, matrix.judged) == (2, 0, 3, 8)


def test_cell_of_several_series_counts_those_that_changed() -> None:
    host = make_host()
    cells = [
        make_cell(host, volumes=count, iodepth=depth, numjobs=jobs)
        for count in (1, 2)
        for depth in (1, 32)
        for jobs in (1, 2)
    ]
    changes = [make_change(cells[0], after=900.0), make_change(cells[1], after=800.0)]

    (first, _), (other, _) = (cells for _, cells in read(make_incident(changes=changes)).lines)

    assert (first.changed, first.series, first.series_id) == (2, 2, cells[1].pk)
    assert (other.state, other.changed, other.series) == ("unchanged", 0, 2)


def test_metric_with_the_most_changes_is_the_default() -> None:
    host = make_host()
    one, other = make_cell(host, volumes=1), make_cell(host, volumes=2)
    make_detection_result(one, metric="latency_mean_ns")
    incident = make_incident(
        changes=[
            make_change(one),
            make_change(other),
            make_change(one, metric="latency_mean_ns", after=1200.0, is_regression=True),
        ]
    )

    usual, asked = read(incident), read(incident, metric="latency_mean_ns")

    assert [(metric.name, count) for metric, count in usual.metrics] == [("iops", 2), ("latency_mean_ns", 1)]
    assert (usual.metric.name, usual.changed) == ("iops", 2)
    assert (asked.metric.name, asked.changed, asked.judged, asked.unjudged) == ("latency_mean_ns", 1, 1, 1)
    assert read(incident, metric="elapsed_s").metric.name == "iops"


def test_simultaneous_change_of_another_incident_is_not_unchanged() -> None:
    host = make_host()
    here, there, waiting, later = (make_cell(host, volumes=count) for count in (1, 2, 3, 4))
    incident = make_incident(changes=[make_change(here)])
    make_incident(changes=[make_change(there)])
    make_change(waiting)
    make_change(later, at=NOON + timedelta(days=9))

    states = [cells[0].state for _, cells in read(incident).lines]

    assert states == ["changed", "elsewhere", "elsewhere", "unchanged"]


def test_withdrawn_change_leaves_its_cell_unchanged() -> None:
    host = make_host()
    one, other = make_cell(host, volumes=1), make_cell(host, volumes=2)
    incident = make_incident(changes=[make_change(one), make_change(other, state="withdrawn")])

    assert [cells[0].state for _, cells in read(incident).lines] == ["changed", "unchanged"]


def test_single_series_has_no_matrix() -> None:
    detail = read_incident(make_incident(changes=[make_change(make_cell(make_host()))]).pk)

    assert detail
    assert read_affected_matrix(detail.row) is None
