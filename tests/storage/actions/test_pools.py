"""A host that joins, leaves or changes a pool: its history continues, its incidents follow, and all can be undone."""

import pytest

from benchapp.judge import judge_due
from benchapp.models import Change, ChangeState, Host, Incident, IncidentEvent, Measurement, Series
from benchapp.storage.actions import preview_pool, set_pool
from benchapp.storage.read.hosts import read_host
from tests.detection.write.judging import make_level
from tests.factories import make_host, make_series

pytestmark = pytest.mark.django_db


def plant_regression(name: str, *, pool: str = "") -> Series:
    """Plant a host with an open regression in one series."""
    series = make_series(make_level(1000.0, 30) + make_level(780.0, 10), host=make_host(name, pool=pool))
    judge_due()
    return series


def list_open(name: str) -> tuple[int, ...]:
    """Return the open incidents that a host shows."""
    host = read_host(name)
    return host.mark.incident_ids if host and host.mark else ()


def count_runs(name: str) -> dict[str, int]:
    """Return the number of runs of a host by the scope of their series."""
    scopes = Measurement.objects.filter(run__host__name=name).values_list("series__scope", flat=True)
    return {scope: list(scopes).count(scope) for scope in set(scopes)}


@pytest.mark.parametrize(("before", "after"), [("", "blue"), ("blue", ""), ("blue", "green")])
def test_incident_and_history_follow_a_host(before: str, after: str) -> None:
    series = plant_regression("db-1", pool=before)
    (incident_id,) = list_open("db-1")

    set_pool("db-1", after)
    judge_due()

    scope = Host.objects.get().scope
    assert count_runs("db-1") == {scope: 40}
    assert list_open("db-1") == (incident_id,)
    incident = Incident.objects.get()
    assert (incident.pk, incident.scope) == (incident_id, scope)
    assert incident.title.startswith(f"{after or 'db-1'}: IOPS −22 %")
    assert Series.objects.get(measurement_count__gt=0).pk == series.pk
    event = IncidentEvent.objects.get(kind="moved")
    names = [f"pool {pool}" if pool else "no pool" for pool in (before, after)]
    assert event.text == f"with db-1 from {names[0]} to {names[1]}"


def test_moved_series_changes_its_identity_and_gets_it_back() -> None:
    series = plant_regression("db-1")
    key = bytes(series.key)

    set_pool("db-1", "blue")
    moved = Series.objects.get(pk=series.pk)
    set_pool("db-1", "")

    assert (moved.scope, moved.host) == ("pool:blue", None)
    assert bytes(moved.key) != key
    series.refresh_from_db()
    assert (series.scope, series.host) == ("host:db-1", Host.objects.get())


def test_host_joins_the_series_of_its_pool_and_leaves_them_again() -> None:
    own = plant_regression("db-1")
    pooled = make_series(
        make_level(1000.0, 40), host=make_host("db-2", pool="blue"), target=own.target, workload=own.workload
    )
    judge_due()
    (incident_id,) = list_open("db-1")
    host = Host.objects.get(name="db-1")

    move = preview_pool(host, "blue")
    set_pool("db-1", "blue")

    assert (move.series, move.joined, move.shared, move.measurements) == (1, 1, 0, 40)
    assert [incident for incident, _ in move.incidents] == [incident_id]
    assert count_runs("db-1") == {"pool:blue": 40}
    pooled.refresh_from_db()
    assert pooled.measurement_count == 80
    assert set(Change.objects.values_list("series", flat=True)) == {pooled.pk}
    host.refresh_from_db()
    back = preview_pool(host, "")
    assert (back.series, back.shared) == (1, 1)

    set_pool("db-1", "")
    judge_due()

    assert (count_runs("db-1"), count_runs("db-2")) == ({"host:db-1": 40}, {"pool:blue": 40})
    assert list_open("db-1") == (incident_id,)
    assert list_open("db-2") == ()
    assert Change.objects.exclude(state=ChangeState.WITHDRAWN).get().series_id == own.pk


def test_results_that_went_to_the_former_scope_follow() -> None:
    series = make_series([1000.0] * 3, host=make_host("db-1"))
    host = Host.objects.get()
    Host.objects.update(pool="blue")
    other = make_series([1000.0] * 2, host=host, pool="blue", target=series.target, workload=series.workload)

    set_pool("db-1", "green")

    assert count_runs("db-1") == {"pool:green": 5}
    assert {series.pk, other.pk} >= set(
        Series.objects.filter(measurement_count=5).values_list("pk", flat=True)
    )


def test_host_without_results_changes_its_pool() -> None:
    make_host("db-1")

    move = set_pool("db-1", "blue")

    assert move is not None
    assert (move.series, Host.objects.get().pool) == (0, "blue")
    assert set_pool("nobody", "blue") is None
