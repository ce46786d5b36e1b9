"""Every page, export and answer shows the same current level and the same mark of a series.

Changes are planted (new, old, accepted, recovered, during maintenance, too small), and the numbers and marks of all
places that represent a series by a number are compared with the stored level and with each other.
"""

import csv
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.catalog.metrics import format_signed_percent, format_value
from benchapp.framework.csv_export import format_number
from benchapp.incidents.actions.baselines import accept_level
from benchapp.judge import judge_due
from benchapp.models import Change, DetectionPolicy, Incident, Level, PlannedEvent, PlannedEventKind, Series
from tests.detection.write.judging import add_runs, make_cells, make_level
from tests.factories import make_detection_policy, make_host, make_user
from tests.pages import Page
from tests.shared_rows import shared_rows_of

pytestmark = pytest.mark.django_db
RUNS = 40
HOUR = timedelta(hours=1)


def plant(values: list[float], **fields: object) -> Series:
    """Make a series with hourly runs up to now, and detect its changes."""
    (series,) = make_cells(
        make_host("db-1"),
        [values],
        targets=[{"volume_type": "gp3", "volume_count": 4}],
        start_at=timezone.now().replace(microsecond=0) - len(values) * HOUR,
    )
    judge_due()
    return series


def plant_none() -> Series:
    return plant(make_level(1000.0, RUNS))


def plant_new() -> Series:
    return plant(make_level(1000.0, 30) + make_level(780.0, 10))


def plant_old() -> Series:
    return plant(make_level(1000.0, 30) + make_level(780.0, 120))


def plant_improvement() -> Series:
    return plant(make_level(1000.0, 30) + make_level(1250.0, 10))


def plant_accepted() -> Series:
    series = plant_new()
    accept_level(Incident.objects.get().pk, by=make_user())
    judge_due()
    return series


def plant_recovered() -> Series:
    series = plant(make_level(1000.0, 30) + make_level(780.0, 10))
    add_runs(series, make_level(1000.0, 12))
    judge_due()
    return series


def plant_during_maintenance() -> Series:
    now = timezone.now()
    PlannedEvent.objects.create(
        kind=PlannedEventKind.MAINTENANCE,
        filter="host:db-1",
        from_at=now - 11 * HOUR,
        to_at=now,
        reason="firmware",
        created_at=now,
    )
    return plant_new()


def plant_too_small() -> Series:
    return plant(make_level(1000.0, 60) + make_level(970.0, 60))


CASES: dict[str, tuple[Callable[[], Series], float, int, str | None]] = {
    # Case → how it is planted, its level, the runs of that level, the state of its mark.
    "no change": (plant_none, 1000.0, 40, None),
    "new": (plant_new, 780.0, 10, "open"),
    "old": (plant_old, 780.0, 120, "open"),
    "improvement": (plant_improvement, 1250.0, 10, "open"),
    "accepted": (plant_accepted, 780.0, 10, "accepted"),
    "recovered": (plant_recovered, 1000.0, 12, "recovered"),
    "during maintenance": (plant_during_maintenance, 1000.0, 30, None),
    "too small": (plant_too_small, 1000.0, 120, None),
}


@shared_rows_of(*CASES)
def case(name: str) -> tuple[Series, Level, str | None]:
    """Plant a case, and return its series, stored level and mark state."""
    make, median, runs, mark = CASES[name]
    series = make()
    level = Level.objects.get(series=series, metric="iops", is_current=True)
    assert level.median == pytest.approx(median, rel=0.02)
    assert level.n == runs
    return series, level, mark


def test_answers_have_the_stored_level_and_its_mark(
    viewer: Client, case: tuple[Series, Level, str | None]
) -> None:
    series, level, mark = case

    (cell,) = _measured(viewer.get("/api/v1/matrix").json()["cells"])
    (point,) = _measured(viewer.get("/api/v1/scaling").json()["cells"])
    (line,) = viewer.get(f"/api/v1/history?series={series.pk}&metrics=iops").json()["lines"]
    (row,) = csv.DictReader(viewer.get("/api/v1/matrix?format=csv").content.decode().splitlines())

    (listed,) = viewer.get("/api/v1/series").json()["series"]
    alone = viewer.get(f"/api/v1/series/{series.pk}").json()

    current = line["levels"]["iops"][-1]
    assert cell["median"] == point["median"] == current["median"] == level.median
    assert row["median"] == format_number(level.median)
    assert cell["n"] == point["n"] == current["n"] == int(row["n"]) == level.n
    for found in (listed, alone):
        assert (found["level_metric"], found["level_median"]) == ("iops", level.median)
        assert found["level_n"] == level.n
        assert datetime.fromisoformat(found["level_from_at"]) == level.from_at
        assert found["previous_level_median"] == level.previous_median
        assert (found["previous_level_until_at"] is None) == (level.previous_until_at is None)
    assert cell["p10"] == point["p10"] == current["p10"] == level.p10
    assert (
        datetime.fromisoformat(cell["from_at"]) == datetime.fromisoformat(current["from_at"]) == level.from_at
    )
    assert cell["change_state"] == point["change_state"] == (row["change_state"] or None) == mark
    assert cell["incident"] == point["incident"]
    assert cell["change_relative"] == point["change_relative"]
    if mark:
        # A recovery may be a change too, without an incident.
        change = Change.objects.get(incident__isnull=False)
        assert (cell["incident"], cell["change_relative"]) == (change.incident_id, change.relative)


def test_comparison_starts_from_the_current_level(
    viewer: Client, case: tuple[Series, Level, str | None]
) -> None:
    _, level, mark = case
    make_cells(
        make_host("db-2"),
        [make_level(500.0, 12)],
        targets=[{"volume_type": "gp3", "volume_count": 4}],
        start_at=timezone.now() - 12 * HOUR,
    )
    judge_due()

    (pair,) = viewer.get("/api/v1/comparison?a=host:db-1&b=host:db-2&metrics=iops").json()["pairs"]
    page = Page(viewer.get(reverse("compare"), {"a": "host:db-1", "b": "host:db-2", "metric": "iops"}))

    incident_id = Incident.objects.get().pk if mark else None
    assert (pair["a_median"], pair["a_n"]) == (level.median, level.n)
    assert (pair["a_change_state"], pair["a_incident"]) == (mark, incident_id)
    assert (pair["b_change_state"], pair["b_incident"]) == (None, None)
    assert format_value(level.median, "operations/s") in page.words
    incidents = [link for link in page.links if link.startswith("/incidents/") and link != "/incidents/"]
    assert incidents == ([f"/incidents/{incident_id}/"] if mark else [])


def test_pages_show_the_stored_level_and_link_its_incident(
    viewer: Client, case: tuple[Series, Level, str | None]
) -> None:
    series, level, mark = case
    text = format_value(level.median, "operations/s")
    incident = f"/incidents/{Incident.objects.get().pk}/" if mark else None
    places = {
        "matrix": reverse("matrix"),
        "scaling": reverse("scaling"),
        "series": reverse("series", args=[series.pk]),
        "history": f"{reverse('history')}?series={series.pk}",
        "series grid": reverse("series_list"),
        "series table": f"{reverse('series_list')}?view=table",
    }

    pages = {name: Page(viewer.get(address, follow=True)) for name, address in places.items()}
    lists = {"hosts": Page(viewer.get(reverse("hosts")))}

    assert [name for name, page in pages.items() if text not in page.words] == []
    marked = {name for name, page in (pages | lists).items() if incident and incident in page.links}
    if mark:
        # A host is marked by open regressions only; a cell by what still holds.
        is_bad = mark == "open" and Incident.objects.get().is_regression
        past = {"matrix", "scaling"} if mark == "recovered" else set()
        assert marked == {*pages, *(["hosts"] if is_bad else [])} - past
    else:
        assert not any(
            "/incidents/" in link and link.strip("/").split("/")[-1].isdigit()
            for page in pages.values()
            for link in page.links
        )


def test_earlier_level_is_named_with_its_end(viewer: Client) -> None:
    series = plant_new()
    before = Level.objects.get(series=series, metric="iops", is_current=False)

    page = Page(viewer.get(reverse("series", args=[series.pk])))

    change = Change.objects.get(series=series)
    assert f"Was {format_value(before.median, 'operations/s')} IOPS until" in page.words
    assert format_signed_percent(change.relative) in page.words


def test_step_below_the_threshold_is_named_differently(viewer: Client) -> None:
    series = plant_too_small()

    page = Page(viewer.get(reverse("series", args=[series.pk])))

    assert "Steps below the threshold of 5 %, not reported: −3." in page.words
    (line,) = viewer.get(f"/api/v1/history?series={series.pk}&metrics=iops").json()["lines"]
    (step,) = line["small_steps"]
    assert step["relative"] == pytest.approx(-0.03, abs=0.005)
    assert (step["before"], step["after"]) == (pytest.approx(1000, rel=0.01), pytest.approx(970, rel=0.01))
    assert line["first_at"] == step["from_at"] < step["at"] < step["to_at"] == line["last_at"]
    assert line["changes"] == []
    assert not Change.objects.filter(series=series).exists()


def test_steps_are_compared_with_the_threshold_of_the_series(viewer: Client) -> None:
    series = plant_too_small()

    def read_steps() -> list[float]:
        (line,) = viewer.get(f"/api/v1/history?series={series.pk}&metrics=iops").json()["lines"]
        return [step["threshold"] for step in line["small_steps"]]

    assert read_steps() == [0.05]
    raised = make_detection_policy(filter="", smallest_change=0.12)
    assert read_steps() == [0.12]
    page = Page(viewer.get(reverse("series", args=[series.pk])))
    assert "Steps below the threshold of 12 %, not reported: −3." in page.words
    DetectionPolicy.objects.filter(pk=raised.pk).update(smallest_change=0.02)
    assert read_steps() == []


def _measured(cells: list[dict[str, object]]) -> list[dict[str, object]]:
    return [cell for cell in cells if cell["state"] == "measured"]
