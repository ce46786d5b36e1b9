"""Schedule maintenance in the reader's time zone, preview its impact, and cancel it."""

from collections.abc import Callable

import pytest

from tests.browser.watch import Watched
from tests.browser.world import World

Visit = Callable[..., Watched]


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390)])
def test_maintenance_is_scheduled_in_the_reader_s_zone_previewed_and_canceled(
    visit: Visit, world: World, theme: str, width: int
) -> None:
    watched = visit(world.host, color_scheme=theme, width=width, timezone_id="Asia/Kolkata")
    page = watched.page
    page.get_by_role("link", name="Schedule maintenance").click()
    page.wait_for_selector("[name=zone] option:checked[value^=Asia]", state="attached")
    assert page.get_by_label("Time zone").input_value() in ("Asia/Kolkata", "Asia/Calcutta")
    assert page.get_by_label("Applies to").input_value() == "host:db-01"
    page.get_by_label("From").fill("2027-03-01T10:00")
    page.get_by_label("Until").fill("2027-03-01T12:00")

    page.get_by_role("button", name="Preview affected series").click()
    page.wait_for_selector("text=/Matches \\d+ series on 1 host \\(db-01\\)/")
    assert (watched.barriers(), watched.overhang_px()) == ([], 0)
    # What was written stays as it was written.
    assert page.get_by_label("From").input_value() == "2027-03-01T10:00"
    page.get_by_label("Reason").fill("new disks <b>tonight</b>")
    page.get_by_role("button", name="Save").click()

    page.wait_for_selector("text=Saved.")
    facts = page.inner_text("dl.facts")
    assert "1 Mar 2027 04:30 UTC" in facts
    assert "1 Mar 2027 06:30 UTC" in facts
    assert "new disks <b>tonight</b>" in page.inner_text("main")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector("h1:has-text('canceled')")
    assert (watched.barriers(), watched.overhang_px()) == ([], 0)
    assert watched.complaints == []
    assert watched.violations() == []


def test_filter_of_a_maintenance_is_completed(visit: Visit) -> None:
    watched = visit("/maintenance/add")
    page = watched.page
    field = page.get_by_label("Applies to")
    field.click()
    field.press_sequentially("host:db-01")

    page.wait_for_selector("[role=listbox] [role=option]:has-text('db-01')")
    field.press("ArrowDown")
    field.press("Enter")

    assert field.input_value().strip() == "host:db-01"


def test_times_stay_utc_without_script(visit: Visit) -> None:
    watched = visit("/maintenance/add", java_script_enabled=False, timezone_id="Asia/Kolkata")

    assert watched.page.get_by_label("Time zone").input_value() == "UTC"
