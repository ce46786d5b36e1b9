"""The tasks of CONTRIBUTING.md, "Tasks and clicks", in the documented number of clicks."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.watch import Watched

DOCUMENT = Path(__file__).parents[2] / "CONTRIBUTING.md"
# Task: (first page, what is clicked: role and name, or a selector, the page reached, text on it).
# Text that is typed, as ("type", selector, text), is no click: fields are reached with Tab.
Click = tuple[str, str] | tuple[str, str, str] | str
TASKS: dict[str, tuple[str, list[Click], str, str]] = {
    "Find the hosts that are slower after an upgrade": (
        "/",
        [("link", r"Kernel 5\.15\.0 → 6\.1\.0")],
        r"/compare/\?a=kernel:5\.15\.0&b=kernel:6\.1\.0$",
        "on db-09",
    ),
    "Chart throughput over stripe width by volume type": (
        "/",
        [
            "nav.places a:text-is('Explore')",
            "summary:text-is('common charts')",
            ("link", "Stripes by volume type"),
        ],
        r"/scaling/\?x=stripe_count&color=volume_type",
        "stripes",
    ),
    "See the evidence for the most severe open regression": (
        "/",
        ["section[aria-labelledby=incidents] tbody a >> nth=0"],
        r"/incidents/\d+/$",
        "Affected series",
    ),
    "Acknowledge the most severe open regression": (
        "/",
        ["section[aria-labelledby=incidents] tbody a >> nth=0", ("button", "^Acknowledge")],
        r"/incidents/\d+/$",
        "is acknowledged.",
    ),
    "Compare two runs": (
        "/runs/",
        [
            "tbody:nth-of-type(1) input[name=selected]",
            "tbody:nth-of-type(2) input[name=selected]",
            ("button", "^Compare"),
        ],
        r"/compare/\?",
        "Summary",
    ),
    "Open the history of a measurement of a run": (
        "/runs/",
        ["table.runs td.nowrap a >> nth=0"],
        r"/series/\d+/$",
        "Data table",
    ),
    "See the state of a host": (
        "/",
        ["section[aria-labelledby=hosts] a[href*='/hosts/db-09'] >> nth=0"],
        r"/hosts/db-09/$",
        "db-09",
    ),
    "Pin a chart to the overview": (
        "/scaling/?q=host:db-09",
        ["summary:text-is('Save')", ("button", "Pin to overview")],
        r"/scaling/\?",
        "Pinned to your overview.",
    ),
    "Choose a layout for a required throughput": (
        "/",
        [
            ("link", "^Choose a layout$"),
            ("type", "input[name=iops]", "1000"),
            ("button", "^Rank layouts$"),
        ],
        r"/layouts/\?.*iops=1000",
        "Required: 1\u202f000 IOPS, random read.",
    ),
    "Evaluate an A/B experiment": (
        "/compare/",
        [
            ("link", "^A.B experiment$"),
            ("type", "#experiment-a", "host:db-01 rw:randread"),
            ("type", "#experiment-b", "host:db-01 rw:randwrite"),
            ("type", "#experiment-from", "2020-01-01"),
            ("button", "^Evaluate$"),
        ],
        r"/experiment/\?",
        "pairs",
    ),
    "Save a view of a chart": (
        "/scaling/?q=host:db-09",
        [
            "summary:text-is('Save')",
            ("type", "#view-name", "Depths of db-09"),
            ("button", "^Save view$"),
        ],
        r"/scaling/\?",
        "View saved.",
    ),
    "Request a run for the most severe open regression": (
        "/",
        ["section[aria-labelledby=incidents] tbody a >> nth=0", ("button", "^Run again$")],
        r"/incidents/\d+/$",
        "1 run requested of db-09",
    ),
    "Add a note to a chart": (
        "/history/?q=host:db-09",
        [("link", "^Add note$"), ("type", "#id_reason", "moved to rack 8"), ("button", "^Save$")],
        r"/history/\?",
        "moved to rack 8",
    ),
    "Share a report with somebody without an account": (
        "/",
        [
            "nav.places a:text-is('Explore')",
            "summary:text-is('Save')",
            ("link", "Save as a report"),
            ("button", "^Save$"),
            ("button", "Create shared link"),
        ],
        r"/studies/\d+/$",
        "Anyone with this link can read this report",
    ),
    "Get the commands that add a host": (
        "/",
        ["nav.places a:text-is('Hosts')", ("button", "Create enrollment token")],
        r"/hosts/",
        "Copy it now",
    ),
    "Withdraw an invitation": (
        "/people/",
        ["section:has(#invitations) tr:has-text('viewer') button:text-is('Withdraw')"],
        r"/people/$",
        "withdrawn",
    ),
}
# What other tests of this folder do not expect: page ("": the same), button, and answer.
UNDO = {
    "Acknowledge the most severe open regression": ("", "^Undo", "is restored"),
    "Pin a chart to the overview": ("/", "^Remove", "Chart removed from your overview."),
    "Save a view of a chart": ("/views/", "^Delete .Depths of db-09", "View deleted"),
    "Request a run for the most severe open regression": ("", "^Cancel", "Request canceled."),
}


@pytest.mark.parametrize("task", TASKS)
def test_task_takes_the_documented_clicks(task: str, visit: Callable[..., Watched], world: object) -> None:
    start, clicks, address, text = TASKS[task]
    watched = visit(start)

    for click in clicks:
        if click[0] == "type":
            watched.page.locator(click[1]).fill(click[2])
            continue
        place = (
            watched.page.locator(click)
            if isinstance(click, str)
            else watched.page.get_by_role(click[0], name=re.compile(click[1])).first
        )
        place.click()
    watched.page.wait_for_url(re.compile(address))

    assert text in watched.page.inner_text("main")
    assert sum(click[0] != "type" for click in clicks) == read_documented_clicks()[task]
    assert watched.complaints == []
    if task in UNDO:
        page, name, answer = UNDO[task]
        watched.page.goto(page or watched.page.url)
        watched.page.once("dialog", lambda dialog: dialog.accept())
        watched.page.get_by_role("button", name=re.compile(name)).first.click()
        watched.page.get_by_text(answer).wait_for()


def test_every_documented_task_is_tested() -> None:
    documented = read_documented_clicks()

    # tests/intake/pages/test_uploads.py opens the page that an answer names.
    assert documented.keys() == TASKS.keys() | {"Open the result of a file sent with curl"}
    assert documented["Find the hosts that are slower after an upgrade"] <= 2
    assert documented["Chart throughput over stripe width by volume type"] <= 3
    assert documented["Share a report with somebody without an account"] <= 5
    assert documented["Get the commands that add a host"] <= 3
    assert documented["Withdraw an invitation"] <= 2
    assert documented["Open the result of a file sent with curl"] == 0


def read_documented_clicks() -> dict[str, int]:
    """Return the clicks of each task in the table of CONTRIBUTING.md."""
    rows = re.findall(
        r"^\| ([^|]+?) \| [^|]+ \| (\d+) \|",
        DOCUMENT.read_text().partition("\n## Tasks and clicks\n")[2],
        re.MULTILINE,
    )
    return {task: int(clicks) for task, clicks in rows}
