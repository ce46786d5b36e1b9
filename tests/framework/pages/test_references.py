"""What known systems reached, beside the history of a profile that has such lines."""

import json

from django.test import Client
from django.urls import reverse

from benchapp.charts.texts.history import format_factor
from benchapp.models import Series
from tests.factories import calculate_levels, make_measurement, make_run, make_series, make_workload
from tests.pages import Page


def make_mixed_run(iops: float, *, profile: str = "gitlab-randrw", direction: str = "read"):
    run = make_run(profile=profile)
    workload = make_workload(rw="randrw", read_share_percent=75)
    series = make_series(host=run.host, workload=workload, direction=direction)
    make_measurement(run, series, iops=iops)
    return run


def open_series(viewer: Client, run) -> tuple[Page, list[dict]]:
    series = Series.objects.get(measurements__run=run)
    calculate_levels()
    page = Page(viewer.get(reverse("series", args=[series.pk])))
    (figure,) = [tag for name, tag in page.tags if name == "figure"]
    return page, json.loads(figure["data-references"])


def test_history_of_the_random_mix_draws_and_tells_known_systems(viewer: Client) -> None:
    page, lines = open_series(viewer, make_mixed_run(16_707.5))

    assert lines == [
        {"value": 33415.0, "label": "known good: SSD"},
        {"value": 2000.0, "label": "known bad: spinning disk"},
    ]
    assert "Known good: SSD (33\u202f415 IOPS): the level is 50 % of the reference." in page.words
    assert "Known bad: spinning disk (2\u202f000 IOPS): the level is 8.4x the reference." in page.words
    assert "Source: GitLab's documentation" in page.words


def test_known_systems_are_of_the_direction(viewer: Client) -> None:
    _, lines = open_series(viewer, make_mixed_run(700.0, direction="write"))

    assert [line["value"] for line in lines] == [11219.0, 700.0]


def test_other_profile_has_no_known_systems(viewer: Client) -> None:
    page, lines = open_series(viewer, make_mixed_run(700.0, profile="quick"))

    assert lines == []
    assert "Known good" not in page.words


def test_factor_is_in_per_cent_up_to_twice() -> None:
    assert [format_factor(factor) for factor in (0.5, 1.0, 1.994, 2.0, 8.36)] == [
        "50 % of the reference",
        "100 % of the reference",
        "199 % of the reference",
        "2.0x the reference",
        "8.4x the reference",
    ]
