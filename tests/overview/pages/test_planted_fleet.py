"""The planted fleet: pages, API and CSV against right answers calculated from its raw values.

Its steps: both periods of a comparison. Its drift that continues, on db-20: every page and answer states one level
before, newest level and begin.
"""

import csv
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

import pytest
from django.test import Client

from benchapp.framework.times import format_day, format_moment, to_iso
from benchapp.models import Change, DetectionResult, DetectionStatus, Incident, IncidentEvent
from benchapp.notices.write.incident_message import make_incident_message
from tests.pages import Page
from tests.planted_fleet import DAYS, NOISE, Fleet, name_host, plant_fleet
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
# Before and after all steps: days 20 to 29, and from day 32 on.
BEFORE, AFTER = slice(20, 30), slice(32, None)
DRIFTING = "db-20"
BEGIN = 16
# Runs of the newest level of a drift that continues.
NEWEST = slice(DAYS - 5, None)


@shared_rows
def fleet() -> Fleet:
    return plant_fleet()


def compare_periods(fleet: Fleet, **query: str) -> dict[str, str]:
    return {
        "a_from": to_iso(fleet.at(20)),
        "a_to": to_iso(fleet.at(30)),
        "b_from": to_iso(fleet.at(32)),
        **query,
    }


def test_page_names_the_pattern_that_lost_on_each_host(fleet: Fleet, viewer: Client) -> None:
    query: dict[str, Any] = compare_periods(fleet)

    words = Page(viewer.get("/compare/", {**query, "metric": "iops"})).words

    assert "12 of 46 hosts or pools are worse: db-03: random read, IOPS −25 % (8 of 8 series);" in words
    table = words[words.index("By host") :]
    assert "db-09 ▼ random read, IOPS −18 % (8 of 8 series) 8 0 1 20" in table
    # It recovered within A.
    assert "db-22 not decided: random write, IOPS ±0.0 % to +43 % (20 and 16 runs);" in table
    assert "33 hosts" in table
    assert "db-45 same 0 0 12 660" in table


LOST = {"pool:edge", *(f"host:{name_host(number)}" for number in (3, *range(9, 17), 20, 30))}


def test_last_week_against_the_week_before_is_no_false_all_clear(fleet: Fleet, viewer: Client) -> None:
    """The steps of days 30 and 32 are within A: its medians are from before, but their intervals include both."""
    page = Page(viewer.get("/compare/"))
    link = next(each for each in page.links if "a_from=" in each and "b_from=" in each)

    words = Page(viewer.get(f"/compare/{link}")).words
    figure = viewer.get(f"/compare/{link}").context["figure"]
    answer = viewer.get(figure.address).json()

    scopes = {each["scope"]: each["verdict"] for each in answer["scopes"]}
    assert {scope for scope, verdict in scopes.items() if verdict == "worse"} == LOST
    assert set(scopes.values()) == {"worse", "same"}
    assert figure.title.endswith(": 12 of 46 hosts or pools worse, 0 better")
    assert "12 of 46 hosts or pools are worse: db-03: random read, IOPS −2" in words
    assert "Runs of each value: 7 runs a side." in words
    assert {"incident", "pattern"} <= {pair["evidence"] for pair in answer["pairs"]}
    # No value is the same that lost by plan, and nothing else is worse.
    planted = {each.id: each for each in fleet.series}
    for pair in answer["pairs"]:
        series = planted[pair["a_series"][0]]
        wrong = "same" if series.is_worse and not series.is_drifting and pair["metric"] == "iops" else "worse"
        assert pair["verdict"] != wrong or (wrong == "worse" and series.scope in LOST)


def test_weeks_without_a_planted_change_are_the_same(fleet: Fleet, viewer: Client) -> None:
    bounds = {"a_from": fleet.at(0), "a_to": fleet.at(7), "b_from": fleet.at(7), "b_to": fleet.at(14)}

    answer = viewer.get(
        "/api/v1/comparison", {name: to_iso(moment) for name, moment in bounds.items()}
    ).json()

    assert {each["verdict"] for each in answer["scopes"]} == {"same"}
    assert {pair["verdict"] for pair in answer["pairs"]} == {"same", "undecided"}


def test_mark_is_on_the_side_that_has_the_change(fleet: Fleet, viewer: Client) -> None:
    query = compare_periods(fleet, metrics="iops", q="host:db-09 rw:randread", format="csv")

    rows = list(csv.DictReader(viewer.get("/api/v1/comparison", query).content.decode().splitlines()))

    assert {(row["a_change_state"], row["b_change_state"]) for row in rows} == {("", "open")}


def test_difference_below_the_threshold_is_the_same(fleet: Fleet, viewer: Client) -> None:
    planted = {each.id: each for each in fleet.series}

    rows = viewer.get("/api/v1/comparison", compare_periods(fleet, metrics="iops")).json()["pairs"]

    assert len(rows) == len(planted)
    for row in rows:
        each = planted[row["a_series"][0]]
        ratio = each.median("iops", AFTER) / each.median("iops", BEFORE)
        assert row["ratio"] == pytest.approx(ratio)
        assert row["is_worse"] is (None if 0.9524 < ratio < 1.05 else ratio < 1)


def test_noise_after_a_recovery_is_that_within_the_levels(fleet: Fleet) -> None:
    ids = [each.id for each in fleet.of("db-22")]
    results = DetectionResult.objects.filter(series_id__in=ids, metric="latency_p99_ns")

    assert {(result.status, result.n) for result in results} == {(DetectionStatus.STEADY, DAYS)}
    # 5 % are planted; the noise of 40 runs is known to a tenth of it.
    assert all(result.spread == pytest.approx(NOISE["latency_p99_ns"], rel=0.3) for result in results)


def test_incident_titles_name_the_cause_that_people_recognize(fleet: Fleet) -> None:
    titles = {
        incident.scope: incident.title for incident in Incident.objects.filter(merged_into=None, is_open=True)
    }

    assert titles["host:db-30"].endswith("in 8 of 20 series, random 4k only")
    # db-03 lost as much two days before, without the kernel of the others.
    assert titles["host:db-03"].startswith("db-03: IOPS −25 %")
    assert titles[""].startswith("db-09 to db-16: IOPS ")
    assert titles[""].endswith("in 64 of 160 series, random read only")


@dataclass(frozen=True, slots=True)
class Stated:
    """What `GET /changes` states about a series: all others must state the same."""

    before: float
    newest: float
    began_at: datetime

    @property
    def relative(self) -> float:
        return self.newest / self.before - 1


def read_stated(viewer: Client, metric: str = "iops") -> dict[int, Stated]:
    rows = viewer.get("/api/v1/changes", {"q": f"host:{DRIFTING}", "metric": metric}).json()["changes"]
    stated = {
        row["series"]: Stated(
            row["before_median"], row["after_median"], datetime.fromisoformat(row["started_at"])
        )
        for row in rows
    }
    assert len(stated) == len(rows)
    return stated


def get_incident() -> Incident:
    return Incident.objects.get(scope=f"host:{DRIFTING}", merged_into=None)


@pytest.mark.parametrize("metric", ["iops", "latency_mean_ns"])
def test_every_series_has_one_change_from_the_level_before_to_the_newest_runs(
    fleet: Fleet, viewer: Client, metric: str
) -> None:
    rows = viewer.get("/api/v1/changes", {"q": f"host:{DRIFTING}", "metric": metric}).json()["changes"]

    found = {row["series"]: row for row in rows}
    assert len(rows) == len(found) == len(fleet.of(DRIFTING))
    for each in fleet.of(DRIFTING):
        row = found[each.id]
        assert row["before_median"] == pytest.approx(each.median(metric, slice(BEGIN)), rel=0.01)
        assert row["after_median"] == pytest.approx(each.median(metric, NEWEST), rel=0.02)
        assert row["relative"] == pytest.approx(row["after_median"] / row["before_median"] - 1)
        # Noise of 2 % hides the first runs of a slope of 1 % a day.
        assert abs(datetime.fromisoformat(row["started_at"]) - fleet.at(BEGIN)) < timedelta(days=4)
        assert abs(row["slope_per_day"]) == pytest.approx(0.01, abs=0.003)
        assert row["incident"] == get_incident().pk
    # Noise ends 1 of 60 too early, by a few runs.
    assert sum(row["continues"] for row in rows) >= 0.9 * len(rows)


def test_no_series_has_a_mark_of_a_step_beside_its_drift(fleet: Fleet, viewer: Client) -> None:
    changes = viewer.get(f"/api/v1/incidents/{get_incident().pk}").json()["changes"]
    marks = [(change["series"], change["metric"]) for change in changes]

    assert Change.objects.filter(series__scope=f"host:{DRIFTING}").exclude(method="drift-v1").exists()
    assert len(marks) == len(set(marks)) == get_incident().change_count
    assert {change["method"] for change in changes} == {"drift-v1"}
    assert set(get_incident().changes.stated().values_list("method", flat=True)) == {"drift-v1"}


def test_incident_states_the_median_of_its_series_and_one_begin(fleet: Fleet, viewer: Client) -> None:
    stated = read_stated(viewer)
    sizes = [each.relative for each in stated.values()]

    answer = viewer.get(f"/api/v1/incidents/{get_incident().pk}").json()
    listed = viewer.get("/api/v1/incidents", {"q": f"host:{DRIFTING}"}).json()["incidents"]
    page, inbox = (Page(viewer.get(f"/incidents/{path}")).words for path in (f"{answer['id']}/", ""))

    began_at = datetime.fromisoformat(answer["started_at"])
    assert answer["relative"] == pytest.approx(median(sizes))
    assert abs(began_at - fleet.at(BEGIN)) < timedelta(days=2)
    assert [(row["id"], row["relative"], row["started_at"]) for row in listed] == [
        (answer["id"], answer["relative"], answer["started_at"])
    ]
    since = f"since {began_at:%-d %b}, continuing,"
    title = f"{DRIFTING}: IOPS decreased by 20 % (each 18 to 23 %) {since} in 20 of 20 series"
    assert answer["title"] == title
    assert title in inbox
    assert f"IOPS of {DRIFTING} decreased by 20 % since {format_moment(began_at)}, continuing" in page


def test_current_level_of_a_drifting_series_is_that_of_its_newest_runs(fleet: Fleet, viewer: Client) -> None:
    stated = read_stated(viewer)
    query = {"q": f"host:{DRIFTING}"}

    series = viewer.get("/api/v1/series", query).json()["series"]
    cells = [cell for cell in viewer.get("/api/v1/matrix", query).json()["cells"] if cell["series"]]
    points = viewer.get("/api/v1/scaling", {**query, "x": "volumes", "color": "file_size", "facet": "none"})

    assert {row["id"]: (row["level_median"], row["previous_level_median"]) for row in series} == {
        series_id: (each.newest, pytest.approx(each.before)) for series_id, each in stated.items()
    }
    assert all(5 <= row["level_n"] < 10 for row in series)
    assert {cell["series"] for cell in cells} == set(stated)
    for cell in cells:
        each = stated[cell["series"]]
        assert (cell["median"], cell["previous_median"]) == (each.newest, pytest.approx(each.before))
        assert cell["change_relative"] == pytest.approx(each.relative)
    measured = [cell for cell in points.json()["cells"] if cell["median"]]
    assert measured
    assert {cell["median"] for cell in measured} <= {each.newest for each in stated.values()}


def test_series_history_and_detection_state_the_same(fleet: Fleet, viewer: Client) -> None:
    series_id, each = next(iter(read_stated(viewer).items()))
    day = format_day(each.began_at)
    size = f"{each.relative * 100:+.0f} %".replace("-", "−")

    page = Page(viewer.get(f"/series/{series_id}/")).words
    history = Page(viewer.get("/history/", {"series": series_id, "metric": "iops"}, follow=True)).words
    report = viewer.get(f"/api/v1/series/{series_id}/detection").json()
    detection = Page(viewer.get(f"/series/{series_id}/detection/")).words
    (line,) = viewer.get("/api/v1/history", {"series": series_id}).json()["lines"]

    assert f"IOPS, {size} since {day}, continuing" in page
    assert f"IOPS, {size} since {day}, continuing" in history
    for words in (page, detection):
        assert f"Drifted {size} (" in words
        assert f"from the level before, gradually since {format_moment(each.began_at)}" in words
    assert [(row["before_median"], row["after_median"]) for row in report["stored"]] == [
        (each.before, each.newest)
    ]
    assert report["level"] == each.newest
    (mark,) = [change for change in line["changes"] if change["metric"] == "iops"]
    assert (mark["before"], mark["after"]) == (each.before, each.newest)
    *_, before, slope, newest = line["levels"]["iops"]
    assert (before["median"], newest["median"]) == (pytest.approx(each.before), each.newest)
    assert slope["from_at"] == line["levels"]["iops"][-2]["from_at"]
    assert datetime.fromisoformat(slope["from_at"]) == each.began_at.replace(microsecond=0)


def test_comparison_before_and_after_the_drift_states_its_size(fleet: Fleet, viewer: Client) -> None:
    stated = read_stated(viewer)
    typical = median(each.relative for each in stated.values())

    words = Page(
        viewer.get("/compare/", {"kind": "incident", "selected": get_incident().pk}, follow=True)
    ).words

    assert f"IOPS −{abs(typical) * 100:.0f} %" in words
    assert f"{2 * len(stated)} of {2 * len(stated)} values worse, 0 better" in words


def test_host_and_overview_show_the_largest_loss(fleet: Fleet, viewer: Client) -> None:
    stated = read_stated(viewer)
    largest = min(stated.values(), key=lambda each: each.relative)
    size = f"−{abs(largest.relative) * 100:.0f} %"

    host = Page(viewer.get(f"/hosts/{DRIFTING}/")).words
    overview = Page(viewer.get("/")).words

    assert f"1 open regression, IOPS {size} since {largest.began_at:%-d %b}" in host
    assert get_incident().title in host
    assert get_incident().title in overview


def test_csv_has_the_same_levels_as_json(fleet: Fleet, viewer: Client) -> None:
    stated = read_stated(viewer)
    query = {"q": f"host:{DRIFTING}", "metric": "iops", "format": "csv"}

    rows = list(csv.DictReader(viewer.get("/api/v1/changes", query).content.decode().splitlines()))

    for row in rows:
        each = stated[int(row["series"])]
        numbers = [float(row[name]) for name in ("before_median", "after_median", "relative")]
        assert numbers == pytest.approx([each.before, each.newest, each.relative], rel=1e-5)


def test_gate_compares_with_the_level_before_the_drift(fleet: Fleet, viewer: Client) -> None:
    stated = read_stated(viewer)
    newest = Change.objects.filter(series__in=stated).first()
    assert newest is not None
    run = newest.series.measurements.latest("started_at").run_id

    together, *rows = viewer.get(f"/api/v1/runs/{run}/gate", {"metric": "iops"}).json()["rows"]

    assert (together["outcome"], together["series_count"]) == ("regressed", len(rows))
    for row in rows:
        assert row["outcome"] == "regressed"
        assert row["baseline_median"] == pytest.approx(stated[row["series_id"]].before)


def test_notice_states_the_same_levels(fleet: Fleet, viewer: Client) -> None:
    incident = get_incident()
    event = IncidentEvent.objects.get(incident=incident, kind="opened")
    changes = list(
        incident.changes.stated().filter(metric="iops").select_related("series").order_by("relative")
    )

    message = make_incident_message(incident, event, changes=changes, change_count=len(changes), base_url="")

    assert incident.title in message.subject
    assert f"gradually since {format_moment(changes[0].started_at)}" in message.sentence
    shown = changes[: len(message.levels)]
    assert [(level.before, level.after) for level in message.levels] == [
        (change.before_median, change.after_median) for change in shown
    ]


def test_recovery_is_stated_by_every_list_of_changes(fleet: Fleet, viewer: Client) -> None:
    """db-22 recovered: what ended its regression is no improvement of 43 %."""
    rows = viewer.get("/api/v1/changes", {"q": "host:db-22", "metric": "iops"}).json()["changes"]

    regressions = {row["series"]: row["relative"] for row in rows if row["is_regression"]}
    recoveries = {row["series"]: row["recovers_from"] for row in rows if not row["is_regression"]}
    assert len(regressions) == 20
    assert recoveries == {series_id: regressions[series_id] for series_id in recoveries}
    assert recoveries
