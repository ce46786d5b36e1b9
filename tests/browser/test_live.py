"""Pages that update themselves, in Chromium."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection
from playwright.sync_api import expect

from tests.browser.watch import Watched
from tests.browser.world import World

Visit = Callable[..., Watched]
# What a page does when it becomes visible; otherwise five seconds later.
LOOK = "document.dispatchEvent(new Event('visibilitychange'))"
HIDE = "Object.defineProperty(document, 'hidden', { configurable: true, get: () => true })"


@pytest.fixture
def database(server: str) -> Iterator[Any]:
    """Reach the rows that the server shows; tests put back what they change."""
    known = connection.settings_dict
    with psycopg.connect(
        host=known["HOST"], user=known["USER"], dbname=known["NAME"], autocommit=True
    ) as reached:
        yield reached


@pytest.fixture
def waiting(database: Any) -> Iterator[Callable[..., str]]:
    """Change the upload that waits; return its id."""
    (found,) = database.execute("SELECT id FROM benchapp_submission WHERE state = 'received'").fetchone()

    def change(state: str, reason: str = "", settled: str | None = "now()") -> str:
        database.execute(
            "UPDATE benchapp_submission SET state = %s, reason_code = %s, reason = %s, settled_at = "
            f"{settled or 'NULL'} WHERE id = %s",
            [state, "no-jobs" if reason else "", reason, found],
        )
        return str(found)

    yield change
    change("received", settled=None)


def test_upload_tells_when_it_is_stored(visit: Visit, waiting: Callable[..., str]) -> None:
    watched = visit(f"/uploads/{waiting('received', settled=None)}/")
    page = watched.page
    expect(page.get_by_role("heading", level=1)).to_have_text("Upload of db-01: waiting for a worker")

    waiting("stored")
    page.evaluate(LOOK)

    expect(page.get_by_role("heading", level=1)).to_have_text("Upload of db-01: stored")
    expect(page.get_by_role("heading", level=1)).to_have_class("is-new")
    expect(page.locator(".live-status")).to_contain_text(": Upload of db-01: stored")
    assert watched.barriers() == []
    assert watched.complaints == []


def test_update_of_the_overview_leaves_alone_what_a_person_does(
    visit: Visit, waiting: Callable[..., str]
) -> None:
    watched = visit("/")
    page = watched.page
    watched.wait_for_charts()
    page.get_by_text("change", exact=True).click()
    field = page.locator("[data-filter-bar] input[name=q]")
    field.fill("pool:c")
    page.get_by_role("link", name="db-09").first.focus()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('h2'))")
    page.evaluate("window.chart = document.querySelector('[data-regressions]')")

    waiting("rejected", "no jobs")
    page.evaluate(LOOK)

    expect(page.locator(".is-new")).to_contain_text("rejected in the last 7 days: no-jobs")
    expect(page.locator(".is-new")).to_have_count(1)
    expect(page.locator(".live-status")).to_contain_text(": Needs attention")
    expect(page.get_by_role("link", name="db-09").first).to_be_focused()
    expect(field).to_have_value("pool:c")
    assert page.evaluate("getSelection().toString()") == "Open incidents"
    assert page.evaluate("document.contains(window.chart) && window.chart.querySelector('canvas') !== null")
    assert watched.barriers() == []
    assert watched.complaints == []


def test_host_shows_the_progress_of_a_requested_run(visit: Visit, database: Any) -> None:
    (found,) = database.execute("SELECT id FROM benchapp_runrequest WHERE state = 'running'").fetchone()
    page = visit("/hosts/db-09/").page
    row = page.get_by_role("row").filter(has_text="running")
    expect(row.get_by_role("progressbar")).to_be_visible()

    database.execute(
        "UPDATE benchapp_runrequest SET state = 'failed', reason = 'no space' WHERE id = %s", [found]
    )
    page.evaluate(LOOK)

    expect(page.locator("tr.is-new")).to_contain_text("failed no space")
    expect(page.locator(".live-status")).to_contain_text(": Requested runs")
    database.execute("UPDATE benchapp_runrequest SET state = 'running', reason = '' WHERE id = %s", [found])


@pytest.fixture
def clocked(browser: Any, server: str, signed_in: Any) -> Iterator[Any]:
    """Give a page whose time passes when a test lets it."""
    context = browser.new_context(base_url=server, storage_state=signed_in)
    page = context.new_page()
    page.clock.install()
    yield page
    context.close()


def test_page_asks_while_it_is_visible_and_never_in_the_background(clocked: Any, world: World) -> None:
    answers: list[int] = []
    clocked.goto(world.host)
    clocked.on("response", lambda answer: answers.append(answer.status))
    while len(answers) < 3:
        clocked.clock.run_for(5_000)
    assert answers[:3] == [200, 304, 304]

    clocked.evaluate(HIDE)
    asked: list[str] = []
    clocked.on("request", lambda request: asked.append(request.url))
    clocked.clock.run_for(600_000)
    assert asked == []

    clocked.evaluate("delete document.hidden")
    with clocked.expect_response(f"**{world.host}"):
        clocked.evaluate(LOOK)


def test_page_tells_since_when_it_is_not_updated(clocked: Any, world: World) -> None:
    clocked.goto(world.host)
    status = clocked.locator(".live-status")

    clocked.route(f"**{world.host}", lambda route: route.abort())
    clocked.evaluate(LOOK)
    expect(status).to_contain_text("The server cannot be reached")
    expect(status).to_contain_text("Not updated since")

    clocked.unroute(f"**{world.host}")
    clocked.evaluate(LOOK)
    expect(status).to_be_empty()


def test_signed_out_page_stops_asking(clocked: Any, world: World) -> None:
    clocked.goto(world.host)
    clocked.context.clear_cookies()

    clocked.evaluate(LOOK)

    expect(clocked.locator(".live-status")).to_contain_text("You are signed out.")


def test_page_with_another_chart_is_loaded_again(clocked: Any, world: World) -> None:
    clocked.goto(world.run)
    page = clocked.content().replace("</main>", '<script type="application/json">[1]</script></main>')
    clocked.route(f"**{world.run}", lambda route: route.fulfill(body=page, content_type="text/html"), times=1)

    with clocked.expect_navigation():
        clocked.evaluate(LOOK)


def test_page_of_a_renamed_host_follows_its_name_and_keeps_input(clocked: Any, world: World) -> None:
    clocked.goto(world.host)
    moved = {"Location": "/hosts/"}
    clocked.route(f"**{world.host}", lambda route: route.fulfill(status=302, headers=moved), times=2)
    clocked.evaluate("document.querySelector('main').append(document.createElement('textarea'))")
    clocked.locator("main textarea").fill("a note")

    clocked.evaluate(LOOK)
    expect(clocked.locator(".live-status")).to_contain_text("reload it once your input is saved")
    clocked.locator("main textarea").fill("")

    with clocked.expect_navigation(url="**/hosts/"):
        clocked.evaluate(LOOK)


def test_charts_of_the_overview_are_renewed(clocked: Any) -> None:
    clocked.goto("/")
    expect(clocked.locator("[data-deferred]")).to_have_count(0)
    page = clocked.request.get("/").text().replace("</main>", "<p>news</p></main>")
    chart = clocked.request.get("/overview/charts/regressions/").text().replace("</h2>", " anew</h2>")
    clocked.route("**/", lambda route: route.fulfill(body=page, content_type="text/html"), times=1)
    answer = {"body": chart, "content_type": "text/html"}
    clocked.route("**/overview/charts/regressions/**", lambda route: route.fulfill(**answer), times=1)

    count = "Object.keys(Chart.instances).length"
    before = clocked.evaluate(count)

    clocked.clock.run_for(61_000)

    expect(clocked.locator("#regressions")).to_contain_text("anew")
    assert 0 < clocked.evaluate(count) <= before
