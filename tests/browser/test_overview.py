"""The overview in Chromium: its chart, and pinned charts."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.watch import Watched


def test_chart_is_loaded_and_read_by_keyboard(visit: Callable[..., Watched]) -> None:
    watched = visit("/")
    page = watched.page
    expect(page.locator("[data-deferred]")).to_have_count(0)
    watched.wait_for_charts()

    chart = page.locator("[data-regressions]")
    expect(page.get_by_role("heading", name="series are worse than their earlier level")).to_be_visible()
    chart.locator(".chart-box").focus()
    page.keyboard.press("End")
    expect(chart.locator("output")).to_contain_text("3 still open, 0 ended since")
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    expect(chart.locator("output")).to_contain_text("0 still open, 0 ended since")
    page.get_by_text("Data table and API").click()
    with page.expect_download() as table:
        page.get_by_role("link", name="CSV").click()

    assert table.value.suggested_filename == "fleet-regressions.csv"
    assert watched.barriers() == []
    assert watched.complaints == []


def test_chart_that_fails_is_loaded_again_on_request(visit: Callable[..., Watched]) -> None:
    watched = visit("/incidents/")
    page = watched.page
    page.route("**/overview/charts/regressions/", lambda route: route.abort())

    page.goto("/")
    notice = page.locator("[data-deferred] [role=alert]")
    expect(notice).to_contain_text("The server cannot be reached")
    page.unroute("**/overview/charts/regressions/")
    notice.get_by_role("button", name="Try again").click()

    expect(page.locator("[data-regressions] .chart-box[data-drawn]")).to_be_visible()


def test_page_without_script_links_its_chart(visit: Callable[..., Watched]) -> None:
    page = visit("/", java_script_enabled=False).page

    page.get_by_role("link", name="Show chart").click()

    expect(page.get_by_role("row").first).to_contain_text("Still open")


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

    expect(page.get_by_role("heading", name="Pinned charts")).to_have_count(0)
    assert questions[0] == "Remove “Reads of db-01” from your overview? Measurements are not affected."
    assert watched.complaints == []
