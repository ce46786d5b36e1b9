"""Selected rows of a list, compared or shown as histories."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.framework.pages.selection import KINDS
from benchapp.models import Measurement
from tests.factories import (
    NOON,
    add_series,
    calculate_levels,
    make_change,
    make_host,
    make_incident,
    make_workload,
)
from tests.pages import Page

STEADY = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0]
HOUR = timedelta(hours=1)


def follow(client: Client, page: str, **query: Any) -> Page:
    """Send a selection as its form does, and return the page that it leads to."""
    response = client.get(reverse(page), query, follow=True)
    assert response.status_code == 200
    return Page(response)


def test_lists_offer_a_check_box_per_row_and_one_form(viewer: Client) -> None:
    series = add_series(STEADY, host=make_host("db-01"))
    run_ids = [str(run_id) for run_id in series.measurements.values_list("run_id", flat=True)]

    page = Page(viewer.get(reverse("runs")))

    boxes = [tag for name, tag in page.tags if name == "input" and tag.get("name") == "selected"]
    assert sorted(str(box["value"]) for box in boxes) == sorted(run_ids)
    assert {box["form"] for box in boxes} == {"selection"}
    assert f"Select run {run_ids[0]} on db-01" in {box["aria-label"] for box in boxes}
    (form,) = [tag for name, tag in page.tags if name == "form" and tag.get("id") == "selection"]
    assert form["action"] == "/compare/"
    assert "/history/" in {tag.get("formaction") for _, tag in page.tags}


def test_two_runs_are_compared_with_the_first_as_baseline(viewer: Client) -> None:
    series = add_series([100.0, 80.0], host=make_host("db-01"))
    old, new = series.measurements.order_by("started_at").values_list("run_id", flat=True)

    response = viewer.get(reverse("compare"), {"kind": "run", "selected": [new, old]})

    assert response.status_code == 302
    assert response["Location"] == f"/compare/?a_run={new}&b_run={old}"
    assert f"run {old} on db-01 vs. run {new} on db-01" in Page(viewer.get(response["Location"])).words


def test_two_series_are_compared_whatever_they_differ_in(viewer: Client) -> None:
    one = add_series(STEADY, host=make_host("db-01"))
    other = add_series(
        [value * 0.8 for value in STEADY], host=make_host("db-02"), workload=make_workload(iodepth=32)
    )

    page = follow(viewer, "compare", kind="series", selected=[one.pk, other.pk], metric="iops")

    assert "db-02, QD 32 vs. db-01, QD 8: 1 of 1 value worse, 0 better" in page.words
    assert "IOPS: 100 on db-01 → 80.0 on db-02 (−20 %" in page.words


def test_two_hosts_are_compared_by_their_filters(viewer: Client) -> None:
    for name in ("fast", "slow host"):
        add_series(STEADY, host=make_host(name))

    response = viewer.get(reverse("compare"), {"kind": "host", "selected": ["fast", "slow host"]})

    assert response["Location"] == "/compare/?a=host:fast&b=host:%22slow+host%22"
    assert "1 value the same" in Page(viewer.get(response["Location"])).words


def test_hosts_of_a_pool_are_compared_by_their_pools(viewer: Client) -> None:
    for name, pool in (("db-01", "db"), ("db-02", "db"), ("web-01", "web")):
        add_series(STEADY, host=make_host(name, pool=pool), pool=pool)
    make_host("lone")

    different = viewer.get(reverse("compare"), {"kind": "host", "selected": ["db-01", "web-01"]})
    same = viewer.get(reverse("compare"), {"kind": "host", "selected": ["db-01", "db-02"]})
    histories = viewer.get(reverse("history"), {"kind": "host", "selected": ["db-01", "web-01"]})
    mixed = viewer.get(reverse("history"), {"kind": "host", "selected": ["db-01", "lone"]})

    assert different["Location"] == "/compare/?a=pool:db&b=pool:web"
    assert "db-01 and db-02 belong to pool db, whose series they share." in Page(same).words
    assert histories["Location"] == "/history/?q=pool:db,web"
    assert "lone has its own series, the others the series of their pools (db)" in Page(mixed).words


@pytest.mark.parametrize("page", ["runs", "series_list", "hosts"])
def test_every_list_has_the_form(page: str, viewer: Client) -> None:
    add_series(STEADY, host=make_host("db-01"))

    found = Page(viewer.get(reverse(page)))

    assert "selection" in {tag.get("id") for name, tag in found.tags if name == "form"}
    assert "selection" in {tag.get("form") for _, tag in found.tags if tag.get("name") == "selected"}


def test_changes_of_an_incident_can_be_selected(viewer: Client) -> None:
    change = make_change(add_series(STEADY, host=make_host("db-01")))
    incident = make_incident(changes=[change])

    page = Page(viewer.get(reverse("incident", args=[incident.pk])))

    assert str(change.pk) in {tag.get("value") for _, tag in page.tags if tag.get("name") == "selected"}
    assert "Compare shows the runs before and after the selected changes." in page.words


def test_change_is_compared_between_its_two_levels(viewer: Client) -> None:
    series = add_series([50.0] * 6 + [100.0] * 6 + [80.0] * 6 + [120.0] * 6, host=make_host("db-01"))
    changes = [
        make_change(series, at=NOON + at * HOUR, before=before, after=after)
        for at, before, after in ((6, 50.0, 100.0), (12, 100.0, 80.0), (18, 80.0, 120.0))
    ]
    calculate_levels()

    response = viewer.get(reverse("compare"), {"kind": "change", "selected": changes[1].pk})

    assert response["Location"] == (
        f"/compare/?series={series.pk}&a_from=2026-11-21T18:00:00Z&a_to=2026-11-22T00:00:00Z"
        "&b_from=2026-11-22T00:00:00Z&b_to=2026-11-22T06:00:00Z&metric=iops"
    )
    page = Page(viewer.get(response["Location"]))
    assert "4k random read on db-01, IOPS: 100 → 80.0 (−20 %" in page.words
    assert "6 and 6 runs" in page.words


def test_incident_is_compared_before_its_first_and_after_its_last_change(viewer: Client) -> None:
    changes = [
        make_change(add_series([100.0] * 12 + [80.0] * 12, host=make_host(name)), at=NOON + at * HOUR)
        for name, at in (("db-01", 12), ("db-02", 13))
    ]
    calculate_levels()
    incident = make_incident(changes=changes)

    response = viewer.get(reverse("compare"), {"kind": "incident", "selected": incident.pk})

    ids = ",".join(str(change.series_id) for change in changes)
    assert f"series={ids}" in response["Location"]
    assert "a_to=2026-11-22T00:00:00Z&b_from=2026-11-22T01:00:00Z" in response["Location"]
    assert "2 of 2 hosts worse" in Page(viewer.get(response["Location"])).words


def test_environment_change_is_compared_30_days_before_and_after(viewer: Client) -> None:
    series = add_series([100.0] * 6 + [80.0] * 6, host=make_host("db-01"))
    run_id = series.measurements.order_by("started_at").values_list("run_id", flat=True)[6]
    query = {"kind": "environment", "selected": run_id}
    ranges = (
        "a_from=2026-10-22T18:00:00Z&a_to=2026-11-21T18:00:00Z"
        "&b_from=2026-11-21T18:00:00Z&b_to=2026-12-21T18:00:00Z"
    )

    of_host = viewer.get(reverse("compare"), query)
    of_series = viewer.get(reverse("compare"), {**query, "series": series.pk})

    assert of_host["Location"] == f"/compare/?q=host:db-01&{ranges}"
    assert of_series["Location"] == f"/compare/?series={series.pk}&{ranges}"
    assert "1 of 1 value worse" in Page(viewer.get(of_series["Location"])).words


def test_rows_of_changes_link_to_their_comparison(viewer: Client) -> None:
    series = add_series([100.0] * 12)
    change = make_change(series)

    page = Page(viewer.get(reverse("series", args=[series.pk])))

    assert f"/compare/?kind=change&selected={change.pk}" in page.links


@pytest.mark.parametrize("kind", ["run", "series", "host", "change", "incident", "environment"])
def test_selection_is_shown_as_histories(kind: str, viewer: Client) -> None:
    series = add_series(STEADY, host=make_host("db-01"))
    change = make_change(series)
    incident = make_incident(changes=[change])
    run_id = Measurement.objects.filter(series=series).values_list("run_id", flat=True)[0]
    values = {
        "run": run_id,
        "series": series.pk,
        "host": "db-01",
        "change": change.pk,
        "incident": incident.pk,
        "environment": run_id,
    }

    response = viewer.get(reverse("history"), {"kind": kind, "selected": values[kind]})

    chosen = "q=host:db-01" if kind in ("host", "environment") else f"series={series.pk}"
    assert response.status_code == 302
    assert chosen in response["Location"]
    assert "db-01" in Page(viewer.get(response["Location"], follow=True)).words


def test_list_hands_its_metric_on(viewer: Client) -> None:
    series = add_series(STEADY, metric="latency_p99_ns")

    response = viewer.get(
        reverse("history"), {"kind": "series", "selected": series.pk, "metric": "latency_p99_ns"}
    )

    assert response["Location"] == f"/history/?series={series.pk}&metric=latency_p99_ns"


@pytest.mark.parametrize(
    ("page", "query", "words"),
    [
        ("compare", {"kind": "run"}, "Nothing is selected. Select runs in the list."),
        ("compare", {"kind": "run", "selected": ["1"]}, "1 run is selected; select two to compare"),
        (
            "compare",
            {"kind": "series", "selected": ["1", "2", "3"]},
            "3 series are selected; select two to compare",
        ),
        ("compare", {"kind": "run", "selected": ["1", "x"]}, "'x' is not a valid run id."),
        ("compare", {"kind": "change", "selected": ["999"]}, "The selected changes do not exist"),
        (
            "compare",
            {"kind": "cell", "selected": ["1"]},
            "'cell' is not a valid kind of selection. Valid: run,",
        ),
        ("history", {"kind": "run", "selected": ["999"]}, "The selected runs do not exist"),
        ("history", {"kind": "run", "selected": ["9" * 30]}, "is not a valid run id."),
        (
            "history",
            {"kind": "series", "selected": [str(number) for number in range(13)]},
            "13 series are selected; History shows at most 12 in one chart.",
        ),
    ],
)
def test_selection_that_does_not_fit_is_an_error(
    page: str, query: dict[str, Any], words: str, viewer: Client
) -> None:
    response = viewer.get(reverse(page), query)

    assert response.status_code == 400
    assert words in Page(response).words


def test_more_series_than_an_address_holds_are_cut_with_a_note(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchapp.framework.pages.selection.SERIES_IDS_MAXIMUM", 1)
    changes = [
        make_change(add_series([100.0] * 12 + [80.0] * 12), at=NOON + 12 * HOUR, after=after)
        for after in (850.0, 700.0)
    ]
    incident = make_incident(changes=changes)

    page = follow(viewer, "compare", kind="incident", selected=incident.pk)

    assert "The changes affect 2 series; the 1 with the largest changes are compared." in page.words


def test_resolving_a_selection_takes_few_queries(viewer: Client, django_assert_num_queries) -> None:
    changes = [make_change(add_series([100.0] * 6)) for _ in range(5)]
    incident = make_incident(changes=changes)

    # The session and its person, the changes, their levels.
    with django_assert_num_queries(4):
        viewer.get(reverse("compare"), {"kind": "incident", "selected": incident.pk})


def test_kinds_have_limits() -> None:
    assert {kind.compare_most for kind in KINDS.values()} == {1, 2, 200}
