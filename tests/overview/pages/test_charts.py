"""The charts of the overview: each has its data as a table and as an API answer."""

import csv
import io
import json
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.models import State, Submission
from tests.factories import (
    add_series,
    calculate_levels,
    make_change,
    make_host,
    make_series,
    make_submission,
    make_workload,
)
from tests.pages import Page
from tests.shared_rows import shared_rows

DAY = timedelta(days=1)
NAMES = ("fleet", "changes", "ingest")


@shared_rows
def planted() -> None:
    """Make two random reads, of which one halved three days ago, a change of it, and submissions."""
    now = timezone.now()
    for number, end in enumerate((100.0, 50.0)):
        series = make_series(
            [100.0] * 5 + [end] * 3,
            host=make_host(f"db-{number}"),
            workload=make_workload(rw="randread"),
            start_at=now - 7 * DAY,
            step=DAY,
        )
    calculate_levels()
    make_change(series, at=now, before=100.0, after=50.0)
    make_submission(state=State.REJECTED, received_at=now, settled_at=now)
    make_submission(state=State.RECEIVED, received_at=now)


def read_chart(client: Client, name: str) -> Page:
    return Page(client.get(reverse("overview_chart", args=[name])))


def read_document(client: Client, name: str) -> dict:
    text = client.get(reverse("overview_chart", args=[name])).content.decode()
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', text)[1])


def test_overview_links_the_charts_before_they_are_loaded(viewer: Client, planted: None) -> None:
    page = Page(viewer.get(reverse("home")))

    urls = [reverse("overview_chart", args=[name]) for name in NAMES]
    assert [named["data-deferred"] for _, named in page.tags if "data-deferred" in named] == urls
    assert set(urls) <= set(page.links)


def test_fleet_chart_has_the_numbers_of_its_table_and_of_the_api(viewer: Client, planted: None) -> None:
    page = read_chart(viewer, "fleet")
    (line,) = read_document(viewer, "fleet")["lines"]
    answer = viewer.get("/api/v1/fleet/levels").json()
    rows = list(csv.DictReader(io.StringIO(viewer.get("/api/v1/fleet/levels?format=csv").content.decode())))

    assert "Fleet throughput: random read at 75 % of its initial level" in page.words
    assert "100 %: the initial level of each series" in page.words
    assert line["name"] == "random read"
    assert line["values"][-1] == {"median": 0.75, "p10": 0.55, "p90": 0.95, "n": 2}
    assert re.search(rf"{timezone.now():%-d%b%Y}75\.055\.0–95\.02", page.words.replace(" ", ""))
    assert answer["days"][-1] == {
        "pattern": "randread",
        "day": f"{timezone.now():%Y-%m-%d}",
        **line["values"][-1],
    }
    assert float(rows[-1]["median"]) == 0.75
    assert rows[-1]["day"] == f"{timezone.now():%Y-%m-%d}"


def test_changes_chart_counts_the_series(viewer: Client, planted: None) -> None:
    page = read_chart(viewer, "changes")
    document = read_document(viewer, "changes")

    assert "Changes per week: 1 regression, 0 improvements in 13 weeks" in page.words
    assert [layer["values"][-1] for layer in document["layers"]] == [1, 0, 0]
    assert viewer.get("/api/v1/fleet/changes").json()["weeks"][-1]["regressions"] == 1
    assert viewer.get("/api/v1/fleet/changes?format=csv").status_code == 200


def test_ingest_chart_counts_submissions_and_reports_the_queue(viewer: Client, planted: None) -> None:
    page = read_chart(viewer, "ingest")
    answer = viewer.get("/api/v1/fleet/submissions").json()

    stored = Submission.objects.filter(state=State.STORED, received_at__gte=timezone.now() - 29 * DAY).count()
    assert f"{stored} stored, 1 rejected in 30 days; 1 waiting, oldest received now" in page.words
    assert (answer["days"][-1]["rejected"], answer["days"][-1]["received"]) == (1, 1)
    assert answer["oldest_at"]


def test_charts_of_an_empty_server_say_so(viewer: Client) -> None:
    assert "No series of these patterns was measured" in read_chart(viewer, "fleet").words
    assert "No changes began in the last 13 weeks" in read_chart(viewer, "changes").words
    assert "Nothing was received in the last 30 days" in read_chart(viewer, "ingest").words


def test_fleet_chart_begins_with_the_second_day(viewer: Client) -> None:
    """On its first day every series is at 100 %, which shows nothing."""
    today = timezone.now().replace(hour=0, minute=0, second=1)
    add_series([1000.0], start_at=today)
    first = read_chart(viewer, "fleet").words
    add_series([1000.0, 1000.0], start_at=today - DAY, step=DAY)
    second = read_chart(viewer, "fleet").words
    add_series([1000.0] * 3, start_at=today - 2 * DAY, step=DAY)

    assert "The chart begins with the second day of runs." in first
    assert "within" not in first
    assert "Fleet throughput by pattern, 90 days" in second
    assert "all patterns within 2 % of the initial level" in read_chart(viewer, "fleet").words


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ([100.0] * 10 + [None] * 6 + [40.0], "Fleet throughput by pattern, 90 days"),
        ([100.0] * 10 + [40.0], "all patterns within 2 % of the initial level"),
        ([100.0] * 10 + [40.0, 40.0], "random read at 40 % of its initial level"),
    ],
)
def test_one_day_is_no_change_of_the_fleet(values: list[float | None], title: str, viewer: Client) -> None:
    today = timezone.now().replace(hour=0, minute=0, second=1)
    add_series(values, start_at=today - (len(values) - 1) * DAY, step=DAY)

    assert title in read_chart(viewer, "fleet").words


def test_unknown_chart_is_named_with_the_valid_ones(viewer: Client) -> None:
    answer = viewer.get(reverse("overview_chart", args=["speed"]))

    assert answer.status_code == 404
    assert "Valid: fleet, changes, ingest" in Page(answer).words


@pytest.mark.parametrize("name", NAMES)
def test_charts_of_a_time_range_have_its_days_also_in_csv_and_api(
    viewer: Client, planted: None, name: str
) -> None:
    last = timezone.now() - 2 * DAY
    query = {"from": f"{last - 4 * DAY:%Y-%m-%d}", "to": f"{last:%Y-%m-%d}"}
    make_change(make_series(), at=last, before=100.0, after=50.0)
    make_submission(state=State.REJECTED, received_at=last, settled_at=last)

    page = Page(viewer.get(reverse("overview_chart", args=[name]), query))
    (link,) = (link for link in page.links if "format=csv" in link)
    rows = list(csv.DictReader(io.StringIO(viewer.get(link).content.decode())))

    days = {row["monday" if name == "changes" else "day"] for row in rows}
    assert days
    assert max(days) <= query["to"]
    assert min(days) >= f"{last - 11 * DAY:%Y-%m-%d}"
    assert all(day in page.scripts[None] for day in days)


@pytest.mark.parametrize("name", NAMES)
def test_range_without_runs_offers_to_remove_it(viewer: Client, planted: None, name: str) -> None:
    page = Page(
        viewer.get(
            reverse("overview_chart", args=[name]),
            {"from": "2019-01-01", "to": "2019-01-31", "q": "host:db-*"},
        )
    )

    assert "from 1 Jan 2019 to 31 Jan 2019. Remove the time range" in page.words
    assert "?q=host:db-*" in page.links


def test_overview_loads_the_charts_of_its_range(viewer: Client, planted: None) -> None:
    page = viewer.get(reverse("home"), {"from": "-30d", "q": "host:db-*"})
    wrong = viewer.get(reverse("home"), {"from": "-900d"})
    phrase = viewer.get(reverse("home"), {"q": "host:db-* last 7 days"})

    text = page.content.decode()
    assert 'data-deferred="/overview/charts/fleet/?from=-30d&amp;q=host%3Adb-%2A"' in text
    fields = [named for tag, named in Page(page).tags if tag == "input" and named.get("name") == "q"]
    assert [field["value"] for field in fields] == ["host:db-*"] * 2
    assert (wrong.status_code, Page(wrong).words.count("900 days are more than the 366")) == (400, 1)
    assert "data-deferred" not in wrong.content.decode()
    assert phrase.status_code == 302
    assert "from=" in phrase.headers["Location"]


@pytest.mark.parametrize("path", ["levels", "changes", "submissions"])
def test_api_refuses_too_many_days(viewer: Client, path: str) -> None:
    answer = viewer.get(f"/api/v1/fleet/{path}", {"from": "-900d"})

    assert (answer.status_code, answer.json()["pointer"]) == (400, "from")
    assert "900 days are more than the 366" in answer.json()["detail"]
    late = viewer.get("/api/v1/fleet/levels", {"to": "9998-01-01"}).json()
    assert (late["pointer"], "the year 9998 is not from" in late["detail"]) == ("to", True)
