"""The page that explains detection, in the order of the decision."""

import json
import re
from datetime import timedelta
from itertools import accumulate

import numpy as np
import pytest
from django.test import Client

from benchapp.models import Change, Incident, Level
from tests.detection.write.judging import add_runs, judge_all, make_cells, make_level
from tests.factories import NOON, make_host
from tests.pages import Page

pytestmark = pytest.mark.django_db


def test_sections_follow_the_order_of_the_decision(viewer: Client) -> None:
    (series,) = make_cells(
        make_host("db-1"),
        [[*make_level(1000.0, 40), *make_level(800.0, 10)]],
        kernels=["6.1"] * 40 + ["6.2"] * 10,
    )
    judge_all()

    response = viewer.get(f"/series/{series.pk}/detection/")

    words = Page(response).words
    titles = ["Values", "Level", "Noise", "Season", "Evidence", "Acceptance", "Grouping", "Possible causes"]
    places = [words.index(f"{number}. {title}") for number, title in enumerate(titles, start=1)]
    assert places == sorted(places)
    assert "Detection of IOPS: 1 change, steady" in words
    facts = {label: value for step in response.context["steps"] for label, value in step["facts"]}
    assert (facts["Evaluated"], facts["Runs"], facts["Threshold"]) == ("50 values", "10 runs", "5 %")


def test_page_has_the_history_that_it_draws(viewer: Client) -> None:
    (series,) = make_cells(make_host("db-1"), [make_level(1000.0, 40)])

    page = Page(viewer.get(f"/series/{series.pk}/detection/"))

    points = json.loads(page.scripts["history-document"])["points"]
    assert [point["iops"] for point in points] == make_level(1000.0, 40)


def test_drift_is_named_with_the_level_of_the_series_page(viewer: Client) -> None:
    slope = [value * (1 - 0.004 * index) for index, value in enumerate(make_level(1000.0, 60))]
    (series,) = make_cells(make_host("db-1"), [slope])
    judge_all()
    level = Level.objects.get(series=series, metric="iops", is_current=True)

    response = viewer.get(f"/series/{series.pk}/detection/")

    words = Page(response).words
    facts = {label: value for step in response.context["steps"] for label, value in step["facts"]}
    assert "Detection of IOPS: 1 drift, steady" in words
    assert facts["Median of the current level"] == f"{level.median:.0f} IOPS"
    assert facts["Runs"] == f"{level.n} runs"
    assert f"{level.median:.0f} IOPS, −22 % since" in Page(viewer.get(f"/series/{series.pk}/")).words


def test_accepted_change_has_its_test_its_incident_and_its_cause(viewer: Client) -> None:
    (series,) = make_cells(
        make_host("db-1"),
        [[*make_level(1000.0, 40), *make_level(800.0, 10)]],
        kernels=["6.1"] * 40 + ["6.2"] * 10,
    )
    judge_all()

    response = viewer.get(f"/series/{series.pk}/detection/")

    incident = Incident.objects.get()
    (line,) = response.context["acceptance"][1]
    assert (line["incident_id"], line["simultaneous"]) == (incident.pk, "1 series")
    assert response.context["acceptance"][0].startswith("A change opens an incident if noise alone")
    ((found, suspects),) = response.context["causes"]
    assert (found.id, [suspect["name"] for suspect in suspects]) == (incident.pk, ["kernel"])
    assert response.context["needs"] == []


def test_change_that_waits_says_what_it_needs(viewer: Client) -> None:
    noise = np.random.default_rng(3).normal(0, 0.03, (30, 46))
    noise[0, 40:] -= 0.1
    series = make_cells(make_host("db-1"), (1000 * (1 + noise)).tolist())
    for number in range(2, 60):
        make_host(f"db-{number}")
    judge_all()
    change = Change.objects.get(series=series[0])

    response = viewer.get(f"/series/{series[0].pk}/detection/")

    assert change.incident_id is None
    (line,) = response.context["acceptance"][1]
    assert (line["incident_id"], line["result"]) == (None, "waits: noise may cause it")
    (need,) = [text for text in response.context["needs"] if "opens an incident" in text]
    assert need.endswith("with more runs at the new level, or changes like it in 2 series in the same runs.")
    assert "below threshold" not in response.content.decode()


def test_change_below_the_threshold_names_the_threshold_that_would_report_it(viewer: Client) -> None:
    (series,) = make_cells(make_host("db-1"), [[*make_level(1000.0, 60), *make_level(965.0, 40)]])
    judge_all()

    response = viewer.get(f"/series/{series.pk}/detection/")

    (line,) = response.context["evidence_lines"]
    assert line["result"] == "below the threshold of 5 %"
    assert any(text.startswith("A threshold of 3.5 % would report") for text in response.context["needs"])


def test_series_without_enough_runs_says_how_many_are_missing(viewer: Client) -> None:
    (series,) = make_cells(make_host("db-1"), [make_level(1000.0, 4)])
    judge_all()

    response = viewer.get(f"/series/{series.pk}/detection/")

    assert response.context["needs"] == [
        "2 more valid runs needed: detection starts at 6.",
        "16 more runs until the noise of the series is known.",
    ]
    assert response.context["evidence_lines"] == []


def test_weekly_pattern_is_a_step_of_the_decision(viewer: Client) -> None:
    values = [
        value * (0.85 if (5 + index // 4) % 7 in (5, 6) else 1.0)
        for index, value in enumerate(make_level(1000.0, 240))
    ]
    (series,) = make_cells(
        make_host("db-1"), [values], start_at=NOON - timedelta(hours=12), step=timedelta(hours=6)
    )
    judge_all()

    response = viewer.get(f"/series/{series.pk}/detection/")

    (season,) = [step for step in response.context["steps"] if step["key"] == "season"]
    assert "Sat and Sun −15 %" in dict(season["facts"])["Weekly pattern"]


def test_metric_without_detection_is_an_error_that_names_the_others(viewer: Client) -> None:
    (series,) = make_cells(make_host("db-1"), [make_level(1000.0, 30)])

    response = viewer.get(f"/series/{series.pk}/detection/?metric=latency_p50_ns")

    assert response.status_code == 400
    assert "Detected metrics: iops, latency_mean_ns" in Page(response).words


def test_series_and_incident_link_to_the_explanation(viewer: Client) -> None:
    (series,) = make_cells(make_host("db-1"), [[*make_level(1000.0, 40), *make_level(800.0, 10)]])
    add_runs(series, [800.0])
    judge_all()

    link = f"/series/{series.pk}/detection/?metric=iops"

    assert link in viewer.get(f"/series/{series.pk}/?metric=bandwidth_bytes_per_s").content.decode()
    assert link in viewer.get(f"/incidents/{Incident.objects.get().pk}/").content.decode()


def test_one_run_has_no_standard_deviation(viewer: Client) -> None:
    (series,) = make_cells(make_host("db-1"), [[1000.0]])
    judge_all()

    steps = viewer.get(f"/series/{series.pk}/detection/").context["steps"]

    (noise,) = [step for step in steps if step["key"] == "noise"]
    assert noise["facts"][:2] == (("Standard deviation", "–"), ("Correlation of consecutive runs", "–"))


def test_noise_states_the_longer_delay_of_correlated_runs(viewer: Client) -> None:
    noise = np.random.default_rng(1).normal(0, 10, 120)
    values = list(accumulate(noise.tolist(), lambda before, new: 0.7 * before + new))
    (series,) = make_cells(make_host("db-1"), [[1000 + value for value in values]])
    judge_all()

    steps = viewer.get(f"/series/{series.pk}/detection/").context["steps"]

    (noise_step,) = [step for step in steps if step["key"] == "noise"]
    (sentence,) = noise_step["sentences"]
    assert re.fullmatch(r"Correlated runs .* takes [3-6]\.\d times as many runs as without .*", sentence)
