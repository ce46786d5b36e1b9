"""Profile, sweep and labels in filters: which runs, series, hosts, changes and values they select."""

from datetime import timedelta
from uuid import UUID

import pytest

from benchapp.catalog.dimensions import get_filter_dimension
from benchapp.catalog.grammar import BadFilter, parse_filter, parse_term, write_filter
from benchapp.charts.read.chart import BadChart
from benchapp.charts.read.comparison import compare_sides
from benchapp.charts.read.comparison_sides import Side
from benchapp.charts.read.history import choose_series, read_history
from benchapp.charts.read.matrix import read_matrix
from benchapp.charts.read.scaling import read_scaling
from benchapp.charts.read.scaling_shapes import ScalingRequest
from benchapp.charts.read.series_grid import read_series_grid
from benchapp.framework.write.conflicts import BadValue
from benchapp.incidents.write.planned_events import EVENTS
from benchapp.models import Change, Host, PlannedEvent, Run, Series
from benchapp.models.coverage import match_hosts
from benchapp.models.filtering import match_changes, match_measurements, match_runs, match_series
from benchapp.models.measurement import Measurement
from benchapp.series.read.dimension_values import list_label_names, read_facet
from benchapp.series.read.selected_levels import LevelRange
from tests.factories import (
    NOON,
    calculate_levels,
    make_change,
    make_host,
    make_measurement,
    make_run,
    make_series,
    make_target,
)
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

SWEEP = UUID("6f1cbb2e-9d3e-4a55-8d0a-222222222222")
OTHER_SWEEP = UUID("7a1cbb2e-9d3e-4a55-8d0a-222222222222")


@shared_rows
def fleet() -> dict[str, Series]:
    """`db-1` ran a sweep, then branch main; `db-2` ran main in another rack, `web-1` has no labels."""
    made = {}
    for number, (name, runs) in enumerate(
        {
            "db-1": (
                {"sweep_id": SWEEP, "profile": "sweep", "labels": {"rack": "R1", "branch": "topic"}},
                {"profile": "nightly", "labels": {"rack": "R1", "branch": "main"}},
            ),
            "db-2": ({"profile": "nightly", "labels": {"rack": "r2", "branch": "main", "1": "one"}},),
            "web-1": ({"sweep_id": OTHER_SWEEP, "profile": "", "labels": {}},),
        }.items()
    ):
        host = make_host(name)
        made[name] = make_series(host=host, target=make_target(volume_type="gp3", volume_count=number + 1))
        for day, facts in enumerate(runs):
            run = make_run(host, started_at=NOON + timedelta(days=day), target=made[name].target, **facts)
            make_measurement(run, made[name], iops=100.0 + 50 * day)
    return made


RUNS = [
    ("label.rack:R1", {"db-1": 2}),
    ("label.rack:r1", {"db-1": 2}),
    ("label.Rack:r1", {}),
    ("LABEL.rack:r2", {"db-2": 1}),
    ("label.rack:r*", {"db-1": 2, "db-2": 1}),
    ("label.rack:R1,r2", {"db-1": 2, "db-2": 1}),
    ("label.rack:unknown", {"web-1": 1}),
    ("-label.rack:R1", {"db-2": 1, "web-1": 1}),
    ("-label.rack:r*", {"web-1": 1}),
    ("label.Rack:R1", {}),
    ("label.1:one", {"db-2": 1}),
    ("label.1:o*", {"db-2": 1}),
    (f"sweep:{SWEEP}", {"db-1": 1}),
    (f"sweep:{str(SWEEP).upper()}", {"db-1": 1}),
    ("sweep:6f1c*", {"db-1": 1}),
    (f"sweep:{SWEEP},{OTHER_SWEEP}", {"db-1": 1, "web-1": 1}),
    ("sweep:unknown", {"db-1": 1, "db-2": 1}),
    ("profile:nightly", {"db-1": 1, "db-2": 1}),
    ("profile:night*,sweep", {"db-1": 2, "db-2": 1}),
    ("profile:unknown", {"web-1": 1}),
    ("label.branch:main profile:nightly host:db-1", {"db-1": 1}),
    ("label.branch:topic profile:nightly", {}),
]


@pytest.mark.parametrize(("text", "counts"), RUNS)
def test_runs_and_measurements_are_selected_by_their_own_facts(
    text: str, counts: dict[str, int], fleet: dict
) -> None:
    filter = parse_filter(text)

    for rows in (
        Run.objects.filter(match_runs(filter)).values_list("host__name", flat=True),
        Measurement.objects.filter(match_measurements(filter)).values_list("run__host__name", flat=True),
    ):
        assert {name: list(rows).count(name) for name in rows} == counts


@pytest.mark.parametrize("runs", ["newest", "any"])
@pytest.mark.parametrize(("text", "counts"), RUNS)
def test_series_are_selected_by_any_of_their_runs(
    text: str, counts: dict[str, int], runs, fleet: dict
) -> None:
    found = Series.objects.filter(match_series(parse_filter(text), runs=runs))

    assert {scope.removeprefix("host:") for scope in found.values_list("scope", flat=True)} == set(counts)


@pytest.mark.parametrize(
    ("text", "names"),
    [("label.branch:main", {"db-1", "db-2"}), ("label.branch:topic", set()), ("profile:unknown", {"web-1"})],
)
def test_hosts_are_selected_by_their_newest_run(text: str, names: set[str], fleet: dict) -> None:
    hosts = list(Host.objects.all())

    found = match_hosts(parse_filter(text), hosts)

    assert {host.name for host in hosts if host.pk in found} == names


def test_changes_are_selected_by_their_first_run(fleet: dict) -> None:
    run = Run.objects.get(labels__branch="topic")
    change = make_change(fleet["db-1"], run=run, started_at=run.started_at)

    matching = [
        list(Change.objects.filter(match_changes(parse_filter(text))))
        for text in ("label.branch:topic", "label.branch:main", f"sweep:{SWEEP}")
    ]

    assert matching == [[change], [], [change]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sweep:6f1c", "is not a valid UUID"),
        ("label.:x", "Unknown filter"),
        ("label.rack:", "has no value"),
    ],
)
def test_invalid_term_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(BadFilter, match=reason):
        parse_filter(text)


@pytest.mark.parametrize(
    "text", ["label.rack:R1,r2", 'label.a-b.c:"two words"', "sweep:6f1c*", "profile:*x*"]
)
def test_terms_are_written_as_they_are_read(text: str) -> None:
    assert write_filter(parse_filter(text)) == text


def test_sweep_of_a_parameter_is_checked_as_well() -> None:
    with pytest.raises(BadFilter, match="UUID"):
        parse_term("sweep", "no")


def test_planned_event_cannot_have_them() -> None:
    with pytest.raises(BadValue, match=r"label\.rack"):
        EVENTS.check(PlannedEvent(kind="maintenance", filter="label.rack:R1"))


@pytest.mark.parametrize(
    ("name", "text", "prefix", "found"),
    [
        ("label.rack", "", "", {"R1": 2, "r2": 1, None: 1}),
        ("label.rack", "label.branch:main label.rack:R1", "", {"R1": 1, "r2": 1}),
        ("label.rack", "", "r", {"R1": 2, "r2": 1}),
        ("profile", "host:db-*", "", {"nightly": 2, "sweep": 1}),
        ("sweep", "", "6f", {str(SWEEP): 1}),
        ("profile", "nightly", "", {"nightly": 2}),
    ],
)
def test_values_are_counted_in_runs(name: str, text: str, prefix: str, found: dict, fleet: dict) -> None:
    facet = read_facet(get_filter_dimension(name), parse_filter(text), prefix=prefix)

    assert {one.value: one.run_count for one in facet.values} == found
    assert not facet.is_partial
    assert {one.series_count for one in facet.values} == {None}


def test_facet_reports_that_more_runs_match_than_it_counted(fleet: dict, monkeypatch) -> None:
    monkeypatch.setattr("benchapp.series.read.dimension_values.RUNS_COUNTED", 2)

    facet = read_facet(get_filter_dimension("label.rack"), parse_filter(""))

    assert facet.is_partial
    assert sum(one.run_count or 0 for one in facet.values) == 2


def test_label_names_are_those_of_the_runs(fleet: dict) -> None:
    assert list_label_names() == ("1", "branch", "rack")


def test_values_of_the_environment_are_those_of_series_with_such_a_run(fleet: dict) -> None:
    facet = read_facet(get_filter_dimension("kernel"), parse_filter("label.branch:topic"))

    assert [one.series_count for one in facet.values] == [1]


def test_history_shows_the_matching_runs_and_counts_the_others(fleet: dict) -> None:
    filter = parse_filter("label.branch:topic")

    history = read_history(choose_series(filter), metrics=["iops"], terms=filter.fact_terms)

    assert [line.points.points.values["iops"].tolist() for line in history.lines] == [[100.0]]
    assert history.hidden == 1


def test_history_of_a_label_that_no_run_has_is_empty(fleet: dict) -> None:
    filter = parse_filter("label.branch:none")

    assert read_history(choose_series(filter), metrics=["iops"], terms=filter.fact_terms).lines == ()


@pytest.fixture
def series_of_two_branches() -> Series:
    """Six runs of main at about 100, six of topic at about 200, in turn."""
    host = make_host("ci")
    series = make_series(host=host, target=make_target(volume_type="gp3", volume_count=4))
    for number in range(12):
        branch = ("main", "topic")[number % 2]
        run = make_run(
            host,
            started_at=NOON + timedelta(hours=number),
            target=series.target,
            labels={"branch": branch},
        )
        make_measurement(run, series, iops={"main": 100.0, "topic": 200.0}[branch] + number)
    calculate_levels([series.pk])
    return series


def test_comparison_of_labels_compares_their_runs(series_of_two_branches: Series) -> None:
    found = compare_sides(
        Side(parse_filter("label.branch:main")), Side(parse_filter("label.branch:topic")), metrics=["iops"]
    )

    (pair,) = found.pairs
    a, b = pair.comparison.a, pair.comparison.b
    assert [(a.n, a.median), (b.n, b.median)] == [(6, 105.0), (6, 206.0)]


def test_matrix_and_scaling_show_the_runs_with_the_label(series_of_two_branches: Series) -> None:
    filter = parse_filter("label.branch:topic")

    matrix = read_matrix(filter, x="volume_count", rows="pattern", metric="iops")
    scaling = read_scaling(ScalingRequest(filter, x="volume_count", has_runs=True))

    for chart in (matrix, scaling):
        assert [(cell.median, cell.n) for cell in chart.cells if cell.n] == [(206.0, 6)]
    assert [run.value for cell in scaling.cells for run in cell.runs] == [
        201.0,
        203.0,
        205.0,
        207.0,
        209.0,
        211.0,
    ]


def test_scaling_of_an_earlier_time_refuses_them(series_of_two_branches: Series) -> None:
    with pytest.raises(BadChart, match=r"label\.branch, a fact of runs"):
        read_scaling(ScalingRequest(parse_filter("label.branch:main"), span=LevelRange(to_at=NOON)))


def test_series_grid_shows_the_series_that_have_them(fleet: dict) -> None:
    calculate_levels()

    for text in ("label.rack:r2", "kernel:6.1* host:web-1", "label.branch:main"):
        grid = read_series_grid(parse_filter(text), metric="iops")

        shown = {one.row.id for part in grid.parts for one in part.series}
        assert shown == set(
            Series.objects.filter(match_series(parse_filter(text))).values_list("pk", flat=True)
        )
