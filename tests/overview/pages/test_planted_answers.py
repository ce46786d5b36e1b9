"""Every page, its API answer and its CSV against right answers, calculated from the raw values of planted fleets."""

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

import pytest
from django.test import Client

from benchapp.charts.read.scaling_shapes import SCALING_METRICS
from benchapp.framework.times import format_moment, to_iso
from benchapp.layouts.rules.ranking import VERDICTS
from benchapp.models import DetectionResult, IncidentEvent, name_scopes
from tests.pages import Page
from tests.planted_fleet import (
    DAY,
    GIB,
    LARGE,
    MONTH,
    POOL,
    SINGLE,
    SMALL,
    VOLUME_SIZE,
    Fleet,
    FleetPlan,
    PlantedSeries,
    name_host,
    plant_fleet,
)
from tests.shared_rows import shared_rows_of

pytestmark = pytest.mark.django_db
CLOSE = 1e-9
# CSV has six significant digits.
CSV_CLOSE = 1e-5


@shared_rows_of(LARGE, MONTH, SMALL, SINGLE)
def fleet(plan: FleetPlan) -> Fleet:
    return plant_fleet(plan)


def read_json(client: Client, path: str, **query: Any) -> Any:
    response = client.get(path, query)
    assert response.status_code == 200, response.content[:300]
    return response.json()


def read_csv(client: Client, path: str, **query: Any) -> list[dict[str, str]]:
    response = client.get(path, {**query, "format": "csv"})
    assert response.status_code == 200
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return list(csv.DictReader(content.decode().splitlines()))


def read_list(client: Client, path: str, name: str, **query: Any) -> list[dict[str, Any]]:
    """Return all rows of a list, page by page."""
    rows: list[dict[str, Any]] = []
    cursor = None
    while cursor is not None or not rows:
        answer = read_json(client, path, **query, **({"cursor": cursor} if cursor else {}))
        rows += answer[name]
        if (cursor := answer["next_cursor"]) is None:
            return rows
    return rows


def read_page(client: Client, path: str, **query: Any) -> str:
    response = client.get(path, query)
    assert response.status_code == 200
    return Page(response).words


def by_id(fleet: Fleet) -> dict[int, PlantedSeries]:
    return {each.id: each for each in fleet.series}


def list_steady(fleet: Fleet) -> list[PlantedSeries]:
    return [each for each in fleet.series if not each.is_drifting]


def format_number(value: int) -> str:
    return f"{value:,}".replace(",", " ")


# Series


def test_level_of_each_series_is_the_median_of_the_days_since_its_last_step(
    fleet: Fleet, viewer: Client
) -> None:
    rows = {row["id"]: row for row in read_list(viewer, "/api/v1/series", "series", limit=200)}

    assert set(rows) == set(by_id(fleet))
    for each in list_steady(fleet):
        row = rows[each.id]
        expected = {
            "scope": each.scope,
            "level_metric": "iops",
            "level_median": pytest.approx(each.median("iops"), rel=CLOSE),
            "level_p10": pytest.approx(each.percentile("iops", 1), rel=CLOSE),
            "level_p90": pytest.approx(each.percentile("iops", 9), rel=CLOSE),
            "level_n": len(each.level_days),
            "measurement_count": len(each.factors),
        }
        assert {name: row[name] for name in expected} == expected, each


def test_csv_of_series_has_the_levels_of_the_api(fleet: Fleet, viewer: Client) -> None:
    rows = {int(row["id"]): row for row in read_csv(viewer, "/api/v1/series")}

    assert set(rows) == set(by_id(fleet))
    for each in list_steady(fleet):
        assert float(rows[each.id]["level_median"]) == pytest.approx(each.median("iops"), rel=CSV_CLOSE)


def test_page_of_series_counts_all_of_them(fleet: Fleet, viewer: Client) -> None:
    words = read_page(viewer, "/series/")
    grid = words[words.index(" with an open regression") :]
    worse = sum(each.is_worse for each in list_steady(fleet))
    drifting = sum(each.is_drifting for each in fleet.series)
    shown = re.search(r"([0-9\u2009 ]+) series, ([0-9]+|none) with an open regression", words)

    assert shown and int(re.sub(r"\D", "", shown[1])) == len(fleet.series)
    assert worse <= int(shown[2].replace("none", "0")) <= worse + drifting
    for each in (each for each in list_steady(fleet) if each.is_worse and len(fleet.hosts) > 1):
        size = f"{each.file_size_bytes // GIB} GiB files · " * (len(fleet.plan.file_sizes) > 1)
        assert f"{each.scope.partition(':')[2]} · {size}{each.volume_count} volume" in grid


# Scaling and Matrix

AXES = (
    "volume_count",
    "stripe_count",
    "file_size_bytes",
    "host",
    "volume_type",
    "iodepth",
    "pool",
    "raid_level",
)
METRICS = ("iops", "bandwidth_bytes_per_s", "latency_mean_ns")


def read_value(each: PlantedSeries, name: str) -> Any:
    """Return the value of a dimension; sizes as filters have them."""
    values = {
        "host": each.hosts[0] if len(each.hosts) == 1 else None,
        "pool": None if len(each.hosts) == 1 else POOL,
        "pattern": each.rw,
        "raid_level": "none" if each.volume_count == 1 else "raid0",
        "block_size_bytes": {4096: "4k", 16_384: "16k", 2**20: "1M"}[each.block_size_bytes],
        "file_size_bytes": f"{each.file_size_bytes // GIB}G",
    }
    return values[name] if name in values else getattr(each, name)


def write_value(each: PlantedSeries, name: str | None) -> str | None:
    if name is not None and "," in name:
        return " ".join(f"{part}:{write_value(each, part)}" for part in name.split(","))
    value = None if name is None else read_value(each, name)
    return None if value is None else str(value)


def check_fixed(fleet: Fleet, fixed: Iterable[Mapping[str, Any]], axes: Iterable[str]) -> None:
    """Only a dimension in which some cell would mix values is fixed."""
    cells: dict[Any, list[PlantedSeries]] = defaultdict(list)
    for each in fleet.series:
        cells[tuple(read_value(each, name) for name in axes)].append(each)
    for dimension in fixed:
        name = dimension["dimension"]
        assert any(len({read_value(each, name) for each in own}) > 1 for own in cells.values()), name


def check_settings(cell: Mapping[str, Any], members: Iterable[PlantedSeries]) -> None:
    for term in cell["settings"].split():
        name, _, values = term.partition(":")
        assert {write_value(each, name) or "unknown" for each in members} == set(values.split(",")), term


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("x", AXES)
def test_cells_of_scaling_are_medians_over_the_series_that_they_name(
    fleet: Fleet, viewer: Client, x: str, metric: str
) -> None:
    planted = by_id(fleet)

    answer = read_json(viewer, "/api/v1/scaling", metric=metric, x=x)

    used: list[int] = []
    for cell in answer["cells"]:
        members = [planted[each] for each in cell["series"]]
        if not members:
            continue
        used += cell["series"]
        assert {write_value(each, x) for each in members} == {cell["x"]}
        assert {write_value(each, answer["color"]) for each in members} == {cell["color"]}
        check_settings(cell, members)
        if not any(each.is_drifting for each in members):
            assert cell["median"] == pytest.approx(median(each.median(metric) for each in members), rel=CLOSE)
            assert cell["p10"] == pytest.approx(
                min(each.percentile(metric, 1) for each in members), rel=CLOSE
            )
            assert cell["p90"] == pytest.approx(
                max(each.percentile(metric, 9) for each in members), rel=CLOSE
            )
            assert cell["n"] == sum(len(each.level_days) for each in members)
            assert cell["regressed_count"] == sum(each.is_worse for each in members)
    # A line over a load joins series that differ in nothing else.
    is_load = x == "iodepth"
    check_fixed(fleet, answer["fixed"], (*(() if is_load else (x,)), *answer["color"].split(",")))
    known = [each for each in fleet.series if read_value(each, x) is not None] or fleet.series
    counts = answer["counts"]
    assert (counts["shown"], counts["unvalued"], counts["failed"]) == (len(set(used)), 0, 0)
    assert counts["unknown_x"] == len(fleet.series) - len(known)
    assert counts["shown"] + counts["hidden_by_fixed"] == len(known)
    shown = {cell["x"] for cell in answer["cells"] if cell["series"]}
    values = {write_value(each, x) for each in known}
    assert shown <= values if is_load else shown == values
    # Hosts with one layout and workload are repetitions, none of which is chosen.
    assert "host" not in {each["dimension"] for each in answer["fixed"]}


@pytest.mark.parametrize("x", AXES)
def test_csv_and_page_of_scaling_have_the_cells_of_the_api(fleet: Fleet, viewer: Client, x: str) -> None:
    answer = read_json(viewer, "/api/v1/scaling", x=x)
    rows = read_csv(viewer, "/api/v1/scaling", x=x)
    page = viewer.get("/scaling/", {"x": x})

    cells = [cell for cell in answer["cells"] if cell["median"] is not None]
    assert [(row["x"], row["color"], json.loads(row["series"])) for row in rows if row["median"]] == [
        (cell["x"] or "", cell["color"], cell["series"]) for cell in cells
    ]
    assert [float(row["median"]) for row in rows if row["median"]] == [
        pytest.approx(cell["median"], rel=CSV_CLOSE) for cell in cells
    ]
    drawn = [
        cell
        for panel in json.loads(
            re.search(
                r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page.content.decode(), re.S
            )[1]
        )["layers"][0]["facets"]
        for line in panel["lines"]
        for cell in line
        if cell
    ]
    assert [cell["median"] for cell in drawn] == [cell["median"] for cell in cells]
    counts = answer["counts"]
    total = counts["shown"] + counts["hidden_by_fixed"] + counts["unknown_x"]
    words = Page(page).words
    assert (f"{format_number(counts['shown'])} of {format_number(total)} series" in words) == (
        counts["shown"] < total
    )


@pytest.mark.parametrize("metric", SCALING_METRICS)
def test_each_series_is_shown_or_counted_with_every_metric_and_all_are_a_click_away(
    fleet: Fleet, viewer: Client, metric: str
) -> None:
    page = viewer.get("/scaling/", {"metric": metric})
    counts = page.context["chart"].counts

    assert counts.shown + counts.left_out == len(fleet.series)
    if page.context["all_url"]:
        assert viewer.get(page.context["all_url"]).context["chart"].counts.hidden_by_fixed == 0
    if counts.shown:
        assert counts.shown == viewer.get("/scaling/").context["chart"].counts.shown


@pytest.mark.parametrize("metric", (*METRICS, "latency_p99_ns"))
def test_matrix_and_scaling_have_the_same_values(fleet: Fleet, viewer: Client, metric: str) -> None:
    axes = "pattern,block_size_bytes"
    # A line over a load joins no different loads; cells of a matrix are not joined.
    for x in (name for name in AXES if name != "iodepth"):
        query = {"x": x, "metric": metric}
        scaling = viewer.get("/scaling/", {**query, "color": axes}).context["chart"]
        matrix = viewer.get("/matrix/", {**query, "rows": axes, "facet": "none"}).context["figure"]["matrix"]

        found = [
            {
                tuple(sorted(cell.series_ids)): (cell.median, cell.p10, cell.p90, cell.n)
                for cell in chart.cells
                if cell.n
            }
            for chart in (scaling, matrix)
        ]
        assert found[0] == found[1], x


def test_matrix_over_hosts_shows_each_host_and_counts_the_others(fleet: Fleet, viewer: Client) -> None:
    planted = by_id(fleet)

    answer = read_json(viewer, "/api/v1/matrix", x="host")

    used = [cell["series"] for cell in answer["cells"] if cell["series"]]
    alone = {each.hosts[0] for each in fleet.series if len(each.hosts) == 1}
    assert {cell["host"] for cell in answer["cells"]} == alone
    pooled = [each for each in fleet.series if len(each.hosts) > 1]
    omitted = answer["omitted"]
    assert omitted["unknown_x"] == len(pooled)
    assert len(used) + omitted["hidden_by_fixed"] == len(fleet.series) - len(pooled)
    hidden = [each for each in list_steady(fleet) if each.is_worse and each.id not in used]
    drifting = [each for each in fleet.series if each.is_drifting]
    assert len(hidden) <= omitted["hidden_regressions"] <= len(hidden) + len(drifting)
    for cell in answer["cells"]:
        if cell["series"] is None:
            continue
        each = planted[cell["series"]]
        assert (cell["host"], cell["pattern"]) == (each.hosts[0], each.rw)
        assert (cell["block_size_bytes"], cell.get("file_size_bytes", each.file_size_bytes)) == (
            each.block_size_bytes,
            each.file_size_bytes,
        )
        check_settings(cell, [each])
        if not each.is_drifting:
            assert cell["median"] == pytest.approx(each.median("iops"), rel=CLOSE)
            assert cell["n"] == len(each.level_days)
            assert (cell["change_state"] == "open") == (each.factors[-1] != each.factors[0])
    check_fixed(fleet, answer["fixed"], ("host", "pattern", "block_size_bytes", *answer["facet"]))


def test_csv_and_page_of_matrix_have_the_cells_of_the_api(fleet: Fleet, viewer: Client) -> None:
    answer = read_json(viewer, "/api/v1/matrix", x="host")
    rows = read_csv(viewer, "/api/v1/matrix", x="host")
    words = read_page(viewer, "/matrix/", x="host")

    assert [(row["host"], row["series"], row["state"]) for row in rows] == [
        (cell["host"], str(cell["series"] or ""), cell["state"]) for cell in answer["cells"]
    ]
    measured = answer["counts"]["measured"]
    regressed = sum(
        cell["change_state"] == "open" and cell["change_relative"] < 0 and cell["change_metric"] == "iops"
        for cell in answer["cells"]
    )
    assert f"{measured} of {len(answer['cells'])} combinations" in words
    assert (
        f"{regressed} of {measured} combinations {'is' if regressed == 1 else 'are'} worse (" in words
    ) == bool(regressed)


# Layouts


@dataclass(frozen=True)
class Answer:
    """What is right about one layout. value: throughput at p10 of its best load; missed_sizes: of files.

    regressed: series of that load that count with an open regression; meets_without: whether the others meet it, None
    without others.
    """

    is_met: bool
    value: float
    price: float | None
    left_out: int
    regressed: int
    meets_without: bool | None
    missed_sizes: list[int]


def find_price(fleet: Fleet, layout: tuple[str, int], loads: Iterable[list[PlantedSeries]]) -> float | None:
    """Return the price of the volumes a month: of gp3 with what the measured throughput must have cost."""
    volume_type, count = layout
    size = VOLUME_SIZE // GIB * count
    if volume_type != "gp3":
        return size * fleet.plan.prices[volume_type]
    known = list(loads)
    iops, bandwidth = (
        max(median(each.median(metric) for each in load) for load in known) / count
        for metric in ("iops", "bandwidth_bytes_per_s")
    )
    return size * 0.08 + count * (max(0, iops - 3000) * 0.005 + max(0, bandwidth / 2**20 - 125) * 0.04)


def rank_layouts(fleet: Fleet, rw: str, metric: str, required: float) -> dict[tuple[str, int], Answer]:
    """Return the right answer for each layout; a drift is an open regression."""
    layouts: dict[tuple[str, int], dict[Any, list[PlantedSeries]]] = defaultdict(lambda: defaultdict(list))
    for each in fleet.series:
        if each.rw == rw:
            load = each.block_size_bytes, each.iodepth, each.file_size_bytes
            layouts[each.volume_type, each.volume_count][load].append(each)
    found = {}
    for layout, loads in layouts.items():
        counted, left_out = {}, {}
        for load, members in loads.items():
            worse = [each for each in members if each.is_worse]
            is_odd = len(worse) / len(members) < 0.5
            counted[load] = [each for each in members if not (is_odd and each.is_worse)]
            left_out[load] = len(members) - len(counted[load])
        p10 = {load: min(each.percentile(metric, 1) for each in members) for load, members in counted.items()}
        best = max(p10, key=lambda load: p10[load])
        is_met = p10[best] >= required
        sizes = {size: max(p10[load] for load in p10 if load[2] == size) for _, _, size in p10}
        sound = [
            min(each.percentile(metric, 1) for each in own)
            for own in ([each for each in members if not each.is_worse] for members in loads.values())
            if own
        ]
        regressed = sum(each.is_worse for each in counted[best])
        found[layout] = Answer(
            is_met,
            p10[best],
            find_price(fleet, layout, counted.values()),
            left_out[best],
            regressed,
            max(sound) >= required if regressed and sound else None,
            sorted(size for size, value in sizes.items() if is_met and value < required),
        )
    return found


QUESTIONS = (
    ({"iops": 100_000}, "randread", "iops", 100_000),
    ({"iops": 20_000}, "randread", "iops", 20_000),
    ({"mb_per_s": 500, "pattern": "read"}, "read", "bandwidth_bytes_per_s", 500e6),
    ({"iops": 5_000, "pattern": "randwrite"}, "randwrite", "iops", 5_000),
)


@pytest.mark.parametrize("priced", ["all", "volumes"])
@pytest.mark.parametrize(("query", "rw", "metric", "required"), QUESTIONS)
def test_layouts_are_those_that_meet_the_requirement_by_price(
    fleet: Fleet, viewer: Client, query: dict[str, Any], rw: str, metric: str, required: float, priced: str
) -> None:
    right = rank_layouts(fleet, rw, metric, required)
    # A drift has no level that is known to the day.
    shares = defaultdict(list)
    for each in fleet.series:
        shares[each.volume_type, each.volume_count].append(each.is_drifting)
    drifting = {layout for layout, drifts in shares.items() if sum(drifts) >= len(drifts) / 2}
    column = metric.replace("bandwidth_bytes_per_s", "bandwidth_p10_bytes_per_s").replace("iops", "iops_p10")

    answer = read_json(viewer, "/api/v1/layouts", **query, price_of=priced)

    rows = {(row["volume_type"], row["volume_count"]): row for row in answer["layouts"]}
    assert set(rows) == set(right)
    for layout, row in rows.items():
        assert (row["verdict"] == "meets") == right[layout].is_met, layout
        if layout not in drifting:
            assert row[column] == pytest.approx(right[layout].value, rel=CLOSE)
            assert row["volumes_price_per_month"] == pytest.approx(right[layout].price, rel=1e-6)
        assert row["left_out"] == right[layout].left_out
        assert row["regressed_count"] == right[layout].regressed
        without = right[layout].meets_without
        assert row["verdict_without"] in ({True: ("meets",), None: (None,)}.get(without, VERDICTS[1:]))
        assert row["missed_file_sizes"] == right[layout].missed_sizes
    met = [layout for layout, row in rows.items() if row["verdict"] == "meets"]
    prices = [rows[layout]["volumes_price_per_month"] for layout in met]
    assert prices == sorted(prices)
    assert answer["counts"]["meets"] == len(met) == sum(each.is_met for each in right.values())


def write_title(row: Mapping[str, Any]) -> str:
    """Return the title of a layout as its table has it: what is unknown below it."""
    return str(row["title"]).replace(", unknown", " unknown", 1)


@pytest.mark.parametrize(("query", "rw", "metric", "required"), QUESTIONS)
def test_csv_and_page_of_layouts_have_the_ranking_of_the_api(
    fleet: Fleet, viewer: Client, query: dict[str, Any], rw: str, metric: str, required: float
) -> None:
    answer = read_json(viewer, "/api/v1/layouts", **query)
    rows = read_csv(viewer, "/api/v1/layouts", **query)
    words = read_page(viewer, "/layouts/", **query)

    columns = ("title", "verdict", "left_out", "regressed_count", "verdict_without")
    assert [[row[name] for name in columns] for row in rows] == [
        [str(row[name] or "" if name == "verdict_without" else row[name]) for name in columns]
        for row in answer["layouts"]
    ]
    count, met = len(answer["layouts"]), answer["counts"]["meets"]
    assert f"{met} of {count} measured layout" in words
    best = next((row for row in answer["layouts"] if row["verdict"] == "meets"), None)
    has_missed = best is not None and bool(best["missed_file_sizes"])
    assert (re.search(r"With [0-9 a-zA-Z]+ files: not met\.", words) is not None) >= has_missed
    assert ("No measured layout meets the requirement" in words) == (not met)
    for row in answer["layouts"]:
        count_of = f"Open regression in {row['regressed_count']} of {len(row['series'])} series; without: "
        assert (count_of in words) >= bool(row["regressed_count"])
    first = answer["first_without"]
    is_other = any(row["regressed_count"] for row in answer["layouts"]) and (
        (best and best["title"]) != (first and first["title"])
    )
    named = "no layout meets it" if first is None else f"{first['title']} meets it"
    assert (f"Without series with an open regression: {named}" in words) == is_other
    places = [words.index(write_title(row), words.index("month")) for row in answer["layouts"]]
    assert len(places) == count


@pytest.mark.parametrize("vary", ["volume_type,volume_count", "volume_type,volume_count,filesystem"])
def test_no_layout_is_hidden_by_its_stripes_if_the_volumes_may_vary(
    fleet: Fleet, viewer: Client, vary: str
) -> None:
    answer = read_json(viewer, "/api/v1/layouts", iops=1000, vary=vary)
    words = read_page(viewer, "/layouts/", iops=1000, vary=vary.split(","))

    right = {(each.volume_type, each.volume_count) for each in fleet.series}
    assert {(row["volume_type"], row["volume_count"]) for row in answer["layouts"]} == right
    assert answer["hidden_by_fixed"] == 0
    is_known = any(row["stripe_count"] is not None for row in answer["layouts"])
    for row in answer["layouts"]:
        assert write_title(row) in words
        assert ("unknown stripes" in row["title"]) == (row["stripe_count"] is None and is_known)


def test_layout_for_nothing_meets_a_price_limit_of_0(fleet: Fleet, viewer: Client) -> None:
    answer = read_json(viewer, "/api/v1/layouts", iops=1000, max_price=0, price_of="volumes")

    free = {name for name, price in fleet.plan.prices.items() if price == 0}
    assert {row["volume_type"] for row in answer["layouts"] if row["verdict"] == "meets"} == free


# Incidents, hosts and the overview


def list_hosts(fleet: Fleet, *, drifting: bool) -> set[str]:
    """Return the hosts with an open regression; drifting: with those that may have one."""
    return {
        host
        for each in fleet.series
        if (drifting or not each.is_drifting) and each.is_worse
        for host in each.hosts
    }


def test_changes_are_the_planted_steps(fleet: Fleet, viewer: Client) -> None:
    planted = by_id(fleet)

    rows = read_list(viewer, "/api/v1/changes", "changes", metric="iops", limit=200)

    steady = [row for row in rows if not planted[row["series"]].is_drifting]
    assert {(row["series"], row["started_at"][:10]) for row in steady} == {
        (each.id, f"{fleet.at(day):%Y-%m-%d}") for each in list_steady(fleet) for day in each.step_days
    }
    for row in steady:
        each = planted[row["series"]]
        day = next(day for day in each.step_days if f"{fleet.at(day):%Y-%m-%d}" == row["started_at"][:10])
        # Weekly patterns are removed before: one of 92 steps differs by 0.3 %.
        assert row["relative"] == pytest.approx(each.find_step("iops", day), abs=0.005)
        assert row["is_regression"] == (row["relative"] < 0)
    csv_rows = read_csv(viewer, "/api/v1/changes", metric="iops")
    assert Counter(int(row["series"]) for row in csv_rows) == Counter(row["series"] for row in rows)


def test_open_incidents_have_the_series_that_are_still_worse(fleet: Fleet, viewer: Client) -> None:
    planted = by_id(fleet)
    incidents = read_list(viewer, "/api/v1/incidents", "incidents", limit=200)
    changes = read_list(viewer, "/api/v1/changes", "changes", metric="iops", limit=200)

    is_open = {row["id"]: row["is_open"] and row["is_regression"] for row in incidents}
    found = {row["series"] for row in changes if is_open.get(row["incident"])}
    steady = {each for each in found if not planted[each].is_drifting}
    assert steady == {each.id for each in list_steady(fleet) if each.is_worse}
    over = {row["series"] for row in changes if row["is_regression"] and not is_open.get(row["incident"])}
    assert over & {each.id for each in list_steady(fleet)} == {
        each.id for each in list_steady(fleet) if min(each.factors) < each.factors[-1] == 1
    }


def test_recovery_began_with_the_first_run_at_the_level_before(fleet: Fleet, viewer: Client) -> None:
    begins = {
        each.hosts[0]: each.step_days[-1]
        for each in list_steady(fleet)
        if min(each.factors) < each.factors[-1] == each.factors[0]
    }

    rows = read_list(viewer, "/api/v1/incidents", "incidents", tab="recovered")
    csv_rows = read_csv(viewer, "/api/v1/incidents", tab="recovered")

    dates = {row["scope"].partition(":")[2]: row["recovered_at"][:10] for row in rows}
    assert dates == {host: f"{fleet.at(day):%Y-%m-%d}" for host, day in begins.items()}
    assert [row["recovered_at"] for row in csv_rows] == [row["recovered_at"] for row in rows]
    inbox = read_page(viewer, "/incidents/", tab="recovered")
    for row in rows:
        began = format_moment(datetime.fromisoformat(row["recovered_at"]))
        assert f"recovered {began.removesuffix(' UTC')}" in inbox
        words = read_page(viewer, f"/incidents/{row['id']}/")
        assert f"Back at the earlier level since {began}." in words
        event = IncidentEvent.objects.get(incident=row["id"], kind="recovered")
        assert event.at > datetime.fromisoformat(row["recovered_at"])
        assert event.text.startswith(f"back at the earlier level since {began} after ")


def test_every_count_of_open_incidents_is_that_of_the_api(fleet: Fleet, viewer: Client) -> None:
    incidents = read_list(viewer, "/api/v1/incidents", "incidents", limit=200)
    open_ids = {row["id"] for row in incidents if row["is_open"] and row["is_regression"]}
    recovered = {row["id"] for row in incidents if row["recovered_at"] and not row["resolved_at"]}
    count = len(open_ids)

    overview, inbox = read_page(viewer, "/"), read_page(viewer, "/incidents/")

    assert (count > 0) == any(each.is_worse for each in fleet.series)
    assert f" Incidents {f'{count} open ' if count else ''}Choose a layout" in overview
    assert (f"{count - 1} more open incident" in overview) == (count > 1)
    assert ("No open incidents" in overview) == (not count)
    assert f"Open {count}New {count}Acknowledged 0Recovered {len(recovered)}Resolved" in inbox
    for tab, ids in (("open", open_ids), ("recovered", recovered)):
        links = Page(viewer.get("/incidents/", {"tab": tab})).links
        assert {int(match[1]) for link in links if (match := re.fullmatch(r"/incidents/(\d+)/", link))} == ids
    shown = {row["id"] for row in read_list(viewer, "/api/v1/incidents", "incidents", tab="open")}
    assert shown == open_ids
    known = {
        host for row in read_list(viewer, "/api/v1/hosts", "hosts", limit=200) for host in row["incidents"]
    }
    assert known == open_ids


def test_every_count_of_series_that_are_worse_is_the_same(fleet: Fleet, viewer: Client) -> None:
    def count(pattern: str, path: str, **query: Any) -> int:
        shown = re.search(pattern, read_page(viewer, path, **query))
        assert shown, path
        return int(re.sub(r"\D", "", shown[1]) or 0)

    worse = count(r"series, ([0-9]+|none) with an open regression", "/series/")
    in_iops = (
        count(r"([0-9]+) of [0-9\u2009]+ series got worse: IOPS", "/history/", metric="iops") if worse else 0
    )

    assert (
        count(r"([0-9]+) of [0-9\u2009]+ series (?:is|are) worse", "/overview/charts/regressions/") == worse
    )
    badge = {"format": "svg", "metric": "iops"}
    regressed = r": ([0-9]+) of [0-9\u2009]+ series regressed" if worse else r"series, no regression()"
    assert count(regressed, "/api/v1/status-badge", format="svg") == worse
    assert count(regressed, "/api/v1/status-badge", **badge) == in_iops
    cells = read_json(viewer, "/api/v1/scaling", x="host", color="volume_type", metric="iops")["cells"]
    assert sum(cell["regressed_count"] for cell in cells) <= in_iops


def test_benchmark_health_has_the_incidents_and_the_noise_of_the_other_pages(
    fleet: Fleet, viewer: Client
) -> None:
    counts = viewer.get("/incidents/").context["tabs"]
    words = read_page(viewer, "/incidents/health/")
    noise = read_page(viewer, "/incidents/health/", metric="latency_p99_ns")

    assert f"Regressions: {counts[0]['count']} open" in words
    # The planted noise is small, also around the drifts.
    assert "too noisy" not in words + noise
    drifting = [each.id for each in fleet.series if each.is_drifting]
    for result in DetectionResult.objects.filter(series__in=drifting):
        assert (result.smallest_detectable_change or 0) < 0.3, result


def test_changes_of_a_week_are_the_series_with_a_planted_step(fleet: Fleet, viewer: Client) -> None:
    kinds: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for each in list_steady(fleet):
        for day in each.step_days:
            before, after = each.factors[day - 1], each.factors[day]
            kind = "regressions" if after < before else "improvements" if after > 1 else "recoveries"
            moment = fleet.at(day)
            kinds[f"{moment - moment.weekday() * DAY:%Y-%m-%d}"][kind].add(each.id)
    drifting = sum(each.is_drifting for each in fleet.series)

    weeks = read_json(viewer, "/api/v1/fleet/changes")["weeks"]
    rows = read_csv(viewer, "/api/v1/fleet/changes")

    for week in weeks:
        right = {
            kind: len(kinds[week["monday"]][kind]) for kind in ("regressions", "improvements", "recoveries")
        }
        assert right["regressions"] <= week["regressions"] <= right["regressions"] + drifting
        assert (week["improvements"], week["recoveries"]) == (right["improvements"], right["recoveries"])
    assert [{name: str(value) for name, value in week.items()} for week in weeks] == rows


def test_chart_counts_the_series_that_are_worse_by_day(fleet: Fleet, viewer: Client) -> None:
    steady, drifting = list_steady(fleet), [each for each in fleet.series if each.is_drifting]
    answer = read_json(viewer, "/api/v1/fleet/regressions")
    rows = read_csv(viewer, "/api/v1/fleet/regressions")
    title = viewer.get("/overview/charts/regressions/").context["title"]

    assert [{name: str(value) for name, value in day.items()} for day in answer["days"]] == rows
    for row in answer["days"]:
        day = (datetime.fromisoformat(row["day"]).replace(tzinfo=UTC) + DAY - fleet.start_at) // DAY
        # A step may be located one run early or late.
        counts = [
            sum(each.factors[min(max(near, 0), fleet.plan.days - 1)] < each.factors[0] for each in steady)
            for near in (day - 1, day, day + 1)
        ]
        assert min(counts) <= row["open"] + row["ended"] <= max(counts) + len(drifting)
    assert title.startswith(f"{answer['days'][-1]['open']} of {answer['series_count']} series ")


def test_fleet_levels_have_every_measured_series(fleet: Fleet, viewer: Client) -> None:
    for row in read_json(viewer, "/api/v1/fleet/levels")["days"]:
        own = [each for each in fleet.series if each.rw == row["pattern"]]
        day = (datetime.fromisoformat(row["day"]).replace(tzinfo=UTC) + DAY - fleet.start_at) // DAY
        if len(own) > 200 or not 0 <= day < fleet.plan.days:
            continue
        assert row["n"] == len(own)


def test_hosts_with_open_regressions_are_those_that_are_worse(fleet: Fleet, viewer: Client) -> None:
    rows = {row["name"]: row for row in read_list(viewer, "/api/v1/hosts", "hosts", limit=200)}
    csv_rows = read_csv(viewer, "/api/v1/hosts")
    words = read_page(viewer, "/hosts/")

    marked = {name for name, row in rows.items() if row["incidents"]}
    assert set(rows) == set(fleet.hosts) == {row["name"] for row in csv_rows}
    assert list_hosts(fleet, drifting=False) <= marked <= list_hosts(fleet, drifting=True)
    assert f"{len(rows)} host{'s' * (len(rows) > 1)}" in words
    assert (f", {len(marked)} with open regressions" in words) == bool(marked)
    for name in marked - {each.hosts[0] for each in fleet.series if each.is_drifting}:
        steps = [each.find_step("iops", each.step_days[-1]) for each in fleet.of(name) if each.is_worse]
        assert rows[name]["worst_change_relative"] == pytest.approx(min(steps), abs=0.005)
    for name, row in rows.items():
        own = fleet.of(name)
        days = [day for day in range(fleet.plan.days) if day % len(own[0].hosts) == own[0].hosts.index(name)]
        assert row["run_count"] == len(days) * len({each.volume_count for each in own})
        assert row["last_run_at"][:10] == f"{fleet.at(days[-1]):%Y-%m-%d}"
        assert bool(row["last_run_error"]) == (days[-1] in own[0].failed_days)


def test_page_of_a_host_has_its_open_regressions_and_the_levels_of_its_patterns(
    fleet: Fleet, viewer: Client
) -> None:
    drifting = {host for each in fleet.series if each.is_drifting for host in each.hosts}
    for host in (each for each in fleet.hosts if each not in drifting):
        words = read_page(viewer, f"/hosts/{host}/")
        own = fleet.of(host)
        levels = words[words.index("Current levels") : words.index("History, ")]

        assert ("1 open regression, IOPS" in words) == any(each.is_worse for each in own)
        for rw, name in (("read", "sequential read"), ("randwrite", "random write")):
            members = [each for each in own if each.rw == rw]
            # The series before the level, in the row of the pattern.
            count = re.search(r"(\d+) [\d\u202f.]+ (IOPS|MB/s)", levels.partition(f" {name}")[2])
            assert count and int(count[1]) == len(members)
            for each in (each for each in members if each.is_worse):
                assert f"since {fleet.at(each.step_days[-1]):%-d %b}" in levels


def test_page_of_an_incident_counts_the_planted_series(fleet: Fleet, viewer: Client) -> None:
    planted = by_id(fleet)
    for row in read_list(viewer, "/api/v1/incidents", "incidents", limit=200):
        detail = read_json(viewer, f"/api/v1/incidents/{row['id']}")
        words = read_page(viewer, f"/incidents/{row['id']}/")
        changed = {change["series"] for change in detail["changes"]}
        if any(planted[each].is_drifting for each in changed):
            continue

        sizes = {size["metric"]: size for size in row["metric_sizes"]}
        steps = [change["relative"] for change in detail["changes"] if change["metric"] == "iops"]
        assert changed == {each for each in changed if planted[each].step_days}
        assert row["series_count"] == len(changed)
        assert f"changes in {len(changed)} series" in words
        assert sizes["iops"]["series"] == len(steps)
        assert sizes["iops"]["relative"] == pytest.approx(median(steps), rel=CLOSE)
        assert {sizes["iops"]["range_low"], sizes["iops"]["range_high"]} == {min(steps), max(steps)}


def test_page_of_a_series_states_its_level(fleet: Fleet, viewer: Client) -> None:
    steady = list_steady(fleet)
    for each in [*[each for each in steady if each.step_days][::9], *steady[::40]]:
        words = read_page(viewer, f"/series/{each.id}/", metric="iops")

        level = re.search(r"Current level: ([0-9.\u202f]+) IOPS, median of ([0-9]+) runs", words)
        assert level
        assert float(level[1].replace("\u202f", "")) == pytest.approx(each.median("iops"), rel=0.005)
        assert int(level[2]) == len(each.level_days)


def test_series_is_learning_only_until_detection_knows_its_noise(fleet: Fleet) -> None:
    """All series have 30 runs or more, also those with a new level."""
    results = DetectionResult.objects.filter(series__in=by_id(fleet))

    assert results.exists()
    assert not results.filter(status="learning").exists()


# History, runs and comparisons


def test_history_has_the_planted_values_and_levels(fleet: Fleet, viewer: Client) -> None:
    for host in fleet.hosts[:5]:
        planted = {each.id: each for each in fleet.of(host)}
        answer = read_json(viewer, "/api/v1/history", q=f"host:{host}", metrics="iops")

        assert len(answer["lines"]) + answer["lines_left_out"] == len(planted)
        for line in answer["lines"]:
            each = planted[line["id"]]
            points = [point for point in answer["points"] if point["series"] == each.id]
            assert [point["iops"] for point in points] == each.values["iops"]
            assert [bool(point["error"]) for point in points] == [
                day in each.failed_days for day in range(fleet.plan.days)
            ]
            if each.is_drifting:
                continue
            assert line["levels"]["iops"][-1]["median"] == pytest.approx(each.median("iops"), rel=CLOSE)
            assert len(line["levels"]["iops"]) == 1 + len(each.step_days)


def test_runs_have_the_planted_values(fleet: Fleet, viewer: Client) -> None:
    planted = by_id(fleet)
    host = fleet.hosts[-1]

    rows = read_list(viewer, "/api/v1/runs", "runs", q=f"host:{host}", limit=200)
    csv_rows = read_csv(viewer, "/api/v1/runs", q=f"host:{host}")
    words = read_page(viewer, "/runs/", q=f"host:{host}")

    assert [row["id"] for row in rows] == [int(row["id"]) for row in csv_rows]
    for row in rows:
        moment = datetime.fromisoformat(row["started_at"])
        day = (moment - fleet.start_at) // DAY
        assert row["host"] == host
        assert row["has_failed"] == (day in fleet.list_failed_days(host))
        for each in row["measurements"]:
            assert each["iops"] == planted[each["series_id"]].values["iops"][day]
    assert ("× 1 failed" in words) == bool(fleet.list_failed_days(host))


def test_comparison_of_two_periods_is_that_of_their_medians(fleet: Fleet, viewer: Client) -> None:
    planted = by_id(fleet)
    numbers, upgraded_on = fleet.plan.upgraded
    days = (range(12, 14), range(max(upgraded_on, fleet.plan.days - 8), fleet.plan.days))
    query = {
        "a_from": to_iso(fleet.at(12)),
        "a_to": to_iso(fleet.at(14)),
        "b_from": to_iso(fleet.at(days[1].start)),
    }

    answer = read_json(viewer, "/api/v1/comparison", **query, metrics="iops")
    rows = read_csv(viewer, "/api/v1/comparison", **query, metrics="iops")
    words = read_page(viewer, "/compare/", **query, metric="iops")

    assert len(answer["pairs"]) == len(rows)
    for pair in answer["pairs"]:
        each = planted[pair["a_series"][0]]
        sides = [
            median(each.values["iops"][day] for day in own if day not in each.failed_days) for own in days
        ]
        assert pair["ratio"] == pytest.approx(sides[1] / sides[0], rel=CLOSE)
    assert {pair["a_series"][0] for pair in answer["pairs"]} == set(planted)
    upgraded = name_scopes([f"host:{name_host(number)}" for number in numbers])
    environment = f"Environment differences on {upgraded}: kernel (6.1.0 → 6.5.0)."
    assert (environment if upgraded else "No environment differences on ") in words


def test_pattern_that_lost_is_named_with_its_hosts(fleet: Fleet, viewer: Client) -> None:
    """Between days before and after all steps; the ratio that counts is 5 %."""
    before, after = slice(0, 14), slice(fleet.plan.days - 8, None)
    query = {"a_to": to_iso(fleet.at(14)), "b_from": to_iso(fleet.at(fleet.plan.days - 8)), "metrics": "iops"}
    lost: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in list_steady(fleet):
        ratio = each.median("iops", after) / each.median("iops", before)
        if each.is_worse:
            lost[each.scope][each.rw].append(ratio - 1)

    answer = read_json(viewer, "/api/v1/comparison", **query)

    drifting = {each.scope for each in fleet.series if each.is_drifting}
    found = {
        scope["scope"]: {
            each["pattern"]: (each["count"], pytest.approx(each["relative"], rel=CLOSE))
            for each in scope["differences"]
            if each["is_worse"]
        }
        for scope in answer["scopes"]
        if scope["worse"] and scope["scope"] not in drifting
    }
    assert found == {
        scope: {rw: (len(losses), median(losses)) for rw, losses in patterns.items()}
        for scope, patterns in lost.items()
    }
    largest = [
        min(each["relative"] for each in scope["differences"])
        for scope in answer["scopes"]
        if scope["scope"] in found
    ]
    assert largest == sorted(largest)
