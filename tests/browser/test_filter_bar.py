"""The filter bar in a browser: completion by keys and pointer, chips, values, no script."""

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from tests.browser.watch import Watched

Visit = Callable[..., Watched]


def open_fields(page: Any) -> None:
    page.locator(".scope > .change:not([open]) > summary").click()


def field_of(page: Any) -> Any:
    return page.locator("#filter-q")


def options_of(page: Any) -> list[str]:
    return [str(text) for text in page.locator("[role=option] > :first-child").all_inner_texts()]


def wait_for_option(page: Any, text: str) -> None:
    page.locator("[role=option]", has_text=text).first.wait_for()


def test_f_leads_to_the_filter_and_is_a_letter_in_it(visit: Visit) -> None:
    page = visit("/series/").page

    page.keyboard.press("f")
    page.keyboard.type("fs:xfs")

    assert field_of(page).input_value() == "fs:xfs"


def test_names_then_values_are_completed_by_keys(visit: Visit) -> None:
    watched = visit("/series/")
    page = watched.page

    page.keyboard.press("f")
    page.keyboard.type("hos")
    wait_for_option(page, "host:")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    wait_for_option(page, "db-01")
    page.keyboard.type("db-01")
    expect(page.locator("[role=option]")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    assert field_of(page).input_value() == "host:db-01 "
    page.keyboard.press("Enter")

    page.wait_for_url("**/series/?q=host%3Adb-01*")
    assert page.locator(".scope .word").inner_text().split() == ["host", "db-01", "×"]
    assert watched.complaints == []


def test_list_of_completions_is_a_listbox(visit: Visit) -> None:
    watched = visit("/series/")
    page = watched.page
    field = field_of(page)
    open_fields(page)

    field.click()
    page.keyboard.type("vol")
    # Volume type, volumes, volume size.
    expect(page.locator("[role=option]")).to_have_count(3)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")

    assert (field.get_attribute("role"), field.get_attribute("aria-expanded")) == ("combobox", "true")
    active = page.locator(f"#{field.get_attribute('aria-activedescendant')}")
    assert active.get_attribute("aria-selected") == "true"
    assert watched.barriers() == []
    page.keyboard.press("Escape")
    assert field.get_attribute("aria-expanded") == "false"
    assert field.get_attribute("aria-activedescendant") is None
    assert field.input_value() == "vol"


def test_values_are_counted_under_the_rest_of_the_filter(visit: Visit) -> None:
    page = visit("/series/").page
    open_fields(page)

    field_of(page).click()
    page.keyboard.type("host:db-01 pattern:")
    wait_for_option(page, "randread")

    assert options_of(page) == ["randread", "randwrite"]
    assert page.locator("[role=option] > :last-child").all_inner_texts() == ["1 series", "1 series"]


def test_pointer_takes_a_completion(visit: Visit) -> None:
    page = visit("/series/").page
    open_fields(page)

    field_of(page).click()
    page.keyboard.type("fs:")
    page.locator("[role=option]", has_text="ext4").click()

    assert field_of(page).input_value() == "fs:ext4 "
    assert page.evaluate("document.activeElement.id") == "filter-q"


def test_chip_takes_its_term_out(visit: Visit) -> None:
    page = visit("/series/?q=host:db-01 fs:ext4").page

    page.get_by_role("link", name="Remove Host db-01").click()

    page.wait_for_url("**/series/?q=filesystem%3Aext4")


def test_word_of_a_filter_opens_its_values(visit: Visit) -> None:
    watched = visit("/series/?q=host:db-09")

    watched.page.locator(".scope .word summary").click()
    watched.page.locator(".scope [data-values] a", has_text="db-01").click()

    watched.page.wait_for_url("**/series/?q=host%3Adb-01")
    assert watched.complaints == []


def test_long_list_of_a_word_is_narrowed_by_typing(visit: Visit) -> None:
    page = visit("/scaling/?q=host:db-*").page

    page.locator(".scope summary").nth(1).click()
    page.get_by_label("Find in the list").fill("kern")

    assert page.locator(".scope .menu[open] a:visible").all_inner_texts() == ["Kernel"]


def test_what_there_is_can_be_clicked(visit: Visit) -> None:
    watched = visit("/runs/?from=2020-01-01&host=db-01")
    page = watched.page

    open_fields(page)
    page.get_by_text("Browse values").click()
    page.locator(".facet > summary", has_text="Filesystem").click()
    page.get_by_role("link", name="ext4").click()

    page.wait_for_url("**/runs/?from=2020-01-01&q=host%3Adb-01+filesystem%3Aext4")
    assert watched.complaints == []


def test_bar_is_a_plain_form_without_script(visit: Visit) -> None:
    page = visit("/series/", java_script_enabled=False).page

    open_fields(page)
    page.get_by_text("+ Add filter").click()
    page.get_by_label("Dimension").select_option("filesystem")
    page.get_by_label("Value").fill("ext4")
    page.get_by_role("button", name="Add").click()

    assert page.locator(".scope .word").inner_text().split() == ["filesystem", "ext4", "×"]
    assert field_of(page).input_value() == "filesystem:ext4"
    assert not page.get_by_text("Browse values").is_visible()


def test_natural_query_is_applied_and_shown_in_its_canonical_form(visit: Visit) -> None:
    watched = visit("/series/")
    page = watched.page

    open_fields(page)
    field_of(page).fill("gp3 at least 4 volumes random reads")
    page.keyboard.press("Enter")

    page.locator(".scope .word").first.wait_for()
    assert field_of(page).input_value() == "volume_count:>=4 pattern:randread gp3"
    assert watched.complaints == []


def test_time_range_and_metric_in_the_filter_set_those_of_the_page(visit: Visit) -> None:
    watched = visit("/history/")
    page = watched.page

    page.keyboard.press("f")
    field_of(page).fill("host db-01 p99 last week")
    page.keyboard.press("Enter")

    page.wait_for_url("**/history/?q=host%3Adb-01&*metric=latency_p99_ns*")
    first = page.locator("[name=from]").input_value()
    assert f"from={first}" in page.url
    assert watched.complaints == []


def test_invalid_filter_marks_the_wrong_part_and_links_to_corrections(visit: Visit) -> None:
    watched = visit("/scaling/?q=db-01 voluems:4&metric=iops", color_scheme="dark")
    page = watched.page

    assert "Unknown filter 'voluems'" in page.locator(".filter-errors").inner_text()
    assert page.locator(".filter-errors mark").inner_text() == "voluems:4"
    assert field_of(page).get_attribute("aria-describedby") == "filter-error"
    assert page.locator("canvas, table").count() == 0
    assert watched.barriers() == []
    page.get_by_role("link", name="db-01 volumes:4").click()
    page.wait_for_url("**/scaling/?q=db-01+volumes%3A4&metric=iops")
