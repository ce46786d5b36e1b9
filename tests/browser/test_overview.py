"""The overview in Chromium: cells of hosts by keyboard."""

from collections.abc import Callable

from django.utils import timezone
from playwright.sync_api import expect

from tests.browser.watch import Watched


def test_arrows_move_between_hosts_and_enter_opens_one(visit: Callable[..., Watched]) -> None:
    watched = visit("/")
    page = watched.page
    strip = page.locator("[data-host-strip]")
    readout = page.locator("[data-strip-readout]")
    assert strip.locator("a[tabindex='0']").count() == 1

    strip.locator("a").first.focus()
    page.keyboard.press("End")
    expect(readout).to_contain_text("db-09: ▼ IOPS −15 % since")
    page.keyboard.press("ArrowLeft")
    expect(readout).to_contain_text("db-03: last run")
    page.keyboard.press("Enter")

    page.wait_for_url(lambda url: url.endswith("/hosts/db-03/"))
    assert watched.complaints == []


def test_charts_are_loaded_and_read_by_keyboard(visit: Callable[..., Watched]) -> None:
    watched = visit("/")
    page = watched.page
    expect(page.locator("[data-deferred]")).to_have_count(0)
    watched.wait_for_charts()

    fleet = page.locator("[data-overview-chart=fleet]")
    expect(page.get_by_role("heading", name="Fleet throughput: random read at")).to_be_visible()
    fleet.locator(".chart-box").focus()
    page.keyboard.press("End")
    expect(fleet.locator("output")).to_contain_text("random write, ")
    page.keyboard.press("ArrowUp")
    expect(fleet.locator("output")).to_contain_text("random read, ")
    changes = page.locator("[data-overview-chart=changes]")
    changes.locator(".chart-box").focus()
    # The world's change is nine days old: of the last week, or on Mondays and Tuesdays of the week before that.
    for _ in range(1 if timezone.now().weekday() >= 2 else 2):
        page.keyboard.press("ArrowLeft")
    expect(changes.locator("output")).to_contain_text("3 regressions, 0 improvements")
    with page.expect_download() as image:
        fleet.get_by_role("button", name="PNG").click()

    assert image.value.suggested_filename == "fleet.png"
    assert watched.barriers() == []
    assert watched.complaints == []


def test_chart_that_fails_is_loaded_again_on_request(visit: Callable[..., Watched]) -> None:
    watched = visit("/incidents/")
    page = watched.page
    page.route("**/overview/charts/ingest/", lambda route: route.abort())

    page.goto("/")
    notice = page.locator("[data-deferred] [role=alert]")
    expect(notice).to_contain_text("The server cannot be reached")
    page.unroute("**/overview/charts/ingest/")
    notice.get_by_role("button", name="Try again").click()

    expect(page.locator("[data-overview-chart=ingest] .chart-box[data-drawn]")).to_be_visible()


def test_page_without_script_links_its_charts(visit: Callable[..., Watched]) -> None:
    page = visit("/", java_script_enabled=False).page
    assert page.locator("[data-strip-readout]").is_hidden()

    page.get_by_role("link", name="Show chart “Changes per week”").click()

    expect(page.get_by_role("row").first).to_contain_text("Regressions")


def test_chart_is_pinned_shown_moved_and_removed(visit: Callable[..., Watched]) -> None:
    watched = visit("/scaling/?q=host:db-01")
    page = watched.page
    page.click("summary:text-is('Save')")
    page.get_by_role("button", name="Pin to overview").click()
    expect(page.get_by_role("status").filter(has_text="Pinned to your overview.")).to_be_visible()
    page.goto("/history/?q=host:db-01")
    page.click("summary:text-is('Save')")
    page.get_by_role("button", name="Pin to overview").click()
    expect(page.get_by_role("status").filter(has_text="Pinned to your overview.")).to_be_visible()

    page.goto("/")
    expect(page.locator("[data-deferred]")).to_have_count(0)
    watched.wait_for_charts()
    assert page.locator(".pin [data-scaling], .pin [data-history]").count() == 2
    assert watched.barriers() == []
    page.get_by_role("button", name="Move up pinned chart 2").click()
    expect(page.locator(".pin").first.locator("[data-history]")).to_be_visible()
    page.locator(".pin").first.get_by_text("Title", exact=True).click()
    page.get_by_label("Title of pinned chart 1").fill("Reads of db-01")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Reads of db-01")).to_be_visible()
    questions = []
    page.on("dialog", lambda dialog: (questions.append(dialog.message), dialog.accept()))
    for _ in range(2):
        page.get_by_role("button", name="Remove pinned chart 1").click()
        expect(
            page.get_by_role("status").filter(has_text="Chart removed from your overview.")
        ).to_be_visible()

    expect(page.get_by_text("No pinned charts.")).to_be_visible()
    assert questions[0] == "Remove “Reads of db-01” from your overview? Measurements are not affected."
    assert watched.complaints == []
