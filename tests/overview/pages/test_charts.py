"""The chart of the overview: its numbers are those of its table and of the API."""

import csv
import io
import json
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.models import Change, Incident
from tests.factories import make_change, make_host, make_incident, make_series
from tests.pages import Page
from tests.shared_rows import shared_rows

DAY = timedelta(days=1)


@shared_rows
def planted() -> None:
    """Make three series: one is worse since four days ago, one was for two days, one never."""
    now = timezone.now()
    for number, (start, end) in enumerate(((4, None), (9, 7), (None, None))):
        series = make_series([100.0] * 20, host=make_host(f"db-{number}"), start_at=now - 20 * DAY, step=DAY)
        if start:
            changes = [
                make_change(series, at=now - start * DAY, metric=name) for name in ("iops", "latency_mean_ns")
            ]
            make_incident(changes=changes, recovered_at=now - end * DAY if end else None)


def read_document(client: Client, **query: str) -> dict:
    text = client.get(reverse("regressions"), query).content.decode()
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', text)[1])


def read_rows(client: Client, address: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(client.get(address).content.decode())))


def test_series_are_counted_by_day_until_their_regression_ends(viewer: Client, planted: None) -> None:
    page = Page(viewer.get(reverse("regressions")))
    document = read_document(viewer)
    answer = viewer.get("/api/v1/fleet/regressions").json()
    (link,) = (link for link in page.links if "format=csv" in link)
    rows = read_rows(viewer, link)

    assert "1 of 3 series is worse than its earlier level" in page.words
    assert [layer["values"][-11:] for layer in document["layers"]] == [
        [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1],
        [0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert answer["series_count"] == 3
    assert answer["days"][-1] == {"day": f"{timezone.now():%Y-%m-%d}", "open": 1, "ended": 0}
    assert [(row["day"], int(row["open"])) for row in rows] == [
        (day["day"], day["open"]) for day in answer["days"]
    ]
    assert len(answer["days"]) == 90


def test_series_that_is_back_within_an_open_incident_has_ended(viewer: Client) -> None:
    now = timezone.now()
    lasting, back = (
        make_series([100.0] * 20, host=make_host(f"db-{n}"), start_at=now - 20 * DAY, step=DAY)
        for n in (1, 2)
    )
    incident = make_incident(changes=[make_change(each, at=now - 8 * DAY) for each in (lasting, back)])
    Change.objects.filter(series=back).update(evidence={"is_back": True})
    make_change(back, at=now - 3 * DAY, is_regression=False)

    days = viewer.get("/api/v1/fleet/regressions", {"from": "-10d"}).json()["days"]

    assert Incident.objects.get(pk=incident.pk).is_open
    assert [(day["open"], day["ended"]) for day in days] == [(0, 0)] + [(1, 1)] * 5 + [(1, 0)] * 4


def test_filter_and_range_select_series_and_days(viewer: Client, planted: None) -> None:
    last = f"{timezone.now() - 7 * DAY:%Y-%m-%d}"
    page = Page(viewer.get(reverse("regressions"), {"q": "host:db-1", "from": "-12d", "to": last}))
    days = viewer.get("/api/v1/fleet/regressions", {"q": "host:db-0"}).json()
    (link,) = (link for link in page.links if "format=csv" in link)

    assert "0 of 1 series were worse than their earlier level" in page.words
    assert max(row["day"] for row in read_rows(viewer, link)) <= last
    assert (days["series_count"], days["days"][-1]["open"]) == (1, 1)


def test_days_without_a_regression_say_so(viewer: Client) -> None:
    page = Page(viewer.get(reverse("regressions"), {"from": "2019-01-01", "to": "2019-01-31"}))

    assert "No regression in these days." in page.words


def test_overview_loads_the_chart_of_its_range(viewer: Client) -> None:
    make_series([100.0] * 20)
    page = viewer.get(reverse("home"), {"from": "-30d", "q": "-host:db-9"})
    wrong = viewer.get(reverse("home"), {"from": "-900d"})
    phrase = viewer.get(reverse("home"), {"q": "host:db-* last 7 days"})

    text = page.content.decode()
    assert 'data-deferred="/overview/charts/regressions/?from=-30d&amp;q=-host%3Adb-9"' in text
    assert "last 30 days" in Page(page).words
    assert (wrong.status_code, Page(wrong).words.count("900 days are more than the 366")) == (400, 1)
    assert "data-deferred" not in wrong.content.decode()
    assert phrase.status_code == 302
    assert "from=" in phrase.headers["Location"]


@pytest.mark.parametrize("path", ["levels", "changes", "regressions", "submissions"])
def test_api_refuses_too_many_days(viewer: Client, path: str) -> None:
    answer = viewer.get(f"/api/v1/fleet/{path}", {"from": "-900d"})

    assert (answer.status_code, answer.json()["pointer"]) == (400, "from")
    assert "900 days are more than the 366" in answer.json()["detail"]
    late = viewer.get("/api/v1/fleet/levels", {"to": "9998-01-01"}).json()
    assert (late["pointer"], "the year 9998 is not from" in late["detail"]) == ("to", True)
