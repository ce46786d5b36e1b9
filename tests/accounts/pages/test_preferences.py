"""Preferences of an account, and where they apply."""

from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import reverse

from benchapp.framework.times import find_zone
from benchapp.models import AuditRecord, Run, User
from tests.factories import calculate_levels, make_host, make_series
from tests.pages import Page

CHOSEN = {
    "time_zone": "Asia/Tokyo",
    "rate_units": "binary",
    "theme": "dark",
    "default_filter": "bs=4096   host:db-1",
}


def root_of(page: Page) -> dict[str, str | None]:
    return next(attributes for tag, attributes in page.tags if tag == "html")


@pytest.fixture
def run(db: Any) -> Run:
    """Make a run that started at noon, with 145 MB/s."""
    series = make_series([145e6], host=make_host("db-1"), metric="bandwidth_bytes_per_s")
    calculate_levels()
    return Run.objects.get(measurements__series=series)


def test_preferences_change_times_units_theme_and_links_of_pages(viewer: Client, run: Run) -> None:
    viewer.post(reverse("change_preferences"), CHOSEN)

    page = Page(viewer.get(reverse("run", args=[run.pk])))

    assert root_of(page)["data-time-zone"] == "Asia/Tokyo"
    assert (root_of(page)["data-theme"], root_of(page)["data-rate-units"]) == ("dark", "binary")
    assert "21:00 UTC+9" in page.words
    assert "MiB/s" in page.words
    assert "MB/s" not in page.words
    assert "/matrix/?q=block_size_bytes%3A4k+host%3Adb-1" in page.links
    assert "/layouts/" in page.links
    record = AuditRecord.objects.get(action="preferences_changed")
    assert record.after == {**CHOSEN, "default_filter": "block_size_bytes:4k host:db-1"}


def test_api_keeps_utc_and_base_units(viewer: Client, run: Run) -> None:
    before = viewer.get(f"/api/v1/runs/{run.pk}").content
    badge = viewer.get(f"/api/v1/status-badge?series={run.measurements.get().series_id}").content

    viewer.post(reverse("change_preferences"), CHOSEN)

    assert viewer.get(f"/api/v1/runs/{run.pk}").content == before
    assert viewer.get(f"/api/v1/status-badge?series={run.measurements.get().series_id}").content == badge


def test_default_filter_is_shown_as_such_and_applied_by_links_only(viewer: Client, run: Run) -> None:
    viewer.post(reverse("change_preferences"), {**CHOSEN, "default_filter": "host:db-7"})

    followed = Page(viewer.get("/runs/?q=host:db-7"))
    sent = Page(viewer.get("/runs/"))

    assert "Default filter of your account." in followed.words
    assert "/runs/" in followed.links, "one click removes it"
    assert f"/runs/{run.pk}/" not in followed.links
    assert f"/runs/{run.pk}/" in sent.links
    assert "Default filter of your account." not in sent.words


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("time_zone", "Mars/Base", "Mars/Base is not a time zone of this server"),
        ("default_filter", "host:", "host"),
        ("default_filter", "last week", "A time range is not part of a filter here"),
        ("default_filter", "iops", "iops is a metric"),
        ("rate_units", "bits", "not one of the available choices"),
        ("theme", "sepia", "not one of the available choices"),
    ],
)
def test_invalid_preference_is_refused_with_its_reason(
    viewer: Client, field: str, value: str, reason: str
) -> None:
    response = viewer.post(reverse("change_preferences"), {**CHOSEN, field: value})

    assert response.status_code == 400
    assert reason in Page(response).words
    assert User.objects.get().rate_units == "si"


@override_settings(PAGE_TIME_ZONE=find_zone("America/St_Johns"))
def test_time_zone_is_that_of_the_account_else_of_browser_or_server(viewer: Client) -> None:
    def read_zone(preference: str, cookie: str = "") -> str | None:
        User.objects.update(time_zone=preference)
        viewer.cookies["benchapp_time_zone"] = cookie
        return root_of(Page(viewer.get(reverse("account"))))["data-time-zone"]

    assert read_zone("Asia/Tokyo", "Europe/Berlin") == "Asia/Tokyo"
    assert read_zone("browser", "Europe/Berlin") == "Europe/Berlin"
    assert read_zone("browser", "../../etc/passwd") == "America/St_Johns"
    assert read_zone("browser") == "America/St_Johns"
    assert read_zone("", "Europe/Berlin") == "America/St_Johns"
    # A zone that a newer system does not have any more.
    assert read_zone("Mars/Base") == "America/St_Johns"
    assert root_of(Page(Client().get(reverse("sign_in"))))["data-time-zone"] == "America/St_Johns"


def test_switch_in_the_header_saves_the_theme(viewer: Client) -> None:
    assert viewer.post(reverse("change_theme"), {"theme": "light"}).json() == {"theme": "light"}
    assert viewer.post(reverse("change_theme"), {"theme": "sepia"}).status_code == 400

    assert User.objects.get().theme == "light"
